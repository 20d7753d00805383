"""What processes know of each other's runs, and what they note."""

import asyncio
import logging

import pytest

from mainstem import limits
from mainstem.ai import Runs, durable
from mainstem.ai.errors import RunsNotOpen
from mainstem.ai.registry import Ended, Heartbeat, Stopped, encode_entry
from mainstem.ai.runs import REGISTRY
from mainstem.client import ClientError, ConnectionFailed, NotFound
from mainstem.server import create_app
from tests.ai.embedded import embedded, find, read
from tests.ai.sources import Source, count
from tests.support.waits import eventually_async


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
async def test_who_waits_for_a_run_learns_that_its_runs_were_closed(runs, log):
    await durable(Source().read(), stream="goes on", runs=runs)
    async with Runs(log) as others:
        run = await find(others, "goes on")
        waiting = [asyncio.create_task(run.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    for waiter in waiting[1:]:
        with pytest.raises(RunsNotOpen, match="goes on"):
            await waiter
    with pytest.raises(RunsNotOpen):
        await run.wait()
    assert run.status == "running"


@embedded
async def test_a_waiter_wakes_only_for_the_end_of_its_run(runs, monkeypatch):
    source = Source()
    run = await durable(source.read(), stream="waited for")
    wakes = 0
    real = runs.shared.registry.look_up

    def count_wakes(record):
        nonlocal wakes
        wakes += record.token == run.record.token
        return real(record)

    monkeypatch.setattr(runs.shared.registry, "look_up", count_wakes)
    waiting = asyncio.create_task(run.wait())
    for number in range(10):
        await (await durable(count(1), stream=f"other-{number}")).wait()
    assert wakes == 1
    source.finish()
    assert await waiting == "finished"


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


@embedded
async def test_the_end_of_a_run_is_never_taken_for_a_loss(log, monkeypatch):
    """Between the end of a run and the moment at which its process learns of it, nobody appends that it was lost."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0)
    async with Runs(log) as runs:
        for _ in range(100):
            await (await runs.start(count(1), id="session", stream="session", close=False)).wait()
        assert await read(runs, "session") == ["0 "] * 100


@embedded
@pytest.mark.parametrize("close", [True, False])
async def test_a_run_whose_end_could_not_be_noted_has_still_finished(log, monkeypatch, close):
    """The server was away between the last append and the note."""
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
        run = await runs.start(count(1), stream="complete", close=close)
        assert await run.wait() == "finished"
        assert [entry.outcome for entry in refused] == ["finished"]
        assert await read(runs, "complete") == ["0 "]


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
async def test_a_heartbeat_without_a_reply_is_followed_by_another(log, monkeypatch, caplog):
    """The connection hangs, as it may when a load balancer has forgotten it."""
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.01)
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_WAIT_S", 0.05)
    async with Runs(log) as runs:
        real = runs.shared.note
        hanging: list[Heartbeat] = []

        async def hang(entry):
            if isinstance(entry, Heartbeat) and not hanging:
                hanging.append(entry)
                await asyncio.Event().wait()
            await real(entry)

        async def is_heard():
            return any(entry["type"] == "heartbeat" for entry in await read(runs, REGISTRY))

        monkeypatch.setattr(runs.shared, "note", hang)
        await runs.start(Source().read(), stream="heard")
        await eventually_async(is_heard)
        assert hanging
        assert "got no reply" in caplog.text


@pytest.mark.parametrize("bytes_max", [20_000, 900])
async def test_a_process_with_more_runs_than_fit_into_an_append_is_not_lost(monkeypatch, bytes_max):
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_S", 0.02)
    monkeypatch.setattr(limits, "RUN_HEARTBEAT_BYTES_MAX", 40_000)
    log = create_app(store="memory", max_body_bytes=bytes_max)
    async with log.lifespan(), Runs(log) as runs, Runs(log) as others:
        started = await asyncio.gather(
            *(runs.start(Source().read(), id=f"{number}-" + "x" * 200) for number in range(100))
        )

        async def is_listed():
            lists = [entry for entry in await read(runs, REGISTRY) if entry["type"] == "running"]
            listed = [run["id"] for entry in lists for run in entry["runs"]]
            return len(set(listed)) == 100

        async def heartbeats():
            return [entry["worker"] for entry in await read(runs, REGISTRY) if entry["type"] == "heartbeat"]

        async def is_judged():
            return (await heartbeats()).count(others.shared.registry.worker) > 3 * limits.RUN_HEARTBEATS_MISSED_MAX

        await eventually_async(is_listed)
        await eventually_async(is_judged)
        assert {run.status for run in started} == {"running"}
        assert len(others.shared.registry.active) == 100


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
async def test_a_failure_to_follow_the_registry_is_logged_once(log, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.001)
    monkeypatch.setattr(limits, "RUN_RETRY_S_MAX", 0.01)
    failures = 0

    async def fail(*args, **options):
        nonlocal failures
        failures += 1
        raise ConnectionFailed("the server is away")
        yield

    async with Runs(log) as runs:
        with monkeypatch.context() as broken:
            broken.setattr(runs.streams, "follow", fail)
            await runs.streams.delete(REGISTRY)
            await eventually_async(lambda: failures > 20)
        await eventually_async(lambda: "readable again" in caplog.text)
        assert await (await runs.start(count(1), stream="after")).wait() == "finished"
        assert caplog.text.count("the server is away") == 1


@embedded
async def test_a_registry_that_was_closed_is_logged_once(log, monkeypatch, caplog):
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.001)
    monkeypatch.setattr(limits, "RUN_RETRY_S_MAX", 0.01)
    async with Runs(log) as runs:
        real, follows = runs.streams.follow, 0

        def count_follows(*args, **options):
            nonlocal follows
            follows += 1
            return real(*args, **options)

        monkeypatch.setattr(runs.streams, "follow", count_follows)
        await runs.streams.close(REGISTRY)
        await eventually_async(lambda: follows > 5)
        assert caplog.text.count("was closed: delete it") == 1
        await runs.streams.delete(REGISTRY)

        async def can_start():
            try:
                return await (await runs.start(count(1), stream="after")).wait() == "finished"
            except ClientError:
                return False

        await eventually_async(can_start)


@embedded
async def test_runs_whose_end_was_trimmed_from_the_registry_are_not_active_for_ever(runs, log, monkeypatch):
    monkeypatch.setattr(limits, "RUN_RETRY_S", 0.01)
    async with Runs(log) as others:
        run = await durable(Source().read(), stream="trimmed", runs=others)
        assert (await find(runs, "trimmed")).active
        await runs.streams.delete(REGISTRY)  # like a registry of which only later entries are left
        await eventually_async(lambda: "trimmed" not in runs.shared.registry.active)
        await others._heartbeats.send()
        await eventually_async(lambda: "trimmed" in runs.shared.registry.active)
        await run.stop("enough")
        assert await (await find(runs, "trimmed")).wait() == "stopped"


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
