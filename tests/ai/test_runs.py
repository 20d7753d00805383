"""Runs on an embedded log and on a server, with faults."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.ai import Runs, durable, resume
from mainstem.ai.errors import RunNotFound, RunsNotOpen, StreamInUse
from mainstem.ai.registry import Ended, Stopped, encode_entry
from mainstem.ai.runs import REGISTRY
from mainstem.client import AsyncStreams, BadArgument, ConnectionFailed, NotFound, Retries
from mainstem.server import create_app
from tests.ai.embedded import embedded
from tests.ai.sources import Source, count
from tests.streams_client.test_restarts import free_port
from tests.support.waits import eventually, eventually_async

ABORT = {"type": "abort", "reason": "enough"}
ERROR = {"type": "error", "errorText": "The run failed."}
PATIENT = Retries(attempts_max=None, delay_s=0.05, delay_s_max=0.2)


async def read(runs, stream):
    return await runs.streams.read_json(stream)


async def find(runs, id):
    run = await runs.find(id)
    assert run is not None
    return run


async def wait_for(runs, stream, messages):
    async def look():
        try:
            return await read(runs, stream) == messages
        except NotFound:  # another process may be about to create it
            return False

    await eventually_async(look)


# The way it should go


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
        await runs._end_lost(run.record)
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
@pytest.mark.parametrize("closed", [True, False])
async def test_a_stream_of_text_is_no_run_and_takes_none(runs, closed):
    await runs.streams.create("text", "text/plain", body=b"mine", closed=closed)
    assert await resume("text") is None
    for close in (True, False):
        with pytest.raises(StreamInUse, match="text/plain"):
            await durable(count(1), id=f"run-{close}", stream="text", close=close)
    assert await runs.streams.read_text("text") == "mine"


@embedded
async def test_a_stream_that_stays_open_takes_one_run_after_the_other(runs):
    for _ in range(2):
        run = await durable(count(1), id="session", stream="session", close=False)
        assert await run.wait() == "finished"
    assert await read(runs, "session") == ["0 ", "0 "]
    assert not (await runs.streams.head("session")).closed


@embedded
async def test_the_end_of_a_run_is_never_taken_for_a_loss(log, monkeypatch):
    """Between the end of a run and the moment at which its process learns of it, nobody appends that it was lost."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0)
    async with Runs(log) as runs:
        for _ in range(100):
            await (await runs.start(count(1), id="session", stream="session", close=False)).wait()
        assert await read(runs, "session") == ["0 "] * 100


@embedded
async def test_a_run_whose_end_could_not_be_noted_has_still_finished(log, monkeypatch):
    """The process was killed, or the server was away, between the last append and the note."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.01)
    async with Runs(log) as runs:
        real = runs.shared.note
        refused: list[Ended] = []

        async def refuse(entry):
            if isinstance(entry, Ended) and not refused:
                refused.append(entry)
                raise ConnectionFailed("the server is away")
            await real(entry)

        monkeypatch.setattr(runs.shared, "note", refuse)
        run = await runs.start(count(1), stream="complete")
        assert await run.wait() == "finished"
        assert [entry.outcome for entry in refused] == ["finished"]
        assert await read(runs, "complete") == ["0 "]


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
async def test_nothing_is_written_while_there_are_no_runs(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0)
    async with Runs(log) as runs:
        for _ in range(100):
            await asyncio.sleep(0)
        assert await read(runs, REGISTRY) == []
        await (await runs.start(count(1), stream="one")).wait()
        for _ in range(100):  # a heartbeat may have been on its way
            await asyncio.sleep(0)
        written = len(await read(runs, REGISTRY))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(await read(runs, REGISTRY)) == written


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
async def test_another_process_knows_what_was_started_before_it_was_asked(runs, log):
    async with Runs(log) as others:
        for number in range(20):
            source = Source()
            run = await durable(source.read(), id=f"fresh-{number}", runs=runs)
            assert await others.stop(run.id, "enough") == "stopping"
            assert await run.wait() == "stopped"
            found = await find(others, run.id)
            assert found.status == "stopped"
        assert [run.id for run in await others.all()] == [f"fresh-{number}" for number in range(20)]


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


# Sources with faults


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
async def test_a_registry_that_was_deleted_is_created_again(runs, monkeypatch, caplog):
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.01)
    source = Source()
    run = await durable(source.read(), stream="before")
    await runs.streams.delete(REGISTRY)
    await eventually_async(lambda: "not readable at the moment" in caplog.text)

    async def can_start():
        try:
            return await (await durable(count(1), stream="after")).wait() == "finished"
        except NotFound:
            return False

    await eventually_async(can_start)
    source.finish()
    assert await run.wait() == "finished"


@embedded
async def test_an_error_in_the_background_work_is_logged_and_ends_nothing(log, monkeypatch, caplog):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.01)
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.01)
    async with Runs(log) as runs:
        source = Source()
        run = await runs.start(source.read(), stream="tough")
        with monkeypatch.context() as broken:
            broken.setattr(runs.shared, "note", None)
            broken.setattr(runs.shared, "_on_entry", None)
            await runs.streams.append_json(REGISTRY, encode_entry(Stopped("tough", run.record.token, "enough")))
            for text in ("the heartbeat of the runs of this process failed", "could not be followed"):
                await eventually_async(lambda text=text: text in caplog.text)
        assert await run.wait() == "stopped"


@embedded
async def test_something_that_is_no_source_is_an_error_and_ends_the_run(runs):
    run = await durable(lambda: 5, stream="nothing")  # type: ignore[arg-type,return-value]
    assert await run.wait() == "failed"
    assert (await runs.streams.head("nothing")).closed


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
async def test_a_run_whose_start_failed_halfway_is_ended(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.05)
    async with Runs(log) as runs:
        real = runs.streams.create

        async def fail(path, *args, **options):
            raise asyncio.CancelledError if path == "half" else AssertionError

        monkeypatch.setattr(runs.streams, "create", fail)
        with pytest.raises(asyncio.CancelledError):
            await runs.start(count(1), stream="half")
        monkeypatch.setattr(runs.streams, "create", real)
        assert await (await find(runs, "half")).wait() in ("failed", "lost")


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


# Processes that end


@embedded
async def test_runs_end_with_their_app(log):
    source = Source()
    async with Runs(log) as runs:
        run = await runs.start(source.read(), stream="deployed")
        source.give("a")
        await wait_for(runs, "deployed", ["a"])
    assert run.status == "failed"
    assert await read(runs, "deployed") == ["a", {"type": "error", "errorText": "The server is stopping."}]
    for late in (runs.start(count(1), stream="late"), runs.find("deployed"), runs.all(), runs.stop("deployed")):
        with pytest.raises(RunsNotOpen):
            await late
    with pytest.raises(BadArgument, match="opened before"):
        await runs.__aenter__()


@embedded
async def test_runs_may_finish_before_their_process_stops(log):
    source = Source()
    async with Runs(log) as others:
        runs = await Runs(log, drain_s=60).__aenter__()
        run = await runs.start(source.read(), stream="drained")
        source.give("a")
        await wait_for(others, "drained", ["a"])
        leaving = asyncio.create_task(runs.__aexit__(None, None, None))
        source.give("b")
        await wait_for(others, "drained", ["a", "b"])
        with pytest.raises(RunsNotOpen):
            await runs.start(count(1), stream="late")
        assert (await find(others, "drained")).active
        source.finish()
        await leaving
        assert run.status == "finished"
        assert await (await find(others, "drained")).wait() == "finished"


@embedded
async def test_runs_that_do_not_finish_in_time_are_ended(log):
    async with Runs(log, drain_s=0.05) as runs:
        run = await runs.start(Source().read(), stream="endless")
    assert (run.status, run.reason) == ("failed", "The server is stopping.")


@embedded
async def test_durable_needs_runs_that_are_open(log):
    with pytest.raises(BadArgument, match=r"durable needs .* none is: pass runs="):
        await durable(count(1), stream="x")
    with pytest.raises(BadArgument, match=r"resume needs .* none is: pass runs="):
        await resume("x")
    async with Runs(log) as runs, Runs(log) as others:
        with pytest.raises(BadArgument, match="2 are: pass runs="):
            await durable(count(1), stream="x")
        run = await durable(count(1), stream="x", runs=runs)
        found = await resume("x", runs=others)
        assert found is not None
        assert (found.record.token, await found.wait()) == (run.record.token, "finished")


def run_forever(url: str, heartbeat_s: float) -> None:
    """A process with one run that never ends."""
    limits.RUN_HEARTBEAT_S = heartbeat_s  # type: ignore[misc]

    async def main():
        async with AsyncStreams(url) as streams, Runs(streams) as runs:
            source = Source()
            await runs.start(source.read(), id="doomed", stream="doomed")
            source.give("so far")
            await asyncio.Event().wait()

    asyncio.run(main())


@pytest.mark.slow
def test_another_process_ends_the_runs_of_one_that_was_killed(start_server, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.25)
    server = start_server()
    process = multiprocessing.get_context("spawn").Process(target=run_forever, args=(server.url, 0.25))
    process.start()

    async def main():
        async with AsyncStreams(server.url) as streams, Runs(streams) as runs:
            await eventually_async(lambda: runs.find("doomed"))
            await wait_for(runs, "doomed", ["so far"])
            os.kill(process.pid or 0, signal.SIGKILL)
            run = await find(runs, "doomed")
            assert await run.wait() == "lost"
            messages = [message async for batch in run.follow() for message in batch.messages]
            assert messages[0] == "so far"
            assert messages[1]["type"] == "error"
            assert "lost" in messages[1]["errorText"]

    try:
        asyncio.run(main())
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
def test_a_process_that_was_declared_lost_writes_nothing_more(start_server, monkeypatch):
    """It was suspended for longer than its lease: it learns of that when it writes, and stops its source."""
    server = start_server()

    async def main():
        async with AsyncStreams(server.url) as streams, Runs(streams) as runs:
            source = Source()
            run = await runs.start(source.read(), id="zombie", stream="zombie")
            source.give("a")
            await wait_for(runs, "zombie", ["a"])
            await runs._end_lost((await find(runs, "zombie")).record)  # as another process would
            source.give("b")
            await source.closed.wait()
            assert await run.wait() == "lost"
            first, last = await read(runs, "zombie")
            assert (first, last["type"]) == ("a", "error")

    asyncio.run(main())


@pytest.mark.slow
def test_a_run_survives_the_restart_of_the_server(start_server, caplog):
    caplog.set_level(logging.ERROR)
    server = start_server("--port", str(free_port()))

    async def main():
        async with AsyncStreams(server.url, retries=PATIENT) as streams, Runs(streams) as runs:
            source = Source()
            run = await runs.start(source.read(), stream="restarted")
            for number in range(5):
                source.give(number)
                if number in (1, 3):
                    await asyncio.to_thread(server.kill)
                    source.give("down")
                    await asyncio.to_thread(server.start)
            source.finish()
            assert await run.wait() == "finished"
            assert await read(runs, "restarted") == [0, 1, "down", 2, 3, "down", 4]

    asyncio.run(main())


@pytest.mark.slow
def test_no_run_is_lost_because_the_server_was_away(start_server, monkeypatch):
    """The process that is heard first after the outage must not conclude that the others were lost in it."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.05)
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.05)
    server = start_server("--port", str(free_port()))

    async def main():
        async with (
            AsyncStreams(server.url, retries=PATIENT) as streams,
            Runs(streams) as runs,
            Runs(streams) as others,
        ):
            sources = [Source(), Source()]
            started = [
                await mine.start(source.read(), id=f"patient-{number}", stream=f"patient-{number}")
                for number, (mine, source) in enumerate(zip((runs, others), sources, strict=True))
            ]
            for _ in range(3):
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.05 * 2 * (limits.RUN_HEARTBEATS_MISSED_MAX + 1))  # the outage
                await asyncio.to_thread(server.start)
                for run, source in zip(started, sources, strict=True):
                    before = len(await read(runs, run.stream))
                    source.give("still here")
                    await wait_for(runs, run.stream, ["still here"] * (before + 1))
            for run, source in zip(started, sources, strict=True):
                source.finish()
                assert await run.wait() == "finished"

    asyncio.run(main())


@pytest.mark.slow
def test_a_reader_that_never_reads_holds_up_nobody(start_server):
    server = start_server()
    piece, pieces = "x" * 100_000, 200

    async def main():
        async with AsyncStreams(server.url) as streams, Runs(streams) as runs:
            source = Source()
            run = await runs.start(source.read(), stream="ignored")
            with socket.create_connection(server.address) as stuck:
                stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stuck.sendall(b"GET /v1/stream/ignored?offset=-1&live=sse HTTP/1.1\r\nhost: localhost\r\n\r\n")
                for _ in range(pieces):
                    source.give(piece)
                source.finish()
                assert await run.wait() == "finished"
                assert await read(runs, "ignored") == [piece] * pieces

    asyncio.run(main())


@pytest.mark.slow
def test_a_log_that_is_opened_again_ends_the_runs_of_the_process_before(tmp_path, monkeypatch):
    """The only process was killed in the middle of an answer, and starts again."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.1)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run_embedded, args=(str(tmp_path / "data"), str(tmp_path / "written")))
    process.start()
    eventually((tmp_path / "written").exists)
    process.kill()
    process.join()

    async def main():
        log = create_app(data=str(tmp_path / "data"))
        runs = Runs(log)
        async with runs.lifespan():
            run = await find(runs, "doomed")
            assert await run.wait() == "lost"
            assert (await runs.streams.head("doomed")).closed
            assert (await read(runs, "doomed"))[0] == "so far"

    asyncio.run(main())


def run_embedded(data: str, written: str) -> None:
    async def main():
        runs = Runs(create_app(data=data))
        async with runs.lifespan():
            source = Source()
            await runs.start(source.read(), id="doomed", stream="doomed")
            source.give("so far")
            await wait_for(runs, "doomed", ["so far"])
            await asyncio.to_thread(Path(written).touch)
            await asyncio.Event().wait()

    asyncio.run(main())
