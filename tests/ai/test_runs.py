"""Runs on an embedded log: writing, one run per id, and stopping."""

import asyncio

import pytest

from mainstem import limits
from mainstem.ai import Run, Runs, durable, resume
from mainstem.ai.errors import RunNotFound, RunsNotOpen, StreamInUse
from mainstem.client import BadArgument
from tests.ai.embedded import ABORT, embedded, find, read, wait_for
from tests.ai.sources import Source, count
from tests.support.waits import eventually_async

# Writing


@embedded
async def test_a_run_writes_everything_its_source_yields_and_closes_the_stream(runs):
    run = await durable(count(1000), stream="answers/1")
    assert (run.new, run.id, run.stream) == (True, "answers/1", "answers/1")
    assert await run.wait() == "finished"
    assert "".join(await read(runs, "answers/1")) == "".join(f"{number} " for number in range(1000))
    assert (await runs.streams.head("answers/1")).closed
    assert (await runs.streams.head("answers/1")).ttl_s == limits.RUN_TTL_S


@embedded
async def test_pieces_that_arrive_together_are_one_append(runs):
    run = await durable(count(500), stream="batched")
    await run.wait()
    batches = [batch async for batch in runs.streams.follow("batched")]
    assert len(batches) < 50


@embedded
async def test_the_first_piece_is_stored_before_the_second_arrives(runs):
    source = Source()
    run = await durable(source.read(), stream="first")
    source.give("now")
    await wait_for(runs, "first", ["now"])
    source.finish()
    assert await run.wait() == "finished"


@embedded
async def test_a_run_does_not_depend_on_the_task_that_started_it(runs):
    source = Source()
    request = asyncio.create_task(durable(source.read(), stream="detached"))
    run = await request
    request.cancel()
    source.give("on")
    source.finish()
    assert await run.wait() == "finished"
    assert await read(runs, "detached") == ["on"]


@embedded
async def test_readers_follow_from_the_beginning_and_to_the_end(runs):
    source = Source()
    run = await durable(source.read(), id="chat", stream="chats/1")
    source.give("a")
    await wait_for(runs, "chats/1", ["a"])
    late = run.follow()
    assert (await anext(late)).data == b'["a"]'
    source.give("b")
    source.finish()
    assert b"".join([batch.data async for batch in late]) in (b'["b"]', b'["b"][]')


@embedded
async def test_a_message_that_python_cannot_hold_ends_no_registry(runs, log):
    foreign = b'[{"type":"start","run":1e400},{"type":"end","id":' + b"9" * 5000 + b"}]"
    await runs.streams.append("_mainstem/runs", foreign, content_type="application/json")
    run = await durable(count(1), stream="after")
    assert await run.wait() == "finished"
    async with Runs(log) as others:
        assert (await find(others, "after")).status == "finished"


# One run per id


@embedded
async def test_a_second_start_with_the_same_id_returns_the_first(runs):
    source, other = Source(), Source()
    first = await durable(source.read, id="one")
    second = await durable(other.read, id="one")
    assert (first.new, second.new, second.stream) == (True, False, first.stream)
    source.finish()
    assert await second.wait() == "finished"
    assert not other.started


@embedded
async def test_starts_at_the_same_moment_start_one_run(runs, log):
    async with Runs(log) as others:
        sources = [Source() for _ in range(20)]
        started = await asyncio.gather(
            *((runs if n % 2 else others).start(source.read, id="race") for n, source in enumerate(sources))
        )
        assert [run.new for run in started].count(True) == 1
        assert len({run.stream for run in started}) == 1
        await started[0].stop("enough")
        assert await started[0].wait() == "stopped"
        assert [source.started for source in sources].count(True) == 1
        assert await read(runs, started[0].stream) == [ABORT]


@embedded
async def test_a_start_after_the_end_returns_the_finished_run(runs):
    await (await durable(count(1), stream="done")).wait()
    source = Source()
    again = await durable(source.read, stream="done")
    assert not again.new
    assert await again.wait() == "finished"
    assert not source.started


@embedded
async def test_resume_finds_active_finished_and_forgotten_runs(runs, log):
    await (await durable(count(1), stream="done")).wait()
    assert getattr(await resume("done"), "status", None) == "finished"
    assert await resume("missing") is None
    async with Runs(log, registry="other/registry") as strangers:
        assert getattr(await strangers.resume("done"), "status", None) == "finished"
        assert await strangers.find("done") is None


@embedded
@pytest.mark.parametrize("outcome", ["stopped", "failed", "lost"])
@pytest.mark.parametrize("format", ["plain", "ui-messages", "ag-ui"])
async def test_a_run_that_did_not_finish_is_not_taken_for_one_that_did(runs, log, outcome, format):
    """Neither by a second start, nor by a process that knows nothing but the stream."""
    source = Source()
    run = await durable(source.read(), stream="ended", format=format)
    if outcome == "stopped":
        await run.stop("enough")
    elif outcome == "failed":
        source.give(ValueError())
    else:
        await runs._endings.end_lost(run.record)
    assert await run.wait() == outcome
    again = await durable(Source().read, stream="ended", format=format)
    assert (again.new, await again.wait(), again.reason) == (False, outcome, run.reason or again.reason)
    async with Runs(log, registry="other/registry") as strangers:
        resumed = await strangers.resume("ended")
        assert resumed is not None
        assert (resumed.status, resumed.reason) == (outcome, again.reason)


@embedded
async def test_a_stream_with_other_data_is_refused_and_unchanged(runs):
    await runs.streams.create("taken", "application/json", body=b'["mine"]')
    with pytest.raises(StreamInUse):
        await durable(count(1), stream="taken")
    assert await read(runs, "taken") == ["mine"]
    assert (await find(runs, "taken")).status == "failed"


@embedded
@pytest.mark.parametrize(("first_closes", "second_closes"), [(True, True), (True, False), (False, True)])
async def test_two_runs_with_one_stream_exclude_each_other(runs, log, first_closes, second_closes):
    async with Runs(log) as others:
        source = Source()
        results = await asyncio.gather(
            runs.start(source.read, id="1", stream="same", close=first_closes),
            others.start(source.read, id="2", stream="same", close=second_closes),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [Run, StreamInUse]
        source.give("a")
        source.finish()
        assert await (await find(others, "1")).wait() == "finished"
        assert (await find(runs, "2")).status == "failed"
        assert await read(runs, "same") == ["a"]


@embedded
async def test_runs_that_leave_their_stream_open_may_share_it(runs):
    source = Source()
    first = await durable(source.read, id="1", stream="shared", close=False)
    second = await durable(source.read, id="2", stream="shared", close=False)
    assert (first.new, second.new) == (True, True)


@embedded
async def test_the_registry_is_no_stream_for_runs(log):
    async with Runs(log, registry="own/registry") as runs:
        for stream in ("own/registry", "_mainstem/runs", "_mainstem/other"):
            with pytest.raises(BadArgument, match="not for runs"):
                await runs.start(count(1), id="a", stream=stream)


@embedded
@pytest.mark.parametrize("closed", [True, False])
async def test_a_stream_of_text_is_no_run_and_takes_none(runs, closed):
    await runs.streams.create("text", "text/plain", body=b"mine", closed=closed)
    assert await resume("text") is None
    for close in (True, False):
        with pytest.raises(StreamInUse, match="text/plain"):
            await durable(count(1), id=f"run-{close}", stream="text", close=close)
    assert await runs.streams.read_text("text") == "mine"


@embedded
@pytest.mark.parametrize(
    "names",
    [
        {"id": "a\nb"},
        {"id": "x" * 513},
        {"id": "../b"},
        {"stream": "a/../b"},
        {"id": "fine", "stream": "x" * 1025},
        {"id": "fine", "tag": "x" * 513},
        {"id": "fine", "tag": "\ud800"},
    ],
    ids=lambda names: repr(names)[:24],
)
async def test_names_that_cannot_be_kept_start_nothing(runs, names):
    source = Source()
    with pytest.raises(BadArgument):
        await durable(source.read, **names)
    assert (source.started, await runs.all()) == (False, [])


@embedded
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"format": "nope"}, "must be one of: plain, ui-messages, ag-ui"),
        ({"ttl_s": 2}, "must be at least 900"),
        ({"ttl_s": limits.RUN_SILENCE_S}, "must be at least 900"),
    ],
)
async def test_options_that_cannot_be_kept_start_nothing(runs, options, text):
    source = Source()
    with pytest.raises(BadArgument, match=text):
        await durable(source.read, **options)
    assert (source.started, await runs.all()) == (False, [])
    assert (await durable(count(1), ttl_s=None)).new


@embedded
async def test_a_stream_that_stays_open_takes_one_run_after_the_other(runs):
    for _ in range(2):
        run = await durable(count(1), id="session", stream="session", close=False)
        assert await run.wait() == "finished"
    assert await read(runs, "session") == ["0 ", "0 "]
    assert not (await runs.streams.head("session")).closed


@embedded
async def test_a_run_that_has_ended_stays_ended_for_those_who_hold_it(runs):
    source = Source()
    first = await durable(source.read(), id="session", stream="session", close=False)
    source.finish()
    await eventually_async(lambda: "session" not in runs.shared.registry.active)
    second = await durable(Source().read(), id="session", stream="session", close=False)
    assert await first.wait() == "finished"
    assert await first.stop("too late") == "finished"
    assert second.status == "running"


@embedded
async def test_a_run_whose_stream_somebody_closes_has_not_finished(runs):
    source = Source()
    run = await durable(source.read(), stream="cut")
    source.give("a")
    await wait_for(runs, "cut", ["a"])
    await runs.streams.close("cut")
    source.give("b")
    assert (await run.wait(), run.reason) == ("lost", "another process or program has ended the stream of this run")
    await source.closed.wait()


@embedded
async def test_a_run_shows_what_it_is(runs):
    source = Source()
    run = await durable(source.read(), stream="shown")
    assert repr(run) == "<Run 'shown', running>"
    source.finish()
    await run.wait()
    assert repr(run) == "<Run 'shown', finished>"


# Stopping


@embedded
async def test_a_stop_ends_the_source_and_tells_the_readers(runs):
    source = Source()
    run = await durable(source.read(), stream="stopped")
    source.give("so far")
    await wait_for(runs, "stopped", ["so far"])
    assert await run.stop("enough") == "stopping"
    assert await run.wait() == "stopped"
    assert source.closed.is_set()
    assert await read(runs, "stopped") == ["so far", ABORT]
    assert (await runs.streams.head("stopped")).closed


@embedded
async def test_a_stop_works_from_another_process(runs, log):
    source = Source()
    run = await durable(source.read(), id="far", runs=runs)
    async with Runs(log) as others:
        found = await find(others, "far")
        await found.stop("enough")
        assert await found.wait() == "stopped"
    assert await run.wait() == "stopped"


@embedded
async def test_a_stop_does_not_wait_for_the_turns_of_other_runs(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_APPENDS_MAX", 1)
    async with Runs(log) as runs:
        real, blocked = runs.streams.append, asyncio.Event()

        async def hang(path, *args, **options):
            if path == "first":
                await blocked.wait()
            return await real(path, *args, **options)

        monkeypatch.setattr(runs.streams, "append", hang)
        first, second = Source(), Source()
        slow = await runs.start(first.read(), stream="first")
        first.give("a")
        await eventually_async(lambda: first.started)
        run = await runs.start(second.read(), stream="second")
        second.give("b")
        await run.stop("enough")
        assert await run.wait() == "stopped"
        assert await read(runs, "second") == ["b", ABORT]
        blocked.set()
        first.finish()
        assert await slow.wait() == "finished"


@embedded
async def test_stopping_twice_after_the_end_and_before_the_start(runs):
    with pytest.raises(RunNotFound):
        await runs.stop("never")
    source = Source()
    run = await durable(source.read(), stream="twice")
    await asyncio.gather(run.stop("enough"), run.stop("enough"))
    assert await run.wait() == "stopped"
    assert await run.stop() == "stopped"
    assert await read(runs, "twice") == [ABORT]


@embedded
async def test_a_run_that_is_stopped_before_it_begins_reads_nothing(runs, log, monkeypatch):
    real = runs.streams.create

    async def stop_first(path, *args, **options):
        await runs.stop("early", "enough")
        await runs.find("early")
        return await real(path, *args, **options)

    monkeypatch.setattr(runs.streams, "create", stop_first)
    source = Source()
    run = await durable(source.read, id="early", stream="early")
    assert await run.wait() == "stopped"
    assert await read(runs, "early") == [ABORT]
    assert not source.started


@embedded
async def test_a_run_starts_although_its_request_is_cancelled(runs):
    source = Source()
    request = asyncio.create_task(durable(source.read, id="cancelled"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    request.cancel()
    await eventually_async(lambda: source.started)
    source.finish()
    assert await (await find(runs, "cancelled")).wait() == "finished"


@embedded
@pytest.mark.parametrize("stream", ["goes on", "used"])
@pytest.mark.parametrize("turns", range(8))
async def test_a_cancelled_start_that_is_not_new_closes_its_source(runs, log, stream, turns):
    class Closable:
        closed = asyncio.Event()

        def __aiter__(self):
            return self

        async def __anext__(self):
            raise AssertionError("it must not be read")

        async def aclose(self):
            self.closed.set()

    async with Runs(log) as others:
        await others.start(Source().read, stream="goes on")
        await runs.streams.create("used", "application/json", body=b'["mine"]')
        source = Closable()
        starting = asyncio.create_task(runs.start(source, stream=stream))
        for _ in range(turns + 1):
            await asyncio.sleep(0)
        starting.cancel()
        await source.closed.wait()
        await asyncio.wait([starting])


@embedded
async def test_durable_needs_runs_that_are_open(log):
    with pytest.raises(RunsNotOpen, match=r"durable needs .* none is: pass runs="):
        await durable(count(1), stream="x")
    with pytest.raises(RunsNotOpen, match=r"resume needs .* none is: pass runs="):
        await resume("x")
    async with Runs(log) as runs, Runs(log) as others:
        with pytest.raises(BadArgument, match="2 are: pass runs="):
            await durable(count(1), stream="x")
        run = await durable(count(1), stream="x", runs=runs)
        found = await resume("x", runs=others)
        assert found is not None
        assert (found.record.token, await found.wait()) == (run.record.token, "finished")
