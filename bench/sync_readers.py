"""Loads that follow partitions: broadcasts to many subscribers, and pages of one partition."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import msgspec

from bench.load_jobs import Figures, SyncFanOut, SyncPage
from bench.processes import CpuMeter
from bench.quantiles import find_quantile
from bench.sync_wire import (
    BROADCAST,
    PAGE,
    EventSource,
    SyncConnection,
    build_submit,
    build_sync,
    check_results,
    raise_unexpected,
    wait_until_ready,
)
from bench.wire import UnexpectedReply, connect_all
from bench.writers import wait_for_failure

PARTITION = "live"
WARM_EVENTS = 20
ARRIVE_S_MAX = 30.0
LOOK_GAP_S = 0.05
PAGES_MIN = 20
PAGES_MAX = 5_000
PAGE_S_MAX = 30.0


class Board:
    """When each event was sent, and how long it took to reach each subscriber."""

    def __init__(self, prefix: bytes) -> None:
        self.start = BROADCAST + b',"payload":{"id":"' + prefix + b"-"
        self.sent_at: list[float] = []
        self.latencies_s: list[float] = []


class Follower(SyncConnection):
    """A subscriber that expects the events in order, without a gap."""

    def __init__(self, outcome: asyncio.Future[None], client_id: str, board: Board) -> None:
        super().__init__(outcome, client_id, PARTITION)
        self.board = board
        self.arrived = 0

    def handle_message(self, message: bytes) -> None:
        now, board = time.perf_counter(), self.board
        start = len(board.start)
        if not message.startswith(board.start):
            raise_unexpected(message)
        number = int(message[start : message.index(b'"', start)])
        if number != self.arrived:
            raise UnexpectedReply(f"{self.client_id} expected event {self.arrived}, but got {number}")
        self.arrived += 1
        if number >= WARM_EVENTS:
            board.latencies_s.append(now - board.sent_at[number])


class Speaker(SyncConnection):
    """Submits one event per call of `speak`."""

    def __init__(self, outcome: asyncio.Future[None], source: EventSource, board: Board) -> None:
        super().__init__(outcome, "speaker")
        self.source = source
        self.board = board
        self.commits = 0

    def speak(self) -> None:
        submit = build_submit([self.source.make(PARTITION.encode())])
        self.board.sent_at.append(time.perf_counter())
        self.transport.write(submit)

    def handle_message(self, message: bytes) -> None:
        check_results(message, 1)
        self.commits += 1


async def run_sync_fan_out(job: SyncFanOut) -> Figures:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    source = EventSource()
    board = Board(source.prefix)
    makers = [partial(Follower, outcome, f"follower-{index}", board) for index in range(job.subscribers)]
    followers = await connect_all(job.port, makers)
    [speaker] = await connect_all(job.port, [lambda: Speaker(outcome, source, board)])
    await wait_until_ready([*followers, speaker], outcome)
    events = WARM_EVENTS + int(job.events_per_s * job.seconds)
    begin, meter = time.perf_counter(), CpuMeter(job.pid)
    for number in range(events):
        # At fixed times, not after the last event: a slow event must not slow down the load.
        await wait_for_failure(outcome, max(0.0, begin + number / job.events_per_s - time.perf_counter()))
        speaker.speak()
    elapsed_s, cpu = time.perf_counter() - begin, meter.stop()
    await wait_for_arrivals(followers, speaker, events)
    for connection in [*followers, speaker]:
        connection.close()
    latencies = sorted(board.latencies_s)
    return {
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
        "events_per_s": events / elapsed_s,
        **cpu,
    }


async def wait_for_arrivals(followers: list[Follower], speaker: Speaker, events: int) -> None:
    deadline = time.perf_counter() + ARRIVE_S_MAX
    while speaker.commits < events or any(follower.arrived < events for follower in followers):
        if time.perf_counter() > deadline:
            behind = sum(follower.arrived < events for follower in followers)
            raise UnexpectedReply(f"{speaker.commits} of {events} events committed; {behind} subscribers lack some")
        await wait_for_failure(speaker.outcome, LOOK_GAP_S)


class PageEvent(msgspec.Struct):
    id: str
    partitions: list[str]


class PagePayload(msgspec.Struct):
    events: list[PageEvent]
    has_more: bool


class PageMessage(msgspec.Struct):
    payload: PagePayload


class Pager(SyncConnection):
    """Requests one page at a time."""

    arrived: asyncio.Future[bytes]
    arrived_at = 0.0

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self.arrived = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.arrived

    def handle_message(self, message: bytes) -> None:
        self.arrived_at = time.perf_counter()
        if not message.startswith(PAGE):
            raise_unexpected(message)
        self.arrived.set_result(message)


async def run_sync_page(job: SyncPage) -> Figures:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    [pager] = await connect_all(job.port, [lambda: Pager(outcome, "pager")])
    await wait_until_ready([pager], outcome)
    request = build_sync(job.partition)
    latencies: list[float] = []
    size = 0
    end = time.perf_counter() + job.seconds
    while len(latencies) < PAGES_MIN or (time.perf_counter() < end and len(latencies) < PAGES_MAX):
        started = time.perf_counter()
        page = pager.ask(request)
        awaited: list[asyncio.Future[Any]] = [page, outcome]
        await asyncio.wait(awaited, timeout=PAGE_S_MAX, return_when=asyncio.FIRST_COMPLETED)
        if outcome.done():
            outcome.result()
        if not page.done():
            raise UnexpectedReply(f"no page within {PAGE_S_MAX} s")
        latencies.append(pager.arrived_at - started)
        size = len(page.result())
        check_page(page.result(), job)
    pager.close()
    latencies.sort()
    return {
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
        "pages": float(len(latencies)),
        "page_kb": size / 1000,
    }


def check_page(message: bytes, job: SyncPage) -> None:
    payload = msgspec.json.decode(message, type=PageMessage).payload
    found = {event.id for event in payload.events if event.partitions == [job.partition]}
    if payload.has_more or not len(found) == len(payload.events) == job.events:
        raise UnexpectedReply(f"a page of {len(payload.events)} events, {len(found)} of {job.events} in the partition")
