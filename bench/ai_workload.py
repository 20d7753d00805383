"""`python -m bench.ai_workload RUNS SECONDS URL`: follow runs of apps, stop some, and print the figures.

The runs of one app are in its embedded log. Those of another one are on the server at URL; this process stops them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from bench.load_jobs import Figures, encode_figures
from bench.peers import find_free_port
from bench.quantiles import find_quantile
from bench.wire import HOST
from mainstem import AsyncStreams
from mainstem.ai import Runs

TOKENS_PER_S = 50.0
FIRST_TOKENS = 200
STOPS = 200
REMOTE_STOPS = 50
"""What one process can append over HTTP, 1000 times per second, is little more than these runs need."""
START_S_MAX = 30.0
LATE_S_MAX = 30.0
"""How long after the last token readers wait for the rest."""


@dataclass(frozen=True)
class App:
    """An app with runs, and where their streams are."""

    port: int
    streams_port: int
    root: str


@contextlib.asynccontextmanager
async def serve_app(url: str | None = None) -> AsyncIterator[App]:
    port = find_free_port()
    with tempfile.TemporaryDirectory() as data:
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs meanwhile
            [sys.executable, "-m", "bench.ai_app", str(port), url or data]
        )
        try:
            await wait_for_app(port)
            yield App(port, port, "/log") if url is None else App(port, int(url.rpartition(":")[2]), "")
        finally:
            process.terminate()
            process.wait()


async def wait_for_app(port: int) -> None:
    async with asyncio.timeout(START_S_MAX):
        while True:
            try:
                await request(port, "GET", "/ready")
                return
            except OSError:
                await asyncio.sleep(0.05)


async def request(port: int, method: str, target: str) -> bytes:
    """Send one request on a connection of its own, and return the body of the reply."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(
        f"{method} {target} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
    )
    reply = await reader.read()
    writer.close()
    head, _, body = reply.partition(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise RuntimeError(f"{method} {target}: {head.decode()}")
    return body


async def follow(port: int, target: str, ready: asyncio.Event) -> AsyncIterator[list[object]]:
    """Yield the messages of a stream as they arrive over SSE."""
    reader, writer = await asyncio.open_connection(HOST, port, limit=1 << 20)
    writer.write(
        f"GET {target}?offset=-1&live=sse HTTP/1.1\r\nhost: {HOST}\r\naccept: text/event-stream\r\n\r\n".encode()
    )
    try:
        while line := await reader.readline():
            if line.startswith(b"data:["):
                yield json.loads(line[5:])
            elif line.startswith(b"data:{"):
                ready.set()
                if b'"streamClosed":true' in line:
                    return
    finally:
        writer.close()


class Reader:
    """Follows one run, and notes how old each token was when it arrived."""

    def __init__(self, port: int, target: str) -> None:
        self.ages_ms: list[float] = []
        self.ended_ns = 0
        self.last = ""
        self.ready = asyncio.Event()
        self.task = asyncio.create_task(self._run(port, target))

    async def _run(self, port: int, target: str) -> None:
        async for messages in follow(port, target, self.ready):
            now_ns = time.monotonic_ns()
            for message in messages:
                if isinstance(message, str):
                    self.ages_ms.append((now_ns - int(message)) / 1e6)
                elif isinstance(message, dict):
                    self.last = str(message.get("type"))
        self.ended_ns = time.monotonic_ns()


async def start(app: App, name: str, tokens: int) -> Reader:
    body = await request(app.port, "POST", f"/start?name={name}&tokens={tokens}&per_s={TOKENS_PER_S}")
    reader = Reader(app.streams_port, app.root + json.loads(body)["path"])
    await reader.ready.wait()
    return reader


async def measure_first_tokens(app: App) -> list[float]:
    ages_ms = []
    for number in range(FIRST_TOKENS):
        reader = await start(app, f"first-{number}", 1)
        await request(app.port, "POST", f"/begin?name=first-{number}")
        await reader.task
        ages_ms += reader.ages_ms
    return ages_ms


async def measure_crowd(app: App, count: int, seconds: float) -> Figures:
    names = [f"crowd-{number}" for number in range(count)]
    tokens = int(TOKENS_PER_S * seconds)
    readers = [await start(app, name, tokens) for name in names]
    for first in range(0, count, 50):
        await request(app.port, "POST", "/begin?" + "&".join(f"name={name}" for name in names[first : first + 50]))
    async with asyncio.timeout(seconds + LATE_S_MAX):
        await asyncio.gather(*(reader.task for reader in readers))
    received = [len(reader.ages_ms) for reader in readers]
    halves = [[age for reader in readers for age in reader.ages_ms[part]] for part in halve(tokens)]
    ages = [*halves[0], *halves[1]]
    return {
        "runs": count,
        "missing": count * tokens - sum(received),
        "crowd_p50_ms": quantile(ages, 0.5),
        "crowd_p99_ms": quantile(ages, 0.99),
        "first_half_p50_ms": quantile(halves[0], 0.5),
        "second_half_p50_ms": quantile(halves[1], 0.5),
    }


def quantile(values: list[float], share: float) -> float:
    return find_quantile(sorted(values), share)


def halve(tokens: int) -> tuple[slice, slice]:
    return slice(0, tokens // 2), slice(tokens // 2, None)


async def measure_stops(app: App, count: int, stop: Callable[[str], Awaitable[object]]) -> list[float]:
    """Stop runs one after the other while all others are running, and return how long each took to end."""
    names = [f"stop-{number}" for number in range(count)]
    readers = [await start(app, name, 1_000_000) for name in names]
    for name in names:
        await request(app.port, "POST", f"/begin?name={name}")
    took_ms = []
    for name, reader in zip(names, readers, strict=True):
        began_ns = time.monotonic_ns()
        await stop(name)
        await reader.task
        assert reader.last == "abort", reader.last
        took_ms.append((reader.ended_ns - began_ns) / 1e6)
    return took_ms


async def measure(count: int, seconds: float, url: str) -> Figures:
    async with serve_app() as app:
        first = await measure_first_tokens(app)
        crowd = await measure_crowd(app, count, seconds)
        stops = await measure_stops(
            app, min(count, STOPS), lambda name: request(app.port, "POST", f"/stop?name={name}")
        )
    async with serve_app(url) as app, AsyncStreams(url) as streams, Runs(streams) as runs:
        remote_stops = await measure_stops(app, min(count, REMOTE_STOPS), runs.stop)
    return {
        "first_p50_ms": quantile(first, 0.5),
        "first_p99_ms": quantile(first, 0.99),
        "stop_p50_ms": quantile(stops, 0.5),
        "stop_p99_ms": quantile(stops, 0.99),
        "remote_stop_p50_ms": quantile(remote_stops, 0.5),
        "remote_stop_p99_ms": quantile(remote_stops, 0.99),
        **crowd,
    }


if __name__ == "__main__":
    print(encode_figures(asyncio.run(measure(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))))
