import asyncio

import pytest

from mainstem import limits
from mainstem.client.state import Control, Missed, StateFailed
from mainstem.client.state.subscription import StateListeners

RESET = Control("reset")


async def test_every_listener_receives_every_change_and_ends():
    listeners = StateListeners()
    first, second = listeners.add(), listeners.add()
    listeners.publish([RESET, Control("snapshot-start")])
    for listener in listeners.end():
        listener.end()
    for listener in (first, second):
        assert [change async for change in listener] == [RESET, Control("snapshot-start")]


async def test_a_listener_waits_for_the_next_change():
    listeners = StateListeners()
    listener = listeners.add()
    waiting = asyncio.ensure_future(anext(listener))
    await asyncio.sleep(0)
    listeners.publish([RESET])
    assert await waiting == RESET


async def test_a_slow_listener_receives_how_much_it_missed(monkeypatch):
    monkeypatch.setattr(limits, "CLIENT_STATE_CHANGES_MAX", 4)
    listeners = StateListeners()
    listener = listeners.add()
    listeners.publish([RESET] * 10)
    listener.end()
    received = [change async for change in listener]
    assert received == [Missed(7), RESET, RESET, RESET]


async def test_a_failure_is_raised_after_the_changes():
    listeners = StateListeners()
    listener = listeners.add()
    listeners.publish([RESET])
    listener.end(StateFailed("state p has failed: why"))
    assert await anext(listener) == RESET
    for _ in range(2):
        with pytest.raises(StateFailed, match="why"):
            await anext(listener)


async def test_a_listener_without_references_is_forgotten():
    listeners = StateListeners()
    listeners.add()
    assert listeners.end() == []
