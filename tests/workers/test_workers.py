"""Workers with a real server: delivery, acknowledgements, failures, leases and stops."""

import asyncio
from contextlib import closing, contextmanager

import httpx2
import pytest

from mainstem import limits
from mainstem.client import AsyncStreams, BadArgument, UnreadableMessage
from mainstem.client.aio.transport import HttpReply, HttpTransport
from mainstem.client.workers import SubscriptionRefused, Worker, WorkerBatch, worker
from mainstem.testing.clock import SECOND_US, FakeClock
from tests.support.http_gates import HttpGate
from tests.support.waits import eventually, eventually_async
from tests.workers.running import HASTE, JSON, Record, counting, describe, is_processed, running


async def test_new_data_reaches_the_function_and_is_acknowledged(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        await streams.append("orders/1", {"old": True})
        async with running(record.make_worker("orders/*"), streams):
            start = (await streams.head("orders/1")).next_offset
            await streams.append_json("orders/1", {"n": 1}, {"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.append("orders/1", {"n": 3})
            await eventually_async(lambda: record.messages == [{"n": 1}, {"n": 2}, {"n": 3}])
        assert await is_processed(streams, "orders/1")
        first = record.batches[0]
        assert (first.stream, first.start_offset, first.attempt, first.trimmed) == ("orders/1", start, 1, False)
        assert first.offset == record.batches[1].start_offset
        assert first.generation < record.batches[1].generation


async def test_streams_that_are_created_later_and_bytes_are_delivered(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams, running(record.make_worker("logs/**"), streams):
        await streams.create("logs/a/b", "text/plain")
        await streams.append("logs/a/b", "one line\n")
        await eventually_async(lambda: [batch.text for batch in record.batches] == ["one line\n"])


async def test_a_pattern_without_streams_waits(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        async with running(record.make_worker("none/*"), streams) as task:
            await streams.create("other/1", JSON, body={"n": 1})
            assert not task.done()
        assert record.started == []


async def test_streams_are_processed_at_the_same_time_up_to_the_concurrency(own_server):
    everybody = asyncio.Event()

    async def meet(batch):
        if record.most_active == 3:
            everybody.set()
        await everybody.wait()

    record = Record(meet)
    paths = [f"orders/{number}" for number in range(10)]
    async with AsyncStreams(own_server.url) as streams:
        for path in paths:
            await streams.create(path, JSON)
        await record.make_worker("orders/*").subscribe(streams)
        for path in paths:
            await streams.append(path, {"path": path})
        async with running(record.make_worker("orders/*", concurrency=3), streams):
            await eventually_async(lambda: is_processed(streams, *paths))
    assert record.most_active == 3
    assert sorted(message["path"] for message in record.messages) == paths


async def test_a_long_stream_comes_in_pages_and_in_order(start_thread, hasty):
    server = start_thread(store="memory", page_bytes=1024)
    record = Record()
    async with AsyncStreams(server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append_json("orders/1", *[{"n": number} for number in range(100)])
            for number in range(100, 300):
                await streams.append("orders/1", {"n": number})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [message["n"] for message in record.messages] == list(range(300))


# Failures


async def test_a_function_that_fails_is_called_again_with_the_same_data(own_server):
    async def fail_twice(batch):
        if batch.attempt < 3:
            raise ValueError("not now")

    record = Record(fail_twice)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [batch.attempt for batch in record.started] == [1, 2, 3]
    assert len({batch.start_offset for batch in record.started}) == 1
    assert record.messages == [{"n": 1}]


async def test_a_failing_stream_does_not_hold_up_the_others(own_server):
    async def fail(batch):
        if batch.stream == "orders/bad":
            raise ValueError("never")

    record = Record(fail)
    async with AsyncStreams(own_server.url) as streams:
        for path in ("orders/bad", "orders/good"):
            await streams.create(path, JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/bad", {"n": 0})
            await eventually_async(lambda: len(record.started) >= 3)
            for number in range(3):
                await streams.append("orders/good", {"n": number})
                await eventually_async(lambda: is_processed(streams, "orders/good"))
            assert not await is_processed(streams, "orders/bad")
    assert [message["n"] for message in record.messages] == [0, 1, 2]


async def test_more_failing_streams_than_a_wake_contains_do_not_hold_up_the_others(start_thread, monkeypatch):
    monkeypatch.setattr(limits, "WAKE_STREAMS_MAX", 3)
    server = start_thread()

    async def fail(batch):
        if batch.stream.startswith("orders/bad"):
            raise ValueError("never")

    record = Record(fail)
    async with AsyncStreams(server.url) as streams:
        await record.make_worker("orders/*").subscribe(streams)
        for number in range(5):
            await streams.create(f"orders/bad{number}", JSON, body={"n": number})
        await streams.create("orders/good", JSON, body={"n": 5})
        async with running(record.make_worker("orders/*"), streams):
            await eventually_async(lambda: is_processed(streams, "orders/good"))
    assert record.messages == [{"n": 5}]


async def test_after_the_last_attempt_on_failure_decides(own_server):
    failures = []

    async def fail(batch):
        if {"poison": True} in batch.messages:
            raise ValueError("poison")

    async def on_failure(batch, error):
        failures.append((batch.attempt, str(error)))
        if len(failures) == 1:
            raise OSError("the table for failures is full")

    record = Record(fail)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", attempts_max=2, on_failure=on_failure), streams):
            await streams.append("orders/1", {"poison": True})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])
    assert failures == [(2, "poison"), (3, "poison")]


async def test_a_message_that_python_cannot_hold_fails_like_any_other(own_server):
    set_aside = []

    async def decode(batch):
        assert batch.messages

    async def on_failure(batch, error):
        set_aside.append((batch.raw_messages, type(error)))

    record = Record(decode)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", attempts_max=2, on_failure=on_failure), streams):
            await streams.append("orders/1", b'{"n":1e400}')
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])
    assert set_aside == [([b'{"n":1e400}'], UnreadableMessage)]


async def test_a_function_that_takes_too_long_is_cancelled_and_called_again(own_server):
    async def hang_once(batch):
        if batch.attempt == 1:
            await asyncio.Event().wait()

    record = Record(hang_once)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", timeout_s=0.1), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])
    assert [batch.attempt for batch in record.started] == [1, 2]


async def test_a_function_that_suppresses_its_timeout_has_failed(own_server):
    async def hang_once(batch):
        if batch.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return

    record = Record(hang_once)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", timeout_s=0.1), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [batch.attempt for batch in record.started] == [1, 2]


@pytest.mark.parametrize("what", ["resume", "on_failure"])
async def test_a_resume_or_an_on_failure_that_hangs_holds_up_other_streams_only_until_its_timeout(own_server, what):
    async def hang(about, error=None):
        if "orders/bad" in (about, getattr(about, "stream", "")):
            await asyncio.Event().wait()

    async def fail(batch):
        if batch.stream == "orders/bad":
            raise ValueError("never")

    record = Record(fail)
    made = record.make_worker("orders/*", timeout_s=0.2, attempts_max=1, concurrency=1, **{what: hang})
    async with AsyncStreams(own_server.url) as streams:
        await made.subscribe(streams)
        for path in ("orders/bad", "orders/good"):
            await streams.create(path, JSON, body={"path": path})
        async with running(made, streams):
            await eventually_async(lambda: is_processed(streams, "orders/good"))
            assert not await is_processed(streams, "orders/bad")


async def test_a_stream_that_cannot_be_read_does_not_hold_up_the_others(own_server, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_READ_ATTEMPTS", 2)
    record = Record()
    made = record.make_worker("orders/*", concurrency=1)
    async with AsyncStreams(own_server.url) as direct:
        await made.subscribe(direct)
        for path in ("orders/bad", "orders/good"):
            await direct.create(path, JSON, body={"path": path})
        with closing(HttpGate(own_server.url, lambda method, path: "/orders/bad?" in path)) as gate:
            async with AsyncStreams(gate.url, timeout_s=0.2) as streams, running(made, streams):
                await eventually_async(lambda: is_processed(direct, "orders/good"))
    assert [batch.stream for batch in record.started] == ["orders/good"]


async def test_a_call_that_hangs_holds_up_other_streams_only_until_its_timeout(own_server):
    async def hang(batch):
        if batch.stream == "orders/1":
            await asyncio.Event().wait()

    record = Record(hang)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", timeout_s=0.5), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.started)
            await streams.create("orders/2", JSON, body={"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/2"))
    assert record.messages == [{"n": 2}]


def test_a_call_has_a_timeout_unless_the_application_removes_it():
    assert Record().make_worker("orders/*").timeout_s == limits.WORKER_TIMEOUT_S
    assert Record().make_worker("orders/*", timeout_s=None).timeout_s is None


async def test_a_function_that_cancels_itself_has_failed(own_server):
    async def cancel(batch):
        if batch.attempt == 1:
            raise asyncio.CancelledError

    record = Record(cancel)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])


# Leases


async def test_heartbeats_keep_the_lease_of_a_slow_function(own_server):
    release, generations = asyncio.Event(), []

    async def wait(batch):
        generations.append(batch.generation)
        await release.wait()

    record = Record(wait)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", lease_s=1), streams):
            await streams.append("orders/1", {"n": 1})
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await eventually_async(lambda: loop.time() - began_s > 2.5)
            release.set()
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert len(generations) == 1


async def test_a_heartbeat_that_hangs_does_not_lose_the_lease(start_thread):
    clock = FakeClock()  # it stands still, so the lease never expires on the server
    server = start_thread(clock_us=clock)
    release, acks = asyncio.Event(), []

    def holds(method: str, path: str) -> bool:
        if path.endswith("/ack"):
            acks.append(path)
        return path.endswith("/ack") and len(acks) == 1

    record = Record(lambda batch: release.wait())
    with closing(HttpGate(server.url, holds)) as gate:
        async with AsyncStreams(gate.url) as streams:
            await streams.create("orders/1", JSON)
            async with running(make_clocked(record, clock), streams):
                await streams.append("orders/1", {"n": 1})
                await eventually_async(lambda: len(acks) > 1)
                release.set()
                await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.messages == [{"n": 1}]
    assert len(record.started) == 1


async def test_a_lease_counts_from_the_claim_that_succeeded(start_thread):
    """The first claim gets no reply for a lease time. The lease of the second one survives a heartbeat that hangs."""
    clock = FakeClock()
    server = start_thread(clock_us=clock)
    release, claims, acks = asyncio.Event(), [], []

    def holds(method: str, path: str) -> bool:
        if path.endswith("/claim"):
            claims.append(path)
            if len(claims) == 1:
                clock.advance(1)
                return True
        if path.endswith("/ack"):
            acks.append(path)
            return len(acks) == 1
        return False

    record = Record(lambda batch: release.wait())
    async with AsyncStreams(server.url) as direct:
        await direct.create("orders/1", JSON)
        made = make_clocked(record, clock)
        await made.subscribe(direct)
        await direct.append("orders/1", {"n": 1})
        with closing(HttpGate(server.url, holds)) as gate:
            async with AsyncStreams(gate.url, timeout_s=1) as streams, running(made, streams):
                await eventually_async(lambda: len(acks) > 1)
                release.set()
                await eventually_async(lambda: is_processed(direct, "orders/1"))
    assert len(claims) >= 2
    assert len(record.started) == 1


def make_clocked(record: Record, clock: FakeClock) -> Worker:
    """Make a worker that measures its lease of one second with a clock of the test."""
    return Worker(record.__call__, "orders/*", subscription="billing", lease_s=1, clock_s=lambda: clock() / SECOND_US)


async def test_a_worker_that_is_fenced_cancels_its_function_and_acknowledges_nothing(own_server):
    cancelled: list[WorkerBatch] = []

    async def wait(batch):
        if not cancelled:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(batch)
                raise

    record = Record(wait)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", lease_s=1), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.started)
            await streams.request("POST", "/v1/subscriptions/billing/redeliver", body=b"{}")
            await eventually_async(lambda: cancelled)
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    first, second = record.started
    assert cancelled == [first]
    assert first.generation < second.generation
    assert (first.start_offset, second.attempt) == (second.start_offset, 1)


@pytest.mark.parametrize("how", ["returns", "raises"])
async def test_a_function_that_suppresses_its_cancellation_is_neither_acknowledged_nor_failed(own_server, how):
    """It is called for nothing else either until the worker has another lease."""
    failures = []

    async def wait(batch):
        if len(record.started) == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if how == "raises":
                    raise ValueError("the database connection broke") from None

    record = Record(wait)
    options = {"concurrency": 1, "attempts_max": 1, "on_failure": lambda batch, error: failures.append(batch)}
    made = record.make_worker("orders/*", lease_s=1, **options)
    paths = ["orders/1", "orders/2"]
    async with AsyncStreams(own_server.url) as streams:
        await made.subscribe(streams)
        for path in paths:
            await streams.create(path, JSON, body={"path": path})
        async with running(made, streams):
            await eventually_async(lambda: record.started)
            await streams.request("POST", "/v1/subscriptions/billing/redeliver", body=b"{}")
            await eventually_async(lambda: is_processed(streams, *paths))
    first, *later = record.started
    assert failures == []
    assert sorted(batch.stream for batch in later) == paths
    assert all(batch.generation > first.generation for batch in later)


async def test_a_stream_waits_for_a_call_that_ignores_its_cancellation(own_server, monkeypatch, caplog):
    """The worker has lost the lease of the call, so it claims the stream again. `Record` finds calls that overlap."""
    monkeypatch.setattr(limits, "WORKER_CANCEL_S", 0.1)
    release = asyncio.Event()

    async def ignore(batch):
        while batch.stream == "orders/1" and not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    record = Record(ignore)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        await streams.create("orders/2", JSON)
        async with running(record.make_worker("orders/*", lease_s=1, timeout_s=None), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.started)
            await streams.request("POST", "/v1/subscriptions/billing/redeliver", body=b"{}")
            await streams.append("orders/2", {"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/2"))
            assert [batch.stream for batch in record.started] == ["orders/1", "orders/2"]
            release.set()
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [batch.stream for batch in record.started] == ["orders/1", "orders/2", "orders/1"]
    assert "two calls" not in caplog.text


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_function_that_blocks_the_event_loop_beyond_its_lease_has_failed(own_server, caplog, awaits):
    def has_lease() -> bool:
        target = f"{own_server.url}/v1/subscriptions/billing"
        return httpx2.get(target, trust_env=False).json()["holder"] is not None

    async def block(batch):
        if batch.attempt < 3:
            assert has_lease()
            eventually(lambda: not has_lease())
            if awaits:
                await asyncio.Event().wait()

    record = Record(block)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", lease_s=1), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [batch.attempt for batch in record.started] == [1, 2, 3]
    assert "asyncio.to_thread" in caplog.text


async def test_two_workers_share_a_subscription_and_no_data_is_processed_twice(own_server):
    """Either may be quicker to claim a wake. When the one that works is stopped, the other one continues."""
    record = Record()
    seen_by = {"ann": 0, "bob": 0}

    def count(name):
        async def handle(batch: WorkerBatch) -> None:
            await record(batch)
            seen_by[name] += 1

        return worker("orders/*", subscription="billing", backoff=HASTE)(handle)

    workers = {name: count(name) for name in seen_by}
    async with AsyncStreams(own_server.url) as streams, AsyncStreams(own_server.url) as others:
        await streams.create("orders/1", JSON)

        async def send(*numbers):
            for number in numbers:
                await streams.append("orders/1", number)
                await eventually_async(lambda: is_processed(streams, "orders/1"))

        async with running(workers["ann"], streams) as ann, running(workers["bob"], others) as bob:
            await send(*range(20))
            busy = max(seen_by, key=lambda name: seen_by[name])
            workers[busy].stop()
            await asyncio.wait_for({"ann": ann, "bob": bob}[busy], 30)
            await send(*range(20, 40))
    assert record.messages == list(range(40))
    assert all(seen_by.values())


# Stops


async def test_a_stop_waits_for_the_function_and_acknowledges_it(own_server):
    release = asyncio.Event()

    async def wait(batch):
        await release.wait()

    record = Record(wait)
    async with AsyncStreams(own_server.url) as streams:
        for path in ("orders/1", "orders/2"):
            await streams.create(path, JSON)
        made = record.make_worker("orders/*", concurrency=1)
        async with running(made, streams) as task:
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.started)
            await streams.append("orders/2", {"n": 2})
            made.stop()
            release.set()
            await asyncio.wait_for(task, 10)
        assert await is_processed(streams, "orders/1")
        assert not await is_processed(streams, "orders/2")
        async with running(made, streams):  # a stopped worker can run again
            await eventually_async(lambda: is_processed(streams, "orders/1", "orders/2"))
    assert record.messages == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_a_function_that_does_not_end_is_cancelled_and_its_work_released(own_server, how):
    async def hang(batch):
        await asyncio.Event().wait()

    record, other = Record(hang), Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        made = record.make_worker("orders/*", stop_s=0.05, lease_s=600)
        async with running(made, streams) as task:
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.started)
            if how == "stop":
                made.stop()
                await asyncio.wait_for(task, 10)
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        # The lease of ten minutes is not in the way.
        async with running(other.make_worker("orders/*", lease_s=600), streams):
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert (record.batches, other.messages) == ([], [{"n": 1}])


@pytest.mark.parametrize("when", ["during the call", "after the call"])
async def test_a_stop_does_not_wait_for_a_server_that_does_not_answer(own_server, when, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_RELEASE_S", 0.2)
    release = asyncio.Event()
    record = Record(lambda batch: release.wait())
    made = record.make_worker("orders/*", lease_s=600)
    async with AsyncStreams(own_server.url) as direct:
        await made.subscribe(direct)
        await direct.create("orders/1", JSON, body={"n": 1})
        with closing(HttpGate(own_server.url, lambda method, path: path.endswith("/ack"))) as gate:
            async with AsyncStreams(gate.url) as streams, running(made, streams) as task:
                await eventually_async(lambda: record.started)
                if when == "after the call":
                    release.set()
                    await eventually_async(gate.reached)
                made.stop()
                release.set()
                await asyncio.wait_for(task, 15)  # and not for the lease of ten minutes
    assert record.messages == [{"n": 1}]


async def test_a_run_that_is_cancelled_during_its_claim_leaves_no_lease_behind(own_server):
    record, other = Record(), Record()
    made = record.make_worker("orders/*", lease_s=600)
    claiming = asyncio.Event()
    async with AsyncStreams(own_server.url) as streams:
        await made.subscribe(streams)
        await streams.create("orders/1", JSON, body={"n": 1})
        with announcing(streams, "/claim", claiming):
            task = asyncio.create_task(made.run(streams))
            await claiming.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with running(other.make_worker("orders/*", lease_s=600), streams):
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert (record.started, other.messages) == ([], [{"n": 1}])


@contextmanager
def announcing(streams, end, event):
    """Set an event when a client has sent a request whose path ends like this, and before it gets the reply."""
    send = streams._transport.send

    async def announce(request):
        reply = await send(request)
        if request.target.endswith(end):
            event.set()
            await asyncio.sleep(0)
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams._transport, "send", announce)
        yield


# Trouble with streams and subscriptions


async def test_a_stream_that_is_deleted_while_it_is_processed_does_not_stop_the_others(own_server):
    async with AsyncStreams(own_server.url) as streams:

        async def delete(batch):
            if batch.stream == "orders/1":
                await streams.delete("orders/1")

        record = Record(delete)
        for path in ("orders/1", "orders/2"):
            await streams.create(path, JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: len(record.batches) == 1)
            await streams.append("orders/2", {"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/2"))
    assert record.messages == [{"n": 1}, {"n": 2}]


async def test_data_that_was_trimmed_is_reported_as_missing(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON, retention="max-messages=2")
        await record.make_worker("orders/*").subscribe(streams)
        for number in range(10):
            await streams.append("orders/1", {"n": number})
        await eventually_async(lambda: is_trimmed(streams))
        async with running(record.make_worker("orders/*"), streams):
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.batches[0].trimmed
    assert record.messages[-1] == {"n": 9}
    assert len(record.messages) < 10


async def is_trimmed(streams):
    earliest = (await streams.head("orders/1")).earliest_offset
    return earliest is not None and not earliest.endswith("_0000000000000000")


async def test_a_stream_that_was_created_again_and_is_empty_counts_as_processed(own_server):
    record = Record()
    made = record.make_worker("orders/*")
    async with AsyncStreams(own_server.url) as streams:
        await made.subscribe(streams)
        await streams.create("orders/1", JSON, body={"n": 1})
        async with running(made, streams):
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.delete("orders/1")
            await streams.create("orders/1", JSON)
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.append("orders/1", {"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.messages == [{"n": 1}, {"n": 2}]


async def test_a_wake_that_changes_nothing_is_not_claimed_again_at_once(start_thread, monkeypatch):
    """The stream has expired, so the worker cannot read it, but the server has not removed it yet."""
    monkeypatch.setattr(limits, "REAP_EVERY_S", 3600.0)
    monkeypatch.setattr(limits, "WORKER_LOOK_S", 0.5)
    clock = FakeClock()
    server = start_thread(clock_us=clock)
    record = Record()
    made = record.make_worker("orders/*")
    with counting(server.url, "/claim") as (url, claims_s):
        async with AsyncStreams(url) as streams:
            await made.subscribe(streams)
            await streams.create("orders/1", JSON, ttl_s=10, body={"n": 1})
            clock.advance(20)
            async with running(made, streams):
                await eventually_async(lambda: len(claims_s) >= 3)
    assert claims_s[2] - claims_s[0] > 0.9
    assert record.started == []


async def test_a_subscription_and_a_wake_stream_that_are_deleted_are_created_again(own_server, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_CLAIM_S", 0.1)
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.request("DELETE", "/v1/stream/__ds/subscriptions/billing")
            await streams.delete("wakes/billing")
            await eventually_async(lambda: describe(streams))
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])


async def test_a_wake_stream_that_is_closed_is_reported_once_and_replaced_by_regular_claims(
    own_server, monkeypatch, caplog
):
    monkeypatch.setattr(limits, "WORKER_CLAIM_S", 1.0)
    record = Record()
    with counting(own_server.url, "/claim") as (url, claims_s):
        async with AsyncStreams(url) as streams:
            await streams.create("orders/1", JSON)
            async with running(record.make_worker("orders/*"), streams):
                await streams.close("wakes/billing")
                await eventually_async(lambda: "is closed" in caplog.text)
                claims_s.clear()
                await eventually_async(lambda: len(claims_s) == 4)
                await streams.append("orders/1", {"n": 1})
                await eventually_async(lambda: record.messages == [{"n": 1}])
    assert claims_s[3] - claims_s[0] > 1.5
    assert caplog.text.count("is closed") == 1


async def test_another_configuration_is_refused(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await record.make_worker("orders/*").subscribe(streams)
        with pytest.raises(SubscriptionRefused, match="different configuration") as caught:
            await record.make_worker("other/*").run(streams)
    assert caught.value.code == "subscription_refused"


async def test_a_paused_subscription_continues_when_it_is_resumed(own_server):
    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.request("POST", "/v1/subscriptions/billing/pause")
            await streams.append("orders/1", {"n": 1})
            await streams.request("POST", "/v1/subscriptions/billing/resume")
            await eventually_async(lambda: record.messages == [{"n": 1}])


async def test_a_worker_continues_from_the_offset_that_the_application_has_kept(own_server):
    kept = {}
    fail_once = [True]

    async def keep(batch):
        kept[batch.stream] = batch.offset
        if fail_once:
            fail_once.clear()
            raise ConnectionError("after the commit")

    record = Record(keep)
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", resume=kept.get), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
            await streams.append("orders/1", {"n": 2})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert [batch.messages for batch in record.started] == [[{"n": 1}], [{"n": 2}]]


async def test_a_resume_that_fails_is_tried_again(own_server):
    calls = []

    async def resume(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError("the database restarts")

    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", resume=resume), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])
    assert calls == ["orders/1", "orders/1"]
    assert record.started[0].attempt == 1


@pytest.mark.parametrize("wrong", ["now", "0000000000000000_0000000000000099"])
async def test_a_resume_that_returns_a_wrong_offset_loses_no_data(own_server, wrong, caplog):
    calls = []

    def resume(path):
        calls.append(path)
        return wrong if len(calls) <= 2 else None

    record = Record()
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", resume=resume), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.messages == [{"n": 1}]
    assert "resume returned" in caplog.text


# Tokens and damaged replies


class BrokenToken:
    """A token that comes from a service that fails at times."""

    def __init__(self) -> None:
        self.broken = False
        self.failures = 0

    def __call__(self) -> str:
        if self.broken:
            self.failures += 1
            raise OSError("the identity provider is down")
        return "token"

    async def fail(self) -> None:
        """Fail at least twice."""
        self.broken, self.failures = True, 0
        await eventually_async(lambda: self.failures >= 2)
        self.broken = False


@pytest.mark.parametrize("when", ["claim", "heartbeat"])
async def test_a_token_that_fails_for_a_moment_does_not_end_the_run(own_server, when):
    token = BrokenToken()

    async def act(batch):
        if when == "heartbeat" and batch.attempt == 1 and not token.failures:
            await token.fail()

    record = Record(act)
    async with AsyncStreams(own_server.url) as direct, AsyncStreams(own_server.url, token=token) as streams:
        await direct.create("orders/1", JSON)
        async with running(record.make_worker("orders/*", lease_s=3), streams):
            if when == "claim":
                token.broken = True
            await direct.append("orders/1", {"n": 1})
            if when == "claim":
                await token.fail()
            await eventually_async(lambda: is_processed(direct, "orders/1"))
    assert {"n": 1} in record.messages


async def test_a_token_that_fails_for_a_moment_does_not_end_the_wake_messages(own_server, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_CLAIM_S", 600.0)
    token, record = BrokenToken(), Record()
    async with AsyncStreams(own_server.url) as direct, AsyncStreams(own_server.url, token=token) as streams:
        await direct.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await direct.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(direct, "orders/1"))
            token.broken = True
            await direct.delete("wakes/billing")
            await token.fail()
            for number in range(2, 5):
                await direct.append("orders/1", {"n": number})
                await eventually_async(lambda: is_processed(direct, "orders/1"))
    assert record.messages == [{"n": number} for number in range(1, 5)]


async def test_a_damaged_reply_to_a_claim_does_not_end_the_run(own_server):
    """The lease that the reply contained expires, and the worker claims again."""

    class Damaged(HttpReply):
        async def receive(self) -> bytes:
            return (await super().receive())[:-1]

    class Damaging(HttpTransport):
        damaged = False

        async def send(self, request):
            reply = await super().send(request)
            if request.target.endswith("/claim") and reply.head.ok and not self.damaged:
                self.damaged = True
                reply.__class__ = Damaged
            return reply

    record = Record()
    made = record.make_worker("orders/*", lease_s=1)
    async with httpx2.AsyncClient(trust_env=False) as http:
        transport = Damaging(http, own_server.url, 30.0, owns_http=False)
        async with AsyncStreams(own_server.url, transport=transport) as streams:
            await made.subscribe(streams)
            await streams.create("orders/1", JSON, body={"n": 1})
            async with running(made, streams):
                await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert transport.damaged
    assert record.messages == [{"n": 1}]


# Declarations


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 501},
        {"lease_s": 0.5},
        {"lease_s": 601},
        {"attempts_max": 0},
        {"subscription": "eu/billing"},
    ],
)
def test_values_that_cannot_work_are_refused(options):
    with pytest.raises(BadArgument, match=next(iter(options))):
        Record().make_worker("orders/*", **options)


def test_a_function_without_async_is_refused():
    with pytest.raises(BadArgument, match="async"):
        worker("orders/*", subscription="billing")(lambda batch: None)  # type: ignore[arg-type,return-value]


async def test_a_worker_runs_once_and_can_be_called_by_tests(own_server):
    @worker("orders/*", subscription="billing")
    async def bill(batch):
        """Bill an order."""
        return batch.messages

    batch = WorkerBatch(data=b"[1]", offset="2", content_type=JSON, stream="a", start_offset="1", generation=1)
    assert await bill(batch) == [1]
    assert bill.__doc__ == "Bill an order."
    async with AsyncStreams(own_server.url) as streams, running(bill, streams):
        with pytest.raises(BadArgument, match="already running"):
            await bill.run(streams)


def test_a_worker_runs_in_one_event_loop_after_the_other(own_server):
    """A test suite starts an event loop per test. A stop event of the first one would end every call of the second."""
    record = Record(lambda batch: asyncio.sleep(0.1))
    made = record.make_worker("orders/*")

    async def work(number):
        async with AsyncStreams(own_server.url) as streams, running(made, streams):
            await streams.create("orders/1", JSON)
            await streams.append("orders/1", number)
            await eventually_async(lambda: record.messages[-1:] == [number])

    for number in (1, 2):
        asyncio.run(work(number))


async def test_a_stop_before_the_run_counts_once(own_server):
    made = Record().make_worker("orders/*")
    made.stop()
    async with AsyncStreams(own_server.url) as streams:
        await asyncio.wait_for(made.run(streams), 30)
        async with running(made, streams) as task:
            assert not task.done()


async def test_a_stop_after_the_run_has_no_effect_on_the_next_one(own_server):
    record = Record()
    made = record.make_worker("orders/*")
    async with AsyncStreams(own_server.url) as streams:
        await streams.create("orders/1", JSON)
        async with running(made, streams) as task:
            made.stop()
            await asyncio.wait_for(task, 30)
        made.stop()
        async with running(made, streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: record.messages == [{"n": 1}])
