"""Sources of runs with faults: they raise, hang, yield garbage, or are faster than the server."""

import asyncio

import pytest

from mainstem import limits
from mainstem.ai import Runs, durable
from tests.ai.embedded import ABORT, embedded, read
from tests.ai.sources import Source
from tests.support.waits import eventually_async

ERROR = {"type": "error", "errorText": "The run failed."}


@embedded
async def test_a_source_that_raises_ends_with_an_error_that_reveals_nothing(runs, caplog):
    source = Source()
    run = await durable(source.read(), stream="raises")
    source.give("a", RuntimeError("password"))
    assert await run.wait() == "failed"
    assert await read(runs, "raises") == ["a", ERROR]
    assert "password" in caplog.text


@embedded
async def test_the_app_can_describe_errors(log):
    async with Runs(log, describe_error=lambda error: f"sorry: {error}") as runs:
        source = Source()
        run = await runs.start(source.read(), stream="described")
        source.give(RuntimeError("busy"))
        await run.wait()
        assert (await read(runs, "described"))[-1]["errorText"] == "sorry: busy"


@embedded
@pytest.mark.parametrize(("piece", "text"), [(object(), "cannot be stored"), ("x" * (10 << 20), "larger than")])
async def test_garbage_ends_the_run(runs, piece, text):
    source = Source()
    run = await durable(source.read(), stream="garbage")
    source.give("a", piece, "b")
    assert await run.wait() == "failed"
    first, last = await read(runs, "garbage")
    assert (first, last["type"]) == ("a", "error")
    assert text in last["errorText"]
    assert source.closed.is_set()


@embedded
async def test_a_source_that_hangs_ends_after_the_limit(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.05)
    monkeypatch.setattr(limits, "RUN_SILENCE_S", 0.2)
    async with Runs(log) as runs:
        source = Source()
        run = await runs.start(source.read(), stream="hangs")
        assert await run.wait() == "failed"
        assert "silent" in (await read(runs, "hangs"))[-1]["errorText"]


@embedded
async def test_a_source_that_ignores_its_cancellation_does_not_keep_the_run(runs, monkeypatch):
    monkeypatch.setattr(limits, "RUN_STOP_S", 0.05)
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        yield "late"

    run = await durable(stubborn(), stream="stubborn")
    await run.stop("enough")
    assert await run.wait() == "stopped"
    release.set()
    assert await read(runs, "stubborn") == [ABORT]


@embedded
async def test_something_that_is_no_source_is_an_error_and_ends_the_run(runs):
    run = await durable(lambda: 5, stream="nothing")  # type: ignore[arg-type,return-value]
    assert await run.wait() == "failed"
    assert (await runs.streams.head("nothing")).closed


@embedded
async def test_a_slow_server_holds_up_the_source(runs, monkeypatch):
    monkeypatch.setattr(limits, "RUN_BUFFER_BYTES_MAX", 1000)
    produced = 0

    async def endless():
        nonlocal produced
        while True:
            produced += 1
            yield "x" * 100

    blocked = asyncio.Event()
    real = runs.streams.append

    async def slow(*args, **options):
        await blocked.wait()
        return await real(*args, **options)

    monkeypatch.setattr(runs.streams, "append", slow)
    run = await durable(endless(), stream="slow")
    await eventually_async(lambda: produced >= 10)
    for _ in range(100):
        await asyncio.sleep(0)
    assert produced < 40
    blocked.set()
    await run.stop("enough")
    assert await run.wait() == "stopped"
