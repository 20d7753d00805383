"""Loads that write: appends for a fixed time, and fills that prepare streams for the readers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from bench.load_jobs import Append, Create, Figures, Fill, Grow, Steady, Touch
from bench.payloads import CONTENT_TYPES, make_body
from bench.processes import CpuMeter
from bench.quantiles import find_quantile
from bench.wire import Connection, UnexpectedReply, build_request, check_status, connect_all

FILL_CONNECTIONS = 16
GROW_CONNECTIONS = 128
STEADY_CONNECTIONS = 64
STEADY_S_MAX = 30.0
LOOK_GAP_S = 0.05

RequestSource = Callable[[], bytes]


class Drainer(Connection):
    """Sends requests from a shared iterator until it is empty."""

    def __init__(self, outcome: asyncio.Future[None], requests: Iterator[bytes], expected: bytes) -> None:
        super().__init__(outcome)
        self.requests = requests
        self.expected = expected
        self.drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.drained.set_result(None)
        else:
            self.transport.write(request)

    def handle_reply(self, head: bytes, body: bytes) -> None:
        check_status(head, body, self.expected)
        self.send()


class Appender(Connection):
    """Sends the next append when the last is answered, and records the latencies within the window."""

    def __init__(
        self, outcome: asyncio.Future[None], next_request: RequestSource, expected: bytes, window: Window
    ) -> None:
        super().__init__(outcome)
        self.next_request = next_request
        self.expected = expected
        self.window = window
        self.sent_at = 0.0

    def send(self) -> None:
        request = self.next_request()
        self.sent_at = time.perf_counter()
        self.transport.write(request)

    def handle_reply(self, head: bytes, body: bytes) -> None:
        if head[9:12] != self.expected:
            check_status(head, body, self.expected)
        now = time.perf_counter()
        window = self.window
        if now >= window.end:
            return
        if now >= window.begin:
            window.latencies_s.append(now - self.sent_at)
        self.send()


class SteadyAppender(Connection):
    """Sends the append that has waited for the longest time, and is free if none waits."""

    def __init__(self, outcome: asyncio.Future[None], request: bytes, line: Line) -> None:
        super().__init__(outcome)
        self.request = request
        self.line = line
        self.due_at = 0.0

    def take(self) -> None:
        if not self.line.due_at:
            self.line.free.append(self)
            return
        self.due_at = self.line.due_at.popleft()
        self.transport.write(self.request)

    def handle_reply(self, head: bytes, body: bytes) -> None:
        check_status(head, body, b"204")
        self.line.latencies_s.append(time.perf_counter() - self.due_at)
        self.take()


class Line:
    """Appends that wait for a free connection, and connections that wait for an append."""

    def __init__(self) -> None:
        self.due_at: deque[float] = deque()
        self.free: list[SteadyAppender] = []
        self.latencies_s: list[float] = []

    def add(self) -> None:
        self.due_at.append(time.perf_counter())
        if self.free:
            self.free.pop().take()


class Window:
    """The measured part of a run: only replies that arrive within it count."""

    def __init__(self) -> None:
        self.begin = self.end = 0.0
        self.latencies_s: list[float] = []

    def start(self, warmup_s: float, seconds: float) -> None:
        self.begin = time.perf_counter() + warmup_s
        self.end = self.begin + seconds


async def drain(port: int, requests: Iterable[bytes], expected: bytes, connections: int = FILL_CONNECTIONS) -> None:
    """Send every request once, over a few connections, and expect the same status for each."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    shared = iter(requests)
    drainers = await connect_all(port, [lambda: Drainer(outcome, shared, expected)] * connections)
    for drainer in drainers:
        drainer.send()
    for drainer in drainers:
        await asyncio.wait([drainer.drained, outcome], return_when=asyncio.FIRST_COMPLETED)
        if outcome.done():
            outcome.result()
    for drainer in drainers:
        drainer.close()


async def create_streams(port: int, names: Iterable[str], content_type: str, body: bytes = b"") -> None:
    headers = {"Content-Type": content_type}
    await drain(port, (build_request("PUT", name, headers=headers, body=body) for name in names), b"201")


def name_streams(count: int) -> Iterator[str]:
    return (f"many/{index:06d}" for index in range(count))


async def run_create(job: Create) -> Figures:
    started = time.perf_counter()
    await create_streams(job.port, name_streams(job.streams), CONTENT_TYPES["bytes"], make_body("bytes", 1))
    return {"creates_per_s": job.streams / (time.perf_counter() - started)}


async def run_touch(job: Touch) -> Figures:
    started = time.perf_counter()
    requests = (build_request("GET", name, query="?offset=-1") for name in name_streams(job.streams))
    await drain(job.port, requests, b"200")
    return {"reads_per_s": job.streams / (time.perf_counter() - started)}


async def run_grow(job: Grow) -> Figures:
    headers, body = {"Content-Type": CONTENT_TYPES["bytes"]}, make_body("bytes", 1)
    each = [build_request("POST", name, headers=headers, body=body) for name in name_streams(job.streams)]
    started = time.perf_counter()
    await drain(job.port, itertools.islice(itertools.cycle(each), job.appends), b"204", GROW_CONNECTIONS)
    return {"appends_per_s": job.appends / (time.perf_counter() - started)}


async def run_fill(job: Fill) -> Figures:
    content_type = CONTENT_TYPES[job.content]
    await create_streams(job.port, [job.stream], content_type)
    body = make_body(job.content, job.messages)
    request = build_request("POST", job.stream, headers={"Content-Type": content_type}, body=body)
    started = time.perf_counter()
    await drain(job.port, itertools.repeat(request, job.appends), b"204")
    return {"appends_per_s": job.appends / (time.perf_counter() - started)}


async def run_append(job: Append) -> Figures:
    names = [f"append-{index:04d}" for index in range(job.streams)] if job.stream is None else [job.stream]
    if job.stream is None:
        await create_streams(job.port, names, CONTENT_TYPES[job.content])
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sources = make_sources(job, names)
    # A new append of a producer gets 200; 204 would mean a duplicate, which stores nothing.
    expected = b"200" if job.producers else b"204"
    window = Window()
    makers = [partial(Appender, outcome, source, expected, window) for source in sources]
    appenders = await connect_all(job.port, makers)
    window.start(job.warmup_s, job.seconds)
    for appender in appenders:
        appender.send()
    await wait_for_failure(outcome, job.warmup_s)
    meter = CpuMeter(job.pid)
    await wait_for_failure(outcome, job.seconds)
    cpu = meter.stop()
    for appender in appenders:
        appender.close()
    return summarise_window(window, job) | cpu


async def run_steady(job: Steady) -> Figures:
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    headers = {"Content-Type": CONTENT_TYPES["bytes"]}
    request = build_request("POST", job.stream, headers=headers, body=make_body("bytes", 1))
    line = Line()
    appenders = await connect_all(job.port, [lambda: SteadyAppender(outcome, request, line)] * STEADY_CONNECTIONS)
    for appender in appenders:
        appender.take()
    appends, begin = int(job.appends_per_s * job.seconds), time.perf_counter()
    for number in range(appends):
        # An append that has no free connection waits in line, and its wait counts.
        await wait_for_failure(outcome, max(0.0, begin + number / job.appends_per_s - time.perf_counter()))
        line.add()
    deadline = time.perf_counter() + STEADY_S_MAX
    while len(line.latencies_s) < appends:
        if time.perf_counter() > deadline:
            raise UnexpectedReply(f"only {len(line.latencies_s)} of {appends} appends were answered")
        await wait_for_failure(outcome, LOOK_GAP_S)
    for appender in appenders:
        appender.close()
    latencies = sorted(line.latencies_s)
    return {"p50_ms": find_quantile(latencies, 0.50) * 1000, "p99_ms": find_quantile(latencies, 0.99) * 1000}


async def wait_for_failure(outcome: asyncio.Future[None], seconds: float) -> None:
    """Let the load run for `seconds`; raise at once if it fails."""
    await asyncio.wait([outcome], timeout=seconds)
    if outcome.done():
        outcome.result()


def summarise_window(window: Window, job: Append) -> Figures:
    latencies = sorted(window.latencies_s)
    return {
        "requests": float(len(latencies)),
        "per_s": len(latencies) / job.seconds,
        "messages_per_s": len(latencies) * job.messages / job.seconds,
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
    }


def make_sources(job: Append, names: list[str]) -> list[RequestSource]:
    """Return a source of ready-made requests per connection; the streams are distributed among them."""
    body = make_body(job.content, job.messages)
    sources: list[RequestSource] = []
    for index in range(job.connections):
        own = names[index :: job.connections] or [names[index % len(names)]]
        if job.producers:
            sources.append(make_producer(f"producer-{index}", own[0], job, body))
        else:
            headers = {"Content-Type": CONTENT_TYPES[job.content]}
            requests = [build_request("POST", name, headers=headers, body=body) for name in own]
            sources.append(itertools.cycle(requests).__next__)
    return sources


def make_producer(producer_id: str, stream: str, job: Append, body: bytes) -> RequestSource:
    headers = {
        "Content-Type": CONTENT_TYPES[job.content],
        "Producer-Id": producer_id,
        "Producer-Epoch": "0",
        "Producer-Seq": "SEQUENCE",
    }
    before, after = build_request("POST", stream, headers=headers, body=body).split(b"SEQUENCE")
    numbers = itertools.count()
    return lambda: b"%b%d%b" % (before, next(numbers), after)
