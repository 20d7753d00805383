import asyncio
from random import Random

import pytest

from mainstem.testing.simulation.loop import Crash, NothingToDo, VirtualClock, VirtualLoop


@pytest.fixture
def loop():
    loop = VirtualLoop(VirtualClock(), Random(1))
    yield loop
    loop.close()


def test_time_passes_at_once(loop):
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == pytest.approx(86_400)


def test_timers_run_in_the_order_of_their_times(loop):
    order: list[int] = []
    for delay in (3, 1, 2):
        loop.call_later(delay, order.append, delay)
    loop.run_until_complete(asyncio.sleep(4))
    assert order == [1, 2, 3]


def test_the_time_continues_with_another_loop():
    clock = VirtualClock()
    for _ in range(2):
        loop = VirtualLoop(clock, Random(1))
        loop.run_until_complete(asyncio.sleep(1))
        loop.close()
    assert clock.now_us() == pytest.approx(2_000_000)


def test_work_for_threads_runs_on_the_loop_after_a_while(loop):
    async def work():
        return await asyncio.to_thread(lambda: loop.time())

    assert loop.run_until_complete(work()) > 0


def test_errors_of_such_work_reach_the_caller(loop):
    async def fail():
        await asyncio.to_thread(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(fail())


def test_a_wait_for_something_that_never_happens_is_an_error(loop):
    async def wait():
        await loop.create_future()

    with pytest.raises(NothingToDo):
        loop.run_until_complete(wait())


@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_crash_leaves_the_loop_before_the_given_step(loop):
    steps = []

    async def count():
        for number in range(100):
            steps.append(number)
            await asyncio.sleep(0)

    loop.set_exception_handler(lambda loop, context: None)  # the task is destroyed
    loop.crash_at = 10
    with pytest.raises(Crash):
        loop.run_until_complete(count())
    assert steps == list(range(9))


def test_a_crash_skips_everything_that_was_to_run_next(loop):
    ran: list[int] = []
    loop.crash_at = 3
    for number in range(5):
        loop.call_soon(ran.append, number)
    with pytest.raises(Crash):
        loop.run_forever()
    assert ran == [0, 1]


def test_equal_generators_draw_equal_delays():
    def draw():
        loop = VirtualLoop(VirtualClock(), Random(5))
        delays = [loop.draw_delay_s() for _ in range(100)]
        loop.close()
        return delays

    assert draw() == draw()
