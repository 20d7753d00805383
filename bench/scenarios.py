"""The scenarios: one function for each, on a server with an empty data folder."""

from __future__ import annotations

import time
from statistics import fmean

from bench.ai_scenarios import AI_SCENARIOS
from bench.archive_scenarios import ARCHIVE_SCENARIOS
from bench.audit_scenarios import AUDIT_SCENARIOS
from bench.browser_scenarios import BROWSER_SCENARIOS
from bench.disk import measure_folder
from bench.generator import run_load
from bench.growth_scenarios import GROWTH_SCENARIOS
from bench.load_jobs import (
    Append,
    CatchUp,
    Content,
    Create,
    FanOut,
    Figures,
    Fill,
    Forks,
    Idle,
    LiveMode,
    ReadLast,
    ReadOnce,
    Subscribe,
    Touch,
)
from bench.measurements import Measurement, Pace, Scenario
from bench.metrics_scenarios import METRICS_SCENARIOS
from bench.payloads import MESSAGE_BYTES
from bench.peers import Server, serve
from bench.postgres_scenarios import POSTGRES_SCENARIOS
from bench.processes import measure_peak, measure_rss, reset_peak
from bench.snapshot_scenarios import SNAPSHOT_SCENARIOS
from bench.spark_scenarios import SPARK_SCENARIOS
from bench.streams_client import STREAMS_CLIENT_SCENARIOS
from bench.sync_client import SYNC_CLIENT_SCENARIOS
from bench.sync_scenarios import SYNC_SCENARIOS

BATCH = 100
LARGE_APPEND_BYTES = 1_000_000
LONG_STREAM_APPENDS = 5_000
BIG_STREAM_APPENDS = 10_000
BIG_BATCH = 1_000
BIG_LIMIT_S = 900.0
MANY_STREAMS = 100_000
FORKS = 20
SUBSCRIPTIONS = 10_000
SUBSCRIBED_STREAM = "events/x"
SUBSCRIBED_PATTERN = "events/*"
IDLE_S = 1.0


def measure_appends(name: str, title: str, connections: int, streams: int, *, producers: bool = False) -> Scenario:
    def run(server: Server, pace: Pace) -> list[Measurement]:
        figures = run_load(
            Append(
                port=server.port,
                pid=server.pid,
                connections=connections,
                streams=streams,
                producers=producers,
                seconds=pace.seconds,
                warmup_s=pace.warmup_s,
            )
        )
        found = [Measurement(name, title, figures["per_s"], "appends/s", details=figures)]
        if name == "append-c64":
            found.append(divide_cpu(name, "append, 64 connections", figures, figures["per_s"]))
        return found

    return Scenario(name, run)


def divide_cpu(name: str, thing: str, figures: Figures, per_s: float) -> Measurement:
    """Return what one thing of a load costs the server: its CPU time on all cores, divided by the rate."""
    return Measurement(
        f"{name}-cpu", f"server's CPU time per {thing}", figures["server_cpu"] / per_s * 1e6, "us", "less"
    )


def measure_batches(server: Server, pace: Pace) -> list[Measurement]:
    job = Append(
        port=server.port,
        pid=server.pid,
        connections=64,
        content="json",
        messages=BATCH,
        seconds=pace.seconds,
        warmup_s=pace.warmup_s,
    )
    figures = run_load(job)
    title = "JSON batches of 100, 64 connections"
    return [
        Measurement("append-batches", title, figures["messages_per_s"], "messages/s", details=figures),
        divide_cpu("append-batches", "message of a batch", figures, figures["messages_per_s"]),
    ]


def measure_large_appends(server: Server, pace: Pace) -> list[Measurement]:
    job = Append(
        port=server.port,
        connections=4,
        messages=LARGE_APPEND_BYTES // MESSAGE_BYTES,
        seconds=pace.seconds,
        warmup_s=pace.warmup_s,
    )
    figures = run_load(job)
    title = "appends of 1 MB, 4 connections, 1 stream"
    return [Measurement("append-1mb", title, figures["per_s"], "appends/s", details=figures)]


def measure_catch_up(content: Content, shown: str) -> Scenario:
    def run(server: Server, pace: Pace) -> list[Measurement]:
        fill = Fill(port=server.port, stream="long", content=content, appends=LONG_STREAM_APPENDS, messages=BATCH)
        filled = run_load(fill)
        messages = LONG_STREAM_APPENDS * BATCH
        server.restart_cold()
        read = CatchUp(
            port=server.port,
            pid=server.pid,
            stream="long",
            content=content,
            messages=messages,
            seconds=pace.seconds,
        )
        figures = run_load(read) | {"fill_appends_per_s": filled["appends_per_s"]}
        title = f"catch-up of 50 MB {shown}"
        first = figures["first_mb_per_s"]
        found = [
            Measurement(f"catch-up-{content}", title, figures["mb_per_s"], "MB/s", details=figures),
            Measurement(f"catch-up-{content}-first", f"{title}, first time after a start", first, "MB/s"),
        ]
        if content == "json":
            last = run_load(ReadLast(port=server.port, stream="long", seconds=pace.seconds))
            title = "last message of 50 MB, p50"
            found.append(Measurement("last-message", title, last["p50_ms"], "ms", "less", last))
            found.append(divide_cpu("catch-up-json", "MB of JSON", figures, figures["mb_per_s"]))
        return found

    return Scenario(f"catch-up-{content}", run)


def measure_fan_out(mode: LiveMode, subscribers: int) -> Scenario:
    name = f"{mode}-{subscribers}"
    shown = "SSE" if mode == "sse" else "long-poll"

    def run(server: Server, pace: Pace) -> list[Measurement]:
        job = FanOut(port=server.port, pid=server.pid, mode=mode, subscribers=subscribers, seconds=pace.seconds)
        figures = run_load(job)
        title = f"{shown} to {subscribers} subscribers"
        found = [
            Measurement(f"{name}-p50", f"{title}, p50", figures["p50_ms"], "ms", "less", figures),
            Measurement(f"{name}-p99", f"{title}, p99", figures["p99_ms"], "ms", "less", figures),
        ]
        if name == "sse-1000":
            found.append(divide_cpu(name, "delivery by SSE", figures, figures["deliveries_per_s"]))
        return found

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
        # A new process, because free memory from the fill or from the other read would hide the growth.
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
    empty_s = server.start_s
    created = run_load(Create(port=server.port, streams=MANY_STREAMS, limit_s=BIG_LIMIT_S))
    server.restart()
    time.sleep(IDLE_S)
    rss_mb = measure_rss(server.pid) / 1e6
    # Reading each stream once checks that all are there, and shows the memory after every stream was used.
    touched = run_load(Touch(port=server.port, streams=MANY_STREAMS, limit_s=BIG_LIMIT_S))
    used_mb = measure_rss(server.pid) / 1e6
    return [
        Measurement("start-none", "start, before 100 000 streams", empty_s, "s", "less"),
        Measurement("start-many", "start, 100 000 streams", server.start_s, "s", "less", created),
        Measurement("rss-many", "RSS, 100 000 streams", rss_mb, "MB", "less"),
        Measurement("rss-many-read", "RSS, 100 000 streams, each read once", used_mb, "MB", "less", touched),
    ]


def measure_forks(server: Server, pace: Pace) -> list[Measurement]:
    appends = int(BIG_STREAM_APPENDS * pace.fill)
    payload = appends * BIG_BATCH * MESSAGE_BYTES
    fill = Fill(
        port=server.port, stream="big", content="json", appends=appends, messages=BIG_BATCH, limit_s=BIG_LIMIT_S
    )
    run_load(fill)
    # A stopped server has emptied its journal, so only permanent growth is measured.
    server.stop()
    before = measure_folder(server.data)
    server.start()
    forks = Forks(port=server.port, stream="big", payload_bytes=payload, forks=FORKS, limit_s=BIG_LIMIT_S)
    figures = run_load(forks)
    figures["journal_mb"] = (measure_folder(server.data) - before) / 1e6
    server.stop()
    growth_mb = (measure_folder(server.data) - before) / 1e6
    size = f"{payload / 1e9:g} GB"
    return [
        Measurement("fork-tail", f"fork of {size} at its tail, p50", figures["tail_p50_ms"], "ms", "less", figures),
        Measurement(
            "fork-middle", f"fork of {size} at its middle, p50", figures["middle_p50_ms"], "ms", "less", figures
        ),
        Measurement("fork-space", f"disk space of {2 * FORKS} such forks", growth_mb, "MB", "less", figures),
    ]


def measure_subscriptions(server: Server, pace: Pace) -> list[Measurement]:
    """Measure two servers in turns, one with the subscriptions and one without; the other is idle meanwhile."""
    subscribe = Subscribe(
        port=server.port, stream=SUBSCRIBED_STREAM, pattern=SUBSCRIBED_PATTERN, subscriptions=SUBSCRIPTIONS
    )
    made = run_load(subscribe)
    rates: dict[int, list[Figures]] = {}
    with serve(server.peer) as bare:
        run_load(Fill(port=bare.port, stream=SUBSCRIBED_STREAM, content="bytes", appends=1, messages=1))
        for port in (bare.port, server.port) * 2:
            job = Append(
                port=port, connections=64, stream=SUBSCRIBED_STREAM, seconds=pace.seconds, warmup_s=pace.warmup_s
            )
            rates.setdefault(port, []).append(run_load(job))
    without, with_all = (average_figures(rates[port]) for port in (bare.port, server.port))
    title = "appends, 64 connections"
    return [
        Measurement("subscriptions-none", f"{title}, no subscription", without["per_s"], "appends/s", details=without),
        Measurement(
            "subscriptions-10k", f"{title}, 10 000 subscribed", with_all["per_s"], "appends/s", details=with_all
        ),
        Measurement("subscriptions-create", "creation of 10 000 subscriptions", made["create_s"], "s", "less", made),
        Measurement("subscriptions-wake", "first append until 10 000 are woken", made["wake_s"], "s", "less", made),
    ]


def average_figures(runs: list[Figures]) -> Figures:
    each = {f"per_s_{number}": figures["per_s"] for number, figures in enumerate(runs, start=1)}
    return {name: fmean(figures[name] for figures in runs) for name in runs[0]} | each


SCENARIOS = [
    measure_appends("append-c1", "appends, 1 connection, 1 stream", 1, 1),
    measure_appends("append-c64", "appends, 64 connections, 1 stream", 64, 1),
    measure_appends("append-c64-s64", "appends, 64 connections, 64 streams", 64, 64),
    measure_appends("append-c64-s1000", "appends, 64 connections, 1000 streams", 64, 1000),
    Scenario("append-batches", measure_batches),
    Scenario("append-1mb", measure_large_appends),
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
    Scenario("fork-big", measure_forks, ours_only=True, big=True),
    Scenario("subscriptions-10k", measure_subscriptions, ours_only=True),
    *METRICS_SCENARIOS,
    *GROWTH_SCENARIOS,
    *SYNC_SCENARIOS,
    *SPARK_SCENARIOS,
    *ARCHIVE_SCENARIOS,
    *AUDIT_SCENARIOS,
    *BROWSER_SCENARIOS,
    *AI_SCENARIOS,
    *SNAPSHOT_SCENARIOS,
    *STREAMS_CLIENT_SCENARIOS,
    *SYNC_CLIENT_SCENARIOS,
    *POSTGRES_SCENARIOS,
]
