import asyncio

from mainstem.ai.turns import Turns


async def test_those_that_wait_get_their_turns_in_order():
    turns, loop = Turns(1), asyncio.get_running_loop()
    assert turns.take()
    assert not turns.take()
    first, second = loop.create_future(), loop.create_future()
    turns.wait(first)
    turns.wait(second)
    turns.give_back()
    assert first.result() is True
    assert not second.done()
    turns.give_back()
    assert second.result() is True
    turns.give_back()
    assert turns.take()


async def test_one_that_has_given_up_loses_no_turn():
    turns, loop = Turns(1), asyncio.get_running_loop()
    assert turns.take()
    for give_up in (lambda turn: turn.set_result(False), asyncio.Future.cancel):
        turn = loop.create_future()
        turns.wait(turn)
        give_up(turn)
    turns.give_back()
    assert turns.take()
