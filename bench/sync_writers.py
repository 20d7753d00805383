"""Loads that submit: closed loops of single events, and a fill of many partitions in batches."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from functools import partial

from bench.load_jobs import Figures, SyncFill, SyncSubmit
from bench.processes import CpuMeter
from bench.quantiles import find_quantile
from bench.sync_wire import (
    BROADCAST,
    EventSource,
    SyncConnection,
    build_submit,
    check_results,
    wait_until_ready,
)
from bench.wire import UnexpectedReply, connect_all
from bench.writers import Window, wait_for_failure

SHARED = "shared"
RATE_SHARE = 0.99
# How far a client may be ahead of that rate. This evens out bursts, and is far below what the server tolerates.
AHEAD_MAX = 1_000
HOLD_BACK_S = 0.001
ARRIVE_S_MAX = 30.0
LOOK_GAP_S = 0.05
FILL_CLIENTS = 8
FILL_BATCH = 100
# A client may have 200 drafts in flight.
FILL_IN_FLIGHT = 2
FILL_PARTITIONS = 1_000


class Submitter(SyncConnection):
    """Sends an event for each of its own that was committed, and counts the broadcasts of others."""

    def __init__(
        self,
        outcome: asyncio.Future[None],
        window: Window,
        source: EventSource,
        client_id: str,
        partition: str,
        subscription: str | None,
    ) -> None:
        super().__init__(outcome, client_id, subscription)
        self.window = window
        self.source = source
        self.partition = partition.encode()
        # Replies arrive in the order of the requests.
        self.sent_at: deque[float] = deque()
        self.due = 0
        self.sent = 0
        self.started_at = 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.held_back = 0
        self.commits = 0
        self.broadcasts = 0

    def start(self, in_flight: int) -> None:
        self.started_at = time.perf_counter()
        self.send(in_flight)

    def send(self, count: int) -> None:
        self.sent += count
        make, own = self.source.make, self.partition
        frames = b"".join([build_submit([make(own)]) for _ in range(count)])
        self.sent_at.extend([time.perf_counter()] * count)
        self.transport.write(frames)

    def handle_message(self, message: bytes) -> None:
        if message.startswith(BROADCAST):
            self.broadcasts += 1
            return
        check_results(message, 1)
        self.commits += 1
        self.due += 1
        now, window = time.perf_counter(), self.window
        sent_at = self.sent_at.popleft()
        if window.begin <= now < window.end:
            window.latencies_s.append(now - sent_at)

    def finish_read(self) -> None:
        now = time.perf_counter()
        if not self.due or self.timer is not None or now >= self.window.end:
            return
        count = min(self.due, self.count_allowed(now))
        if count > 0:
            self.due -= count
            self.send(count)
        if self.due:
            self.held_back += 1
            self.timer = asyncio.get_running_loop().call_later(HOLD_BACK_S, self.resume)

    def resume(self) -> None:
        self.timer = None
        self.finish_read()

    def count_allowed(self, now: float) -> int:
        """Return how many more may be sent now: a good client stays below the rate that the server has announced."""
        rate = self.messages_per_s_max * RATE_SHARE
        return int((now - self.started_at) * rate) + AHEAD_MAX - self.sent


async def run_submit(job: SyncSubmit) -> Figures:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    window, source = Window(), EventSource()
    subscription = SHARED if job.shared else None
    makers = [
        partial(
            Submitter,
            outcome,
            window,
            source,
            f"client-{index}",
            SHARED if job.shared else f"own-{index}",
            subscription,
        )
        for index in range(job.clients)
    ]
    clients = await connect_all(job.port, makers)
    await wait_until_ready(clients, outcome)
    window.start(job.warmup_s, job.seconds)
    for client in clients:
        client.start(job.in_flight)
    await wait_for_failure(outcome, job.warmup_s)
    broadcasts, begin, meter = -count_broadcasts(clients), time.perf_counter(), CpuMeter(job.pid)
    await wait_for_failure(outcome, job.seconds)
    broadcasts += count_broadcasts(clients)
    elapsed_s, cpu = time.perf_counter() - begin, meter.stop()
    await wait_for_rest(clients, outcome, job.shared)
    for client in clients:
        client.close()
    latencies = sorted(window.latencies_s)
    return {
        "commits": float(len(latencies)),
        "commits_per_s": len(latencies) / job.seconds,
        "broadcasts_per_s": broadcasts / elapsed_s,
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
        "held_back": float(sum(client.held_back for client in clients)),
        **cpu,
    }


def count_broadcasts(clients: list[Submitter]) -> int:
    return sum(client.broadcasts for client in clients)


async def wait_for_rest(clients: list[Submitter], outcome: asyncio.Future[None], shared: bool) -> None:
    """Wait until everything is committed and, if shared, each client has received the others' events, each once."""
    deadline = time.perf_counter() + ARRIVE_S_MAX
    while any(client.sent_at for client in clients) or count_missing(clients, shared) > 0:
        if time.perf_counter() > deadline:
            raise UnexpectedReply(
                f"{count_missing(clients, shared)} broadcasts are missing, or submits were not answered"
            )
        await wait_for_failure(outcome, LOOK_GAP_S)
    if shared:
        await wait_for_failure(outcome, LOOK_GAP_S)
    if count_missing(clients, shared) < 0:
        raise UnexpectedReply(f"{-count_missing(clients, shared)} broadcasts too many")


def count_missing(clients: list[Submitter], shared: bool) -> int:
    receivers = len(clients) - 1 if shared else 0
    return sum(client.commits for client in clients) * receivers - count_broadcasts(clients)


class Filler(SyncConnection):
    """Sends batches from a shared iterator until it is empty."""

    def __init__(self, outcome: asyncio.Future[None], client_id: str, batches: Iterator[list[bytes]]) -> None:
        super().__init__(outcome, client_id)
        self.batches = batches
        self.sizes: deque[int] = deque()
        self.drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self) -> None:
        batch = next(self.batches, None)
        if batch is not None:
            self.sizes.append(len(batch))
            self.transport.write(build_submit(batch))
        elif not self.sizes and not self.drained.done():
            self.drained.set_result(None)

    def handle_message(self, message: bytes) -> None:
        check_results(message, self.sizes.popleft())
        self.send()


def make_batches(job: SyncFill) -> Iterator[list[bytes]]:
    """Yield the batches, with the kept events spread evenly over the whole log."""
    source, own = EventSource(), job.partition.encode()
    others = [b"other-%d" % index for index in range(FILL_PARTITIONS)]
    total = job.events + job.kept
    batch: list[bytes] = []
    for index in range(total):
        keep = (index + 1) * job.kept // total > index * job.kept // total
        batch.append(source.make(own if keep else others[index % FILL_PARTITIONS]))
        if len(batch) == FILL_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


async def run_fill_partitions(job: SyncFill) -> Figures:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    batches = make_batches(job)
    makers = [partial(Filler, outcome, f"filler-{index}", batches) for index in range(FILL_CLIENTS)]
    fillers = await connect_all(job.port, makers)
    await wait_until_ready(fillers, outcome)
    started = time.perf_counter()
    for filler in fillers:
        for _ in range(FILL_IN_FLIGHT):
            filler.send()
    for filler in fillers:
        await asyncio.wait([filler.drained, outcome], return_when=asyncio.FIRST_COMPLETED)
        if outcome.done():
            outcome.result()
    elapsed_s = time.perf_counter() - started
    for filler in fillers:
        filler.close()
    return {"fill_events_per_s": (job.events + job.kept) / elapsed_s}
