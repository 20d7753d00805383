"""Loads that write: appends for a fixed time, and fills that prepare streams for the readers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from bench.load_jobs import Append, Create, Figures, Fill, Touch
from bench.payloads import CONTENT_TYPES, make_body
from bench.quantiles import find_quantile
from bench.wire import Connection, build_request, check_status, connect_all

FILL_CONNECTIONS = 16

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


class Window:
    """The measured part of a run: only replies that arrive within it count."""

    def __init__(self) -> None:
        self.begin = self.end = 0.0
        self.latencies_s: list[float] = []

    def start(self, warmup_s: float, seconds: float) -> None:
        self.begin = time.perf_counter() + warmup_s
        self.end = self.begin + seconds


async def drain(port: int, requests: Iterable[bytes], expected: bytes) -> None:
    """Send every request once, over a few connections, and expect the same status for each."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    shared = iter(requests)
    drainers = await connect_all(port, [lambda: Drainer(outcome, shared, expected)] * FILL_CONNECTIONS)
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
    cpu_s = -time.process_time()
    await wait_for_failure(outcome, job.seconds)
    cpu_s += time.process_time()
    for appender in appenders:
        appender.close()
    return summarise_window(window, job, cpu_s)


async def wait_for_failure(outcome: asyncio.Future[None], seconds: float) -> None:
    """Let the load run for `seconds`; raise at once if it fails."""
    await asyncio.wait([outcome], timeout=seconds)
    if outcome.done():
        outcome.result()


def summarise_window(window: Window, job: Append, cpu_s: float) -> Figures:
    latencies = sorted(window.latencies_s)
    return {
        "requests": float(len(latencies)),
        "per_s": len(latencies) / job.seconds,
        "messages_per_s": len(latencies) * job.messages / job.seconds,
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
        "generator_cpu": cpu_s / job.seconds,
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
