"""Runs while processes stop, are killed or suspended, and while the server restarts."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.ai import Runs
from mainstem.ai.errors import RunsNotOpen
from mainstem.ai.registry import RunRecord, Started
from mainstem.ai.runs import REGISTRY, _workers
from mainstem.client import AsyncStreams, BadArgument, ConnectionFailed, OutcomeUnknown, Retries
from mainstem.server import create_app
from tests.ai.embedded import embedded, find, read, wait_for
from tests.ai.sources import Source, count
from tests.streams_client.test_restarts import free_port
from tests.support.waits import eventually, eventually_async

PATIENT = Retries(attempts_max=None, delay_s=0.05, delay_s_max=0.2)


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
            await runs._endings.end_lost((await find(runs, "zombie")).record)  # as another process would
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
def test_a_run_waits_longer_for_the_server_than_its_client_does(start_server, monkeypatch):
    """The reply to an append is lost, and then the retries of the client end before the server is back."""
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.05)
    server = start_server("--port", str(free_port()))

    async def main():
        async with AsyncStreams(server.url, retries=Retries(attempts_max=1)) as streams, Runs(streams) as runs:
            source = Source()
            run = await runs.start(source.read(), stream="patient")
            real, unknown = streams.append, 0

            async def lose_the_reply(*args, **options):
                nonlocal unknown
                appended = await real(*args, **options)
                if unknown < 2:
                    unknown += 1
                    await asyncio.to_thread(server.kill)
                    asyncio.get_running_loop().run_in_executor(None, server.start)
                    raise OutcomeUnknown("the reply was lost")
                return appended

            monkeypatch.setattr(streams, "append", lose_the_reply)
            source.give("once")
            await eventually_async(lambda: unknown == 2)
            source.finish()
            assert await run.wait() == "finished"
            assert await read(runs, "patient") == ["once"]

    asyncio.run(main())


@pytest.mark.slow
def test_no_run_is_lost_because_the_server_was_away(start_server, monkeypatch):
    """The process that is heard first after the outage must not conclude that the others were lost in it."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.1)
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.05)
    server = start_server("--port", str(free_port()))
    retries = Retries(attempts_max=None, delay_s=0.02, delay_s_max=0.05)  # shorter than the time between heartbeats

    async def main():
        async with (
            AsyncStreams(server.url, retries=retries) as streams,
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
                await asyncio.sleep(0.1 * 2 * (limits.RUN_HEARTBEATS_MISSED_MAX + 1))  # the outage
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


@embedded
async def test_only_the_runs_of_earlier_processes_end_when_a_log_is_opened(log):
    async with Runs(log) as runs:
        started = [await runs.start(Source().read(), stream=name) for name in ("live", "other")]
        for name, is_embedded in (("orphan", True), ("remote", False)):
            lost = RunRecord(id=name, stream=name, token=name, worker="before", embedded=is_embedded)
            await runs.create_stream(name, None)
            await runs.shared.note(Started(lost))
        async with Runs(log) as others:
            assert await (await find(others, "orphan")).wait() == "lost"
            assert (await others.streams.head("orphan")).closed
            assert sorted(others.shared.registry.active) == ["live", "other", "remote"]
            assert [run.status for run in started] == ["running", "running"]


def test_only_a_log_that_other_processes_cannot_open_is_exclusive(tmp_path):
    assert create_app(store="memory").exclusive
    assert create_app(data=str(tmp_path / "data")).exclusive
    assert not create_app(store="postgresql://localhost/unused").exclusive


@embedded
async def test_runs_that_drain_are_not_orphans(log):
    draining = await Runs(log, drain_s=60).__aenter__()
    source = Source()
    run = await draining.start(source.read(), stream="drains")
    leaving = asyncio.create_task(draining.__aexit__(None, None, None))
    await asyncio.sleep(0)
    async with Runs(log) as runs:
        await runs.start(count(1), stream="new")
        assert runs.shared.registry.find_orphans(_workers) == []
        source.finish()
        await leaving
        assert run.status == "finished"


@pytest.mark.slow
def test_a_log_that_is_opened_again_ends_the_runs_of_the_process_before(tmp_path, monkeypatch):
    """The only process was killed in the middle of an answer, and starts again: nobody has to wait for heartbeats."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 3600)
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


@embedded
async def test_a_source_that_says_nothing_ends_when_its_process_is_declared_lost(runs, log):
    async with Runs(log) as others:
        source = Source()
        run = await runs.start(source.read(), stream="quiet")
        source.give("a")
        await wait_for(runs, "quiet", ["a"])
        await others._endings.end_lost((await find(others, "quiet")).record)
        await source.closed.wait()
        assert await run.wait() == "lost"
        first, last = await read(runs, "quiet")
        assert (first, last["type"]) == ("a", "error")


@embedded
@pytest.mark.parametrize("failure", ["refuses", "hangs"])
async def test_a_process_can_stop_while_the_log_is_away(log, monkeypatch, failure):
    monkeypatch.setattr(limits, "RUN_CLOSE_S", 0.1)

    async def fail(*args, **options):
        if failure == "hangs":
            await asyncio.Event().wait()
        raise ConnectionFailed("the log is away")

    async with asyncio.timeout(limits.RUN_WRITE_S / 2):
        async with Runs(log) as runs:
            source = Source()
            run = await runs.start(source.read(), stream="cut off")
            source.give("a")
            await wait_for(runs, "cut off", ["a"])
            started = asyncio.Event()

            async def signal_and_fail(*args, **options):
                started.set()
                await fail()

            monkeypatch.setattr(runs.streams, "create", signal_and_fail)
            starting = asyncio.create_task(runs.start(count(1), stream="half"))
            await started.wait()
            for call in ("append", "append_json", "head"):
                monkeypatch.setattr(runs.streams, call, fail)
        await asyncio.wait([starting])
    assert (source.closed.is_set(), run.status) == (True, "running")


# Streams that are no longer those of their runs


@embedded
async def test_a_run_whose_stream_was_replaced_by_text_is_lost(runs):
    source = Source()
    run = await runs.start(source.read(), stream="swapped")
    source.give("a")
    await wait_for(runs, "swapped", ["a"])
    await runs.streams.delete("swapped")
    await runs.streams.create("swapped", "text/plain", body=b"mine")
    source.give("b")
    assert (await run.wait(), run.reason) == ("lost", "the run could not be stored")
    assert await runs.streams.read_text("swapped") == "mine"


@embedded
async def test_a_run_whose_stream_was_deleted_is_lost(runs):
    source = Source()
    run = await runs.start(source.read(), stream="deleted")
    source.give("a")
    await wait_for(runs, "deleted", ["a"])
    await runs.streams.delete("deleted")
    source.give("b")
    assert await run.wait() == "lost"


@embedded
async def test_the_end_of_a_run_leaves_the_data_of_others_alone(runs):
    source = Source()
    run = await runs.start(source.read(), stream="recreated")
    source.give("a")
    await wait_for(runs, "recreated", ["a"])
    await runs.streams.delete("recreated")
    await runs.streams.create("recreated", "application/json", body=b'["mine"]')
    source.give("b")
    assert await run.wait() == "lost"
    assert await read(runs, "recreated") == ["mine"]
    assert not (await runs.streams.head("recreated")).closed


@embedded
@pytest.mark.parametrize("stream", ["../../x", "missing", "text", "closed-text", REGISTRY])
async def test_a_lost_run_ends_whatever_its_stream_is(runs, monkeypatch, stream):
    await runs.streams.create("text", "text/plain", body=b"mine")
    await runs.streams.create("closed-text", "text/plain", body=b"mine", closed=True)
    lost = RunRecord(id="odd", stream=stream, token="t", worker="dead")
    await runs.shared.note(Started(lost))
    await runs.find("odd")
    await runs._endings.end_lost(lost)
    assert await (await find(runs, "odd")).wait() == "lost"
    assert not (await runs.streams.head(REGISTRY)).closed


@embedded
async def test_a_lost_run_that_had_written_nothing_yet_gets_a_last_message(runs):
    lost = RunRecord(id="empty", stream="empty", token="t", worker="dead")
    await runs.create_stream("empty", None)
    await runs._endings.end_lost(lost)
    assert [message["type"] for message in await read(runs, "empty")] == ["error"]
    assert (await runs.streams.head("empty")).closed


@embedded
async def test_a_lost_run_that_cannot_be_ended_holds_up_no_other(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.01)
    async with Runs(log) as runs:
        real, blocked = runs.streams.append, asyncio.Event()

        async def hang(path, *args, **options):
            if path == "run-0":
                await blocked.wait()
            return await real(path, *args, **options)

        monkeypatch.setattr(runs.streams, "append", hang)
        for number in range(50):
            name = f"run-{number}"
            await runs.create_stream(name, None)
            await runs.shared.note(Started(RunRecord(id=name, stream=name, token=name, worker="dead")))
        await eventually_async(lambda: list(runs.shared.registry.active) == ["run-0"])
        blocked.set()
        assert await (await find(runs, "run-0")).wait() == "lost"


@embedded
async def test_many_lost_runs_are_ended_at_the_same_time_but_not_all(log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.01)
    monkeypatch.setattr(limits, "RUN_APPENDS_MAX", 4)
    async with Runs(log) as runs:
        appending, blocked = set(), asyncio.Event()

        async def hang(path, *args, **options):
            appending.add(path)
            await blocked.wait()
            raise ConnectionFailed("the server is away")

        with monkeypatch.context() as broken:
            broken.setattr(runs.streams, "append", hang)
            for name in "abcdefghij":
                await runs.shared.note(Started(RunRecord(id=name, stream=name, token=name, worker="dead")))
            await eventually_async(lambda: len(appending) == 4)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(appending) == 4
