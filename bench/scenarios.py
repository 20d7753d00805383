"""What is measured: one function a scenario, each on a server with an empty data folder of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bench.generator import run_load
from bench.jobs import (
    Append,
    CatchUp,
    Content,
    Create,
    FanOut,
    Figures,
    Fill,
    Idle,
    LiveMode,
    ReadLast,
    ReadOnce,
    Touch,
)
from bench.memory import measure_peak, measure_rss, reset_peak
from bench.payloads import MESSAGE_BYTES
from bench.peers import Server

Better = Literal["more", "less"]

BATCH = 100
LONG_STREAM_APPENDS = 5_000
BIG_STREAM_APPENDS = 10_000
BIG_BATCH = 1_000
BIG_LIMIT_S = 900.0
MANY_STREAMS = 100_000
IDLE_S = 1.0


@dataclass(frozen=True)
class Measurement:
    name: str
    title: str
    value: float
    unit: str
    better: Better = "more"
    details: Figures = field(default_factory=dict)


@dataclass(frozen=True)
class Pace:
    """How long a time-bounded load runs."""

    seconds: float
    warmup_s: float


@dataclass(frozen=True)
class Scenario:
    """`ours_only` scenarios are about our own limits; `big` ones take minutes and run only when asked for."""

    name: str
    run: Callable[[Server, Pace], list[Measurement]]
    ours_only: bool = False
    big: bool = False


def measure_appends(name: str, title: str, connections: int, streams: int, *, producers: bool = False) -> Scenario:
    def run(server: Server, pace: Pace) -> list[Measurement]:
        figures = run_load(
            Append(
                port=server.port,
                connections=connections,
                streams=streams,
                producers=producers,
                seconds=pace.seconds,
                warmup_s=pace.warmup_s,
            )
        )
        return [Measurement(name, title, figures["per_s"], "appends/s", details=figures)]

    return Scenario(name, run)


def measure_batches(server: Server, pace: Pace) -> list[Measurement]:
    job = Append(
        port=server.port,
        connections=64,
        streams=1,
        content="json",
        messages=BATCH,
        seconds=pace.seconds,
        warmup_s=pace.warmup_s,
    )
    figures = run_load(job)
    title = "JSON batches of 100, 64 connections"
    return [Measurement("append-batches", title, figures["messages_per_s"], "messages/s", details=figures)]


def measure_catch_up(content: Content, shown: str) -> Scenario:
    def run(server: Server, pace: Pace) -> list[Measurement]:
        fill = Fill(port=server.port, stream="long", content=content, appends=LONG_STREAM_APPENDS, messages=BATCH)
        filled = run_load(fill)
        messages = LONG_STREAM_APPENDS * BATCH
        read = CatchUp(port=server.port, stream="long", content=content, messages=messages, seconds=pace.seconds)
        figures = run_load(read) | {"fill_appends_per_s": filled["appends_per_s"]}
        title = f"catch-up of 50 MB {shown}"
        found = [Measurement(f"catch-up-{content}", title, figures["mb_per_s"], "MB/s", details=figures)]
        if content == "json":
            last = run_load(ReadLast(port=server.port, stream="long", seconds=pace.seconds))
            title = "last message of 50 MB, p50"
            found.append(Measurement("last-message", title, last["p50_ms"], "ms", "less", last))
        return found

    return Scenario(f"catch-up-{content}", run)


def measure_fan_out(mode: LiveMode, subscribers: int) -> Scenario:
    name = f"{mode}-{subscribers}"
    shown = "SSE" if mode == "sse" else "long-poll"

    def run(server: Server, pace: Pace) -> list[Measurement]:
        job = FanOut(port=server.port, mode=mode, subscribers=subscribers, seconds=pace.seconds)
        figures = run_load(job)
        title = f"{shown} to {subscribers} subscribers"
        return [
            Measurement(f"{name}-p50", f"{title}, p50", figures["p50_ms"], "ms", "less", figures),
            Measurement(f"{name}-p99", f"{title}, p99", figures["p99_ms"], "ms", "less", figures),
        ]

    return Scenario(name, run)


def measure_memory(server: Server, pace: Pace) -> list[Measurement]:
    time.sleep(IDLE_S)
    rss_mb = measure_rss(server.pid) / 1e6
    idle = run_load(Idle(port=server.port, pid=server.pid, connections=1000))
    return [
        Measurement("start-empty", "start, no streams", server.start_s, "s", "less"),
        Measurement("rss-idle", "RSS idle", rss_mb, "MB", "less"),
        Measurement("rss-sse", "RSS of one idle SSE connection", idle["kb_each"], "KB", "less", idle),
    ]


def measure_big_stream(server: Server, pace: Pace) -> list[Measurement]:
    run_load(
        Fill(
            port=server.port,
            stream="big",
            content="json",
            appends=BIG_STREAM_APPENDS,
            messages=BIG_BATCH,
            limit_s=BIG_LIMIT_S,
        )
    )
    found = []
    for live, verb in ((False, "reading"), (True, "tailing")):
        # A fresh process, so that memory which the fill or the other read left free cannot hide the growth.
        server.restart()
        time.sleep(IDLE_S)
        reset_peak(server.pid)
        before = measure_rss(server.pid)
        payload = BIG_STREAM_APPENDS * BIG_BATCH * MESSAGE_BYTES
        job = ReadOnce(port=server.port, stream="big", payload_bytes=payload, live=live, limit_s=BIG_LIMIT_S)
        figures = run_load(job)
        growth_mb = (measure_peak(server.pid) - before) / 1e6
        title = f"RSS growth, {verb} 1 GB"
        found.append(Measurement(f"rss-{verb}", title, growth_mb, "MB", "less", figures))
    return found


def measure_many_streams(server: Server, pace: Pace) -> list[Measurement]:
    created = run_load(Create(port=server.port, streams=MANY_STREAMS, limit_s=BIG_LIMIT_S))
    server.restart()
    time.sleep(IDLE_S)
    rss_mb = measure_rss(server.pid) / 1e6
    # Proves that all are there, and what memory becomes when none is left unused.
    touched = run_load(Touch(port=server.port, streams=MANY_STREAMS, limit_s=BIG_LIMIT_S))
    used_mb = measure_rss(server.pid) / 1e6
    return [
        Measurement("start-many", "start, 100 000 streams", server.start_s, "s", "less", created),
        Measurement("rss-many", "RSS, 100 000 streams", rss_mb, "MB", "less"),
        Measurement("rss-many-read", "RSS, 100 000 streams, each read once", used_mb, "MB", "less", touched),
    ]


SCENARIOS = [
    measure_appends("append-c1", "appends, 1 connection, 1 stream", 1, 1),
    measure_appends("append-c64", "appends, 64 connections, 1 stream", 64, 1),
    measure_appends("append-c64-s64", "appends, 64 connections, 64 streams", 64, 64),
    measure_appends("append-c64-s1000", "appends, 64 connections, 1000 streams", 64, 1000),
    Scenario("append-batches", measure_batches),
    measure_appends("producers", "idempotent appends, 64 producers", 64, 1, producers=True),
    measure_catch_up("json", "JSON"),
    measure_catch_up("bytes", "bytes"),
    measure_fan_out("sse", 200),
    measure_fan_out("sse", 1000),
    measure_fan_out("long-poll", 200),
    measure_fan_out("long-poll", 1000),
    Scenario("memory", measure_memory),
    Scenario("big-stream", measure_big_stream, ours_only=True, big=True),
    Scenario("many-streams", measure_many_streams, ours_only=True, big=True),
]
