"""The streams client: the rate of its producers, what follow() adds to the latency of a delivery, and its import time.

Each load runs as `python -m bench.streams_client WHAT PORT SECONDS` in its own process, like an application.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from urllib.parse import quote

from bench.generator import LoadFailed
from bench.load_jobs import Figures
from bench.measurements import Measurement, Pace, Scenario
from bench.payloads import MESSAGE_BYTES, make_message
from bench.peers import Server
from bench.quantiles import find_quantile
from mainstem.client import AsyncIdempotentProducer, AsyncStreams, IdempotentProducer, Streams

LIMIT_S = 120.0
ROUND_GAP_S = 0.005
IMPORTS = 9
MESSAGES_PER_CHECK = 1_000
PACKAGE = "import mainstem.client"
NAMES = "from mainstem.client import AsyncIdempotentProducer, AsyncStreams, IdempotentProducer, Streams"


# Producing: messages are created first, appended one by one, and counted when they are durable.


async def produce_async(url: str, seconds: float) -> Figures:
    async with AsyncStreams(url) as streams:
        await streams.create("async", "application/json")
        messages = [json.loads(make_message(f"m{number}")) for number in range(MESSAGES_PER_CHECK)]
        began, sent = time.perf_counter(), 0
        async with AsyncIdempotentProducer(streams, "async") as producer:
            while time.perf_counter() < began + seconds:
                for message in messages:
                    await producer.append(message)
                sent += len(messages)
        elapsed = time.perf_counter() - began
        await check_end(streams, "async", sent)
    return {"messages_per_s": sent / elapsed, "messages": sent}


def produce_blocking(url: str, seconds: float) -> Figures:
    with Streams(url) as streams:
        streams.create("blocking", "application/json")
        messages = [json.loads(make_message(f"m{number}")) for number in range(MESSAGES_PER_CHECK)]
        began, sent = time.perf_counter(), 0
        with IdempotentProducer(streams, "blocking") as producer:
            while time.perf_counter() < began + seconds:
                for message in messages:
                    producer.append(message)
                sent += len(messages)
        elapsed = time.perf_counter() - began
    asyncio.run(check_later(url, "blocking", sent))
    return {"messages_per_s": sent / elapsed, "messages": sent}


async def check_later(url: str, path: str, sent: int) -> None:
    async with AsyncStreams(url) as streams:
        await check_end(streams, path, sent)


async def check_end(streams: AsyncStreams, path: str, sent: int) -> None:
    """Check that the stream has as many messages as were sent."""
    stored = 0
    async for batch in streams.read(path):
        stored += len(batch.messages)
    if stored != sent:
        raise ValueError(f"{sent} messages were sent, but {stored} are stored")


# Following: one message at a time, alternately to a reader on a bare socket and to follow().


class BareReader:
    """Searches for the marker in what it receives, and does nothing else."""

    def __init__(self) -> None:
        self.waiting: tuple[bytes, asyncio.Future[float]] | None = None

    async def run(self, port: int, path: str, offset: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        target = f"/v1/stream/{path}?live=sse&offset={quote(offset)}"
        writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        try:
            while piece := await reader.read(65_536):
                if self.waiting is not None and self.waiting[0] in piece:
                    self.waiting[1].set_result(time.perf_counter())
                    self.waiting = None
        finally:
            writer.close()


class FollowReader:
    def __init__(self) -> None:
        self.waiting: tuple[bytes, asyncio.Future[float]] | None = None

    async def run(self, streams: AsyncStreams, path: str) -> None:
        async for batch in streams.follow(path, live="sse"):
            if self.waiting is not None and self.waiting[0] in batch.data:
                self.waiting[1].set_result(time.perf_counter())
                self.waiting = None


async def time_follow(url: str, seconds: float) -> Figures:
    port = int(url.rpartition(":")[2])
    loop = asyncio.get_running_loop()
    async with AsyncStreams(url) as streams:
        bare, follow = BareReader(), FollowReader()
        offset = (await streams.create("bare", "application/json")).next_offset
        await streams.create("follow", "application/json")
        tasks = [
            asyncio.create_task(bare.run(port, "bare", offset)),
            asyncio.create_task(follow.run(streams, "follow")),
        ]
        await asyncio.sleep(0.5)
        found: dict[str, list[float]] = {"bare": [], "follow": []}
        end, number = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            for path, reader in (("bare", bare), ("follow", follow)):
                number += 1
                arrived: asyncio.Future[float] = loop.create_future()
                reader.waiting = (b"round-%06d" % number, arrived)
                began = time.perf_counter()
                append = asyncio.create_task(streams.append(path, make_message(f"round-{number:06d}")))
                found[path].append((await asyncio.wait_for(arrived, 10.0)) - began)
                await append
                await asyncio.sleep(ROUND_GAP_S)
        for task in tasks:
            task.cancel()
    figures = {f"{path}_p50_ms": find_quantile(sorted(times), 0.5) * 1e3 for path, times in found.items()}
    figures |= {f"{path}_p99_ms": find_quantile(sorted(times), 0.99) * 1e3 for path, times in found.items()}
    return {**figures, "added_ms": figures["follow_p50_ms"] - figures["bare_p50_ms"], "rounds": len(found["bare"])}


# Importing


def time_import(statement: str) -> float:
    """Return how many milliseconds longer a new interpreter takes with the import than without."""

    def run(script: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], check=True)
        return (time.perf_counter() - began) * 1e3

    run(statement)  # compiles the modules
    return median(run(statement) for _ in range(IMPORTS)) - median(run("pass") for _ in range(IMPORTS))


LOADS: dict[str, Callable[[str, float], Figures]] = {
    "produce-async": lambda url, seconds: asyncio.run(produce_async(url, seconds)),
    "produce-blocking": produce_blocking,
    "follow": lambda url, seconds: asyncio.run(time_follow(url, seconds)),
}


def run_client(what: str, server: Server, pace: Pace) -> Figures:
    command = [sys.executable, "-m", "bench.streams_client", what, str(server.port), str(pace.seconds)]
    root = Path(__file__).parent.parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{what} took longer than {LIMIT_S:.0f} s") from error
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip())
    figures: Figures = json.loads(done.stdout)
    return figures


def measure_producer(server: Server, pace: Pace) -> list[Measurement]:
    found = []
    for kind, shown in (("async", "asyncio"), ("blocking", "threads")):
        figures = run_client(f"produce-{kind}", server, pace)
        title = f"client's producer ({shown}), JSON of {MESSAGE_BYTES} bytes"
        name = "client-producer" if kind == "async" else "client-producer-sync"
        found.append(Measurement(name, title, figures["messages_per_s"], "messages/s", details=figures))
    return found


def measure_follow(server: Server, pace: Pace) -> list[Measurement]:
    figures = run_client("follow", server, pace)
    title = "what follow() adds to a delivery, p50"
    return [Measurement("client-follow", title, figures["added_ms"], "ms", "less", figures)]


def measure_import(server: Server, pace: Pace) -> list[Measurement]:
    return [
        Measurement("client-import", "import mainstem.client", time_import(PACKAGE), "ms", "less"),
        Measurement("client-import-names", "the same with its clients and producers", time_import(NAMES), "ms", "less"),
    ]


STREAMS_CLIENT_SCENARIOS = [
    Scenario("client-producer", measure_producer, ours_only=True),
    Scenario("client-follow", measure_follow, ours_only=True),
    Scenario("client-import", measure_import, ours_only=True),
]


if __name__ == "__main__":
    chosen, port, seconds = sys.argv[1:]
    print(json.dumps(LOADS[chosen](f"http://127.0.0.1:{port}", float(seconds))))
