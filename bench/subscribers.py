"""Loads that wait: live subscribers of one stream, by SSE or long-poll, and the memory of idle ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from bench.load_jobs import AppendBeside, FanOut, Figures, Idle
from bench.payloads import CONTENT_TYPES, make_message
from bench.processes import CpuMeter, measure_rss
from bench.quantiles import find_quantile
from bench.sockets import BlockingConnection, fetch_tail
from bench.wire import (
    HEAD_END,
    Connection,
    UnexpectedReply,
    build_request,
    check_status,
    connect_all,
    require_header,
)
from bench.writers import create_streams, run_append, wait_for_failure

STREAM = "live"
SETTLE_S = 0.5
ROUND_GAP_S = 0.02
ROUND_S_MAX = 30.0
ROUNDS_MIN = 5
IDLE_WARM_CONNECTIONS = 50
IDLE_SETTLE_S = 2.0


class Round:
    """One append on its way to all subscribers."""

    def __init__(self, number: int, subscribers: int) -> None:
        self.label = f"round-{number:06d}"
        self.marker = self.label.encode()
        self.missing = subscribers
        self.sent_at = 0.0
        self.latencies_s: list[float] = []
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def record_arrival(self) -> None:
        self.latencies_s.append(time.perf_counter() - self.sent_at)
        self.missing -= 1
        if self.missing == 0:
            self.complete.set_result(None)


class Audience:
    """The subscribers of a job: how many are connected, and the round that they wait for."""

    def __init__(self, size: int, tail: str) -> None:
        loop = asyncio.get_running_loop()
        self.size = size
        # Not "now": a subscriber that the server accepts late must still get the first round.
        self.tail = tail
        self.outcome: asyncio.Future[None] = loop.create_future()
        self.ready = 0
        self.all_ready: asyncio.Future[None] = loop.create_future()
        self.round: Round | None = None

    def record_ready(self) -> None:
        self.ready += 1
        if self.ready == self.size:
            self.all_ready.set_result(None)


class SseSubscriber(Connection):
    """Searches for the round's marker in what it receives, because parsing the events would cost too much time."""

    def __init__(self, audience: Audience) -> None:
        super().__init__(audience.outcome)
        self.audience = audience
        self.head = b""
        self.open = False
        self.tail = b""
        self.arrived: Round | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        query = f"?offset={self.audience.tail}&live=sse"
        self.transport.write(build_request("GET", STREAM, query=query))

    def data_received(self, data: bytes) -> None:
        if not self.open:
            data = self._read_head(data)
        current = self.audience.round
        if current is None or current is self.arrived:
            return
        # A segment may end within the marker, so the end of the last segment is searched again.
        if current.marker in self.tail + data:
            self.arrived = current
            self.tail = b""
            current.record_arrival()
        else:
            self.tail = data[-len(current.marker) :]

    def _read_head(self, data: bytes) -> bytes:
        """Read the head, and return the bytes after it."""
        self.head += data
        head, end, rest = self.head.partition(HEAD_END)
        if not end:
            return b""
        try:
            check_status(head, rest, b"200")
        except UnexpectedReply as error:
            self.fail(error)
            return b""
        self.open = True
        self.audience.record_ready()
        return rest


class PollSubscriber(Connection):
    """Polls again after every reply, from where the reply ended."""

    def __init__(self, audience: Audience) -> None:
        super().__init__(audience.outcome)
        self.audience = audience

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.ask(self.audience.tail)
        self.audience.record_ready()

    def ask(self, offset: str) -> None:
        self.transport.write(build_request("GET", STREAM, query=f"?offset={offset}&live=long-poll"))

    def handle_reply(self, head: bytes, body: bytes) -> None:
        if head[9:12] != b"204":
            check_status(head, body, b"200")
            current = self.audience.round
            if current is None or current.marker not in body:
                raise UnexpectedReply(f"the reply to a long-poll does not contain the message: {body[:200]!r}")
            current.record_arrival()
        self.ask(require_header(head, "Stream-Next-Offset"))


class Publisher(Connection):
    """Appends one message per round."""

    replied: asyncio.Future[None]

    def publish(self, message: bytes) -> None:
        self.replied = asyncio.get_running_loop().create_future()
        headers = {"Content-Type": CONTENT_TYPES["json"]}
        self.transport.write(build_request("POST", STREAM, headers=headers, body=message))

    def handle_reply(self, head: bytes, body: bytes) -> None:
        check_status(head, body, b"204")
        self.replied.set_result(None)


async def gather_audience(
    port: int, size: int, make: Callable[[Audience], Connection]
) -> tuple[Audience, list[Connection]]:
    """Connect `size` subscribers, and wait until the server has accepted them all."""
    with BlockingConnection(port) as connection:
        audience = Audience(size, fetch_tail(connection, STREAM))
    subscribers = await connect_all(port, [lambda: make(audience)] * size)
    await asyncio.wait([audience.all_ready, audience.outcome], return_when=asyncio.FIRST_COMPLETED)
    await wait_for_failure(audience.outcome, SETTLE_S)
    return audience, subscribers


async def run_fan_out(job: FanOut) -> Figures:
    await create_streams(job.port, [STREAM], CONTENT_TYPES["json"])
    make: Callable[[Audience], Connection] = SseSubscriber if job.mode == "sse" else PollSubscriber
    audience, subscribers = await gather_audience(job.port, job.subscribers, make)
    [publisher] = await connect_all(job.write_port or job.port, [lambda: Publisher(audience.outcome)])
    await play_round(audience, publisher, 0)
    latencies: list[float] = []
    rounds, begin, meter = 0, time.perf_counter(), CpuMeter(job.pid)
    while time.perf_counter() < begin + job.seconds or rounds < ROUNDS_MIN:
        rounds += 1
        latencies += await play_round(audience, publisher, rounds)
    elapsed_s, cpu = time.perf_counter() - begin, meter.stop()
    for connection in [*subscribers, publisher]:
        connection.close()
    latencies.sort()
    return {
        "p50_ms": find_quantile(latencies, 0.50) * 1000,
        "p99_ms": find_quantile(latencies, 0.99) * 1000,
        "rounds": float(rounds),
        "deliveries_per_s": len(latencies) / elapsed_s,
        **cpu,
    }


async def play_round(audience: Audience, publisher: Publisher, number: int) -> list[float]:
    current = audience.round = Round(number, audience.size)
    message = make_message(current.label)
    current.sent_at = time.perf_counter()
    publisher.publish(message)
    deadline = current.sent_at + ROUND_S_MAX
    for event in (current.complete, publisher.replied):
        left_s = deadline - time.perf_counter()
        await asyncio.wait([event, audience.outcome], timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if audience.outcome.done():
            audience.outcome.result()
    if not current.complete.done() or not publisher.replied.done():
        raise UnexpectedReply(f"{current.missing} of {audience.size} subscribers did not get {current.label}")
    # Wait until the next long-polls have reached the server.
    await wait_for_failure(audience.outcome, ROUND_GAP_S)
    return current.latencies_s


async def run_idle(job: Idle) -> Figures:
    assert job.pid is not None
    await create_streams(job.port, [STREAM], CONTENT_TYPES["json"])
    # The first connections load code and grow pools; that is not the cost of a connection.
    first, warm = await gather_audience(job.port, IDLE_WARM_CONNECTIONS, SseSubscriber)
    await wait_for_failure(first.outcome, IDLE_SETTLE_S)
    before = measure_rss(job.pid)
    audience, idle = await gather_audience(job.port, job.connections, SseSubscriber)
    await wait_for_failure(audience.outcome, IDLE_SETTLE_S)
    after = measure_rss(job.pid)
    for connection in [*warm, *idle]:
        connection.close()
    return {"rss_mb_before": before / 1e6, "kb_each": (after - before) / job.connections / 1000}


async def run_append_beside(job: AppendBeside) -> Figures:
    assert job.pid is not None
    audience, idle = await gather_audience(job.port, job.subscribers, SseSubscriber)
    figures = await run_append(job)
    figures["rss_mb"] = measure_rss(job.pid) / 1e6
    # Fails if a subscriber was disconnected meanwhile.
    await wait_for_failure(audience.outcome, 0)
    for connection in idle:
        connection.close()
    return figures
