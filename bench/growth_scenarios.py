"""What a log with millions of records costs: each figure is compared with that of a log without records."""

from __future__ import annotations

from contextlib import ExitStack

from bench.disk import measure_folder
from bench.formats import format_number
from bench.generator import run_load
from bench.load_jobs import Append, AppendBeside, CatchUp, Create, Figures, Fill, Grow, Steady
from bench.measurements import Better, Measurement, Pace, Scenario
from bench.payloads import MESSAGE_BYTES
from bench.peers import OURS, Server, serve
from bench.processes import measure_rss
from bench.subscribers import STREAM as FOLLOWED

MILLION = 1_000_000
SIZES = {"0": 0, "1m": MILLION, "3m": 3 * MILLION, "10m": 10 * MILLION}
LARGEST = "10m"
STREAMS = 1_000
APPENDED = "appended"
LONG = "long"
COUNTED_APPENDS = 100_000
STEADY_APPENDS_PER_S = 1_000.0
LONG_APPENDS = 5_000
LONG_BATCH = 100
SUBSCRIBERS = 10_000
LIMIT_S = 3_600.0

FIGURES: dict[str, tuple[str, str, Better]] = {
    "append": ("appends, 64 connections", "appends/s", "more"),
    "commit-p99": (f"append at {STEADY_APPENDS_PER_S:g} per second, p99", "ms", "less"),
    "catch-up": ("catch-up of 50 MB bytes", "MB/s", "more"),
    "start": ("start", "s", "less"),
    "rss": ("RSS", "MB", "less"),
    "disk": (f"disk space of an append of {MESSAGE_BYTES} bytes", "bytes", "less"),
    "sse-append": ("appends beside {} idle SSE connections", "appends/s", "more"),
    "sse-rss": ("RSS with {} idle SSE connections", "MB", "less"),
}


def measure_growth(server: Server, pace: Pace) -> list[Measurement]:
    """Measure all figures on Mainstem, and the append rate on a peer.

    The log of each size has its own server. They take turns, so that a slow minute of the machine affects all sizes.
    """
    steps = STEPS if server.peer.name == OURS else [append]
    values: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        servers = fill_logs(server, pace, stack)
        for _ in range(pace.repeat):
            for step in steps:
                for size, grown in servers.items():
                    for figure, value in step(grown, pace).items():
                        values.setdefault((size, figure), []).append(value)
    return [
        describe(figure, size, value, pace)
        for figure in FIGURES
        for size in SIZES
        for value in values.get((size, figure), [])
    ]


def describe(figure: str, size: str, value: float, pace: Pace) -> Measurement:
    title, unit, better = FIGURES[figure]
    records = f"{SIZES[size] * pace.growth / MILLION:g} million records"
    title = f"{title.format(format_number(count_subscribers(pace)))}, {records}"
    return Measurement(f"growth-{figure}-{size}", title, value, unit, better)


def fill_logs(server: Server, pace: Pace, stack: ExitStack) -> dict[str, Server]:
    """Fill the log of the server, and return it and servers with copies of the log as it was at the smaller sizes."""
    # All streams exist from the beginning, so that the logs differ only in their records.
    run_load(Create(port=server.port, streams=STREAMS))
    fill(server, APPENDED, 1, 1)
    fill(server, FOLLOWED, 1, 1)
    servers, records = {}, 0
    for size, total in SIZES.items():
        wanted = int(total * pace.growth)
        grow(server, wanted - records)
        records = wanted
        if size != LARGEST:
            server.stop()
            servers[size] = stack.enter_context(serve(server.peer, copied=server.data))
            server.start()
    servers[LARGEST] = server
    for filled in servers.values():
        fill(filled, LONG, LONG_APPENDS, LONG_BATCH)
    return servers


def grow(server: Server, appends: int) -> None:
    run_load(Grow(port=server.port, streams=STREAMS, appends=appends, limit_s=LIMIT_S))


def fill(server: Server, stream: str, appends: int, messages: int) -> None:
    run_load(Fill(port=server.port, stream=stream, content="bytes", appends=appends, messages=messages))


def count_disk_space(server: Server, pace: Pace) -> Figures:
    """Return what an append adds to the data folder, with the server stopped: then its journal is empty."""
    appends = int(COUNTED_APPENDS * pace.fill)
    server.stop()
    before = measure_folder(server.data)
    server.start()
    grow(server, appends)
    server.stop()
    added = measure_folder(server.data) - before
    server.start()
    return {"disk": added / appends}


def start(server: Server, pace: Pace) -> Figures:
    server.restart()
    return {"start": server.start_s}


def append(server: Server, pace: Pace) -> Figures:
    job = Append(port=server.port, connections=64, stream=APPENDED, seconds=pace.seconds, warmup_s=pace.warmup_s)
    return {"append": run_load(job)["per_s"]}


def time_commits(server: Server, pace: Pace) -> Figures:
    job = Steady(port=server.port, stream=APPENDED, appends_per_s=STEADY_APPENDS_PER_S, seconds=2 * pace.seconds)
    return {"commit-p99": run_load(job)["p99_ms"]}


def catch_up(server: Server, pace: Pace) -> Figures:
    messages = LONG_APPENDS * LONG_BATCH
    job = CatchUp(port=server.port, stream=LONG, content="bytes", messages=messages, seconds=pace.seconds)
    return {"catch-up": run_load(job)["mb_per_s"]}


def read_memory(server: Server, pace: Pace) -> Figures:
    return {"rss": measure_rss(server.pid) / 1e6}


def append_beside_subscribers(server: Server, pace: Pace) -> Figures:
    job = AppendBeside(
        port=server.port,
        connections=64,
        stream=APPENDED,
        seconds=pace.seconds,
        warmup_s=pace.warmup_s,
        subscribers=count_subscribers(pace),
        pid=server.pid,
    )
    figures = run_load(job)
    return {"sse-append": figures["per_s"], "sse-rss": figures["rss_mb"]}


def count_subscribers(pace: Pace) -> int:
    return int(SUBSCRIBERS * pace.fill)


# The second one starts a new process, so that the memory of all sizes comes from the same loads.
STEPS = [count_disk_space, start, append, time_commits, catch_up, read_memory, append_beside_subscribers]

GROWTH_SCENARIOS = [Scenario("growth", measure_growth, big=True, once=True)]
