"""Sources of runs with faults: they raise, hang, yield garbage, or are faster than the server."""

import asyncio

import pytest

from mainstem import limits
from mainstem.ai import Runs, durable
from mainstem.ai.errors import TooManyRuns
from mainstem.client import BadArgument
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
async def test_an_error_of_a_library_is_not_taken_for_an_invalid_piece(runs):
    source = Source()
    run = await durable(source.read(), stream="library")
    source.give(BadArgument("the key k-123 is wrong"))
    assert await run.wait() == "failed"
    assert await read(runs, "library") == [ERROR]


@embedded
@pytest.mark.parametrize("described", [None, 5, "\ud800", "x" * 10_000, ZeroDivisionError()], ids=repr)
async def test_whatever_describe_error_does_the_run_ends(log, described):
    def describe(error):
        if isinstance(described, Exception):
            raise described
        return described

    async with Runs(log, describe_error=describe) as runs:
        source = Source()
        run = await runs.start(source.read(), stream="described")
        source.give(RuntimeError())
        assert await run.wait() == "failed"
        text = (await read(runs, "described"))[-1]["errorText"]
        assert isinstance(text, str)
        assert 0 < len(text) <= limits.RUN_REASON_CHARS_MAX


@embedded
async def test_a_source_that_raises_no_exception_but_something_else_fails(runs):
    class Exit(BaseException):
        pass

    async def leave():
        yield "a"
        raise Exit

    run = await durable(leave(), stream="leaves")
    assert await run.wait() == "failed"
    assert await read(runs, "leaves") == ["a", ERROR]


@embedded
async def test_a_source_that_never_waits_leaves_time_for_others_and_fits_into_appends(runs, monkeypatch):
    monkeypatch.setattr(limits, "APPEND_MESSAGES_MAX", 20_000)
    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def burst():
        for _ in range(100_000):
            yield 1

    others = asyncio.create_task(take_turns())
    run = await durable(burst(), stream="burst")
    assert await run.wait() == "finished"
    others.cancel()
    assert await read(runs, "burst") == [1] * 100_000
    assert turns >= 1_000


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
    release, late = asyncio.Event(), []

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        for number in range(3):
            late.append(number)
            yield "late"

    run = await durable(stubborn(), stream="stubborn")
    await run.stop("enough")
    assert await run.wait() == "stopped"
    release.set()
    await eventually_async(lambda: late)
    for _ in range(10):
        await asyncio.sleep(0)
    assert late == [0], "nothing more is read from it"
    assert runs._buffered.total == 0
    assert await read(runs, "stubborn") == [ABORT]


@embedded
async def test_a_run_has_ended_while_its_source_cleans_up(runs, monkeypatch):
    monkeypatch.setattr(limits, "RUNS_MAX", 1)
    entered, cleaned_up = asyncio.Event(), asyncio.Event()

    async def slow():
        try:
            entered.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            await cleaned_up.wait()

    run = await durable(slow, id="chat", stream="chat/1")
    await entered.wait()
    await run.stop("enough")
    assert await run.wait() == "stopped"
    with pytest.raises(TooManyRuns):
        await durable(slow, id="chat", stream="chat/2")
    monkeypatch.setattr(limits, "RUNS_MAX", 2)
    assert (await durable(Source().read, id="chat", stream="chat/2")).new
    cleaned_up.set()
    await eventually_async(lambda: len(runs._executions) == 1)


async def answer_at_once():
    return "an answer"


@embedded
@pytest.mark.parametrize("returned", [5, "text", None, ["a"]], ids=repr)
async def test_a_callable_that_returns_no_source_fails_the_run(runs, caplog, returned):
    run = await durable(lambda: returned, stream="nothing")
    assert await run.wait() == "failed"
    assert await read(runs, "nothing") == [ERROR]
    assert f"must be an async iterator, and is of type {type(returned).__name__}" in caplog.text


@embedded
async def test_a_function_that_returns_its_answer_fails_the_run(runs, caplog):
    run = await durable(answer_at_once, stream="returned")  # type: ignore[arg-type]
    assert await run.wait() == "failed"
    assert "must be an async iterator, and is of type coroutine" in caplog.text


@embedded
@pytest.mark.parametrize("make", [lambda: "text", lambda: ["a"], lambda: iter("a"), answer_at_once, lambda: None])
async def test_something_that_is_no_source_is_refused(runs, make):
    with pytest.raises(BadArgument, match="must be an async iterator, or a callable that returns one"):
        await durable(make(), stream="nothing")
    assert await runs.all() == []


@embedded
async def test_a_slow_server_holds_up_the_source(runs, monkeypatch):
    monkeypatch.setattr(limits, "RUN_BUFFER_BYTES_MAX", 2000)
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
