"""Coroutines that run at once, and become tasks only when they wait."""

import asyncio

import pytest

from mainstem.eager import run_eagerly


async def test_a_coroutine_that_does_not_wait_runs_at_once_without_a_task() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    assert run_eagerly(work()) is None
    assert done == [1]


async def test_a_coroutine_that_waits_continues_in_a_task() -> None:
    done: list[object] = []
    event = asyncio.Event()

    async def work() -> None:
        done.append("begun")
        await asyncio.sleep(0)
        await event.wait()
        done.append(await asyncio.to_thread(sum, [1, 2]))

    task = run_eagerly(work())
    assert task is not None
    assert done == ["begun"]
    event.set()
    await task
    assert done == ["begun", 3]


async def test_an_error_before_the_first_wait_reaches_the_caller_and_a_later_one_the_task() -> None:
    async def work(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError

    with pytest.raises(ValueError):
        run_eagerly(work(waits=False))
    task = run_eagerly(work(waits=True))
    assert task is not None
    with pytest.raises(ValueError):
        await task


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_cancelling_the_task_cancels_the_coroutine(turns: int) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    task = run_eagerly(work())
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended"]
