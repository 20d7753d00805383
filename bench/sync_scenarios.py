"""Scenarios for the sync protocol. No peer supports it, so commits are compared with a plain loop on the same disk."""

from __future__ import annotations

from statistics import fmean

from bench.formats import format_number
from bench.generator import run_load
from bench.load_jobs import Figures, Hash, PlainLoop, SyncFanOut, SyncFill, SyncPage, SyncSubmit
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server

WRITERS = 50
SUBSCRIBERS = 200
EVENTS_PER_S = 50.0
OTHER_EVENTS = 1_000_000
PAGE_EVENTS = 200
FILL_LIMIT_S = 900.0


def submit(server: Server, pace: Pace, clients: int, in_flight: int, *, shared: bool = False) -> Figures:
    job = SyncSubmit(
        port=server.port,
        clients=clients,
        in_flight=in_flight,
        shared=shared,
        seconds=pace.seconds,
        warmup_s=pace.warmup_s,
    )
    return run_load(job)


def run_plain_loop(server: Server, pace: Pace) -> float:
    return run_load(PlainLoop(path=str(server.folder / "plain.sqlite"), seconds=pace.seconds))["commits_per_s"]


def describe_plain_loop(rates: list[float]) -> Measurement:
    title = "plain loop, one transaction per commit, no server"
    details = {f"commits_per_s_{number}": rate for number, rate in enumerate(rates, start=1)}
    return Measurement("plain-loop", title, fmean(rates), "commits/s", details=details)


def compare(name: str, title: str, figures: Figures, plain: Measurement) -> list[Measurement]:
    """Return a rate of commits, and its ratio to that of the plain loop."""
    rate = figures["commits_per_s"]
    return [
        Measurement(name, title, rate, "commits/s", details=figures),
        Measurement(f"{name}-times", f"{title}: times the plain loop", rate / plain.value, "x"),
    ]


def measure_one(server: Server, pace: Pace) -> list[Measurement]:
    before = run_plain_loop(server, pace)
    figures = submit(server, pace, 1, 64)
    plain = describe_plain_loop([before, run_plain_loop(server, pace)])
    return [plain, *compare("sync-one", "sync, 1 client, 64 in flight", figures, plain)]


def measure_writers(server: Server, pace: Pace) -> list[Measurement]:
    before = run_plain_loop(server, pace)
    four = submit(server, pace, WRITERS, 4)
    plain = describe_plain_loop([before, run_plain_loop(server, pace)])
    one = submit(server, pace, WRITERS, 1)
    return [
        plain,
        *compare("sync-50x4", "sync, 50 writers, 4 in flight", four, plain),
        Measurement("sync-50x1", "sync, 50 writers, 1 in flight", one["commits_per_s"], "commits/s", details=one),
    ]


def measure_broadcast(server: Server, pace: Pace) -> list[Measurement]:
    figures = submit(server, pace, WRITERS, 1, shared=True)
    title = "sync, 50 writers follow one partition"
    return [
        Measurement("sync-shared", title, figures["broadcasts_per_s"], "broadcasts/s", details=figures),
        Measurement("sync-shared-events", f"{title}: events", figures["commits_per_s"], "commits/s", details=figures),
    ]


def measure_fan_out(server: Server, pace: Pace) -> list[Measurement]:
    job = SyncFanOut(port=server.port, subscribers=SUBSCRIBERS, events_per_s=EVENTS_PER_S, seconds=pace.seconds)
    figures = run_load(job)
    title = f"sync to {SUBSCRIBERS} subscribers"
    return [
        Measurement("sync-fan-out-p50", f"{title}, p50", figures["p50_ms"], "ms", "less", figures),
        Measurement("sync-fan-out-p99", f"{title}, p99", figures["p99_ms"], "ms", "less", figures),
    ]


def measure_page(server: Server, pace: Pace) -> list[Measurement]:
    others = int(OTHER_EVENTS * pace.fill)
    fill = SyncFill(port=server.port, events=others, partition="page", kept=PAGE_EVENTS, limit_s=FILL_LIMIT_S)
    filled = run_load(fill)
    page = SyncPage(port=server.port, partition="page", events=PAGE_EVENTS, seconds=pace.seconds)
    figures = run_load(page) | filled
    title = f"sync page of {PAGE_EVENTS} events among {format_number(others)}, p50"
    return [Measurement("sync-page", title, figures["p50_ms"], "ms", "less", figures)]


def measure_hash(server: Server, pace: Pace) -> list[Measurement]:
    figures = run_load(Hash(seconds=pace.seconds))
    return [Measurement("sync-hash", "canonical hash of a 700-byte event", figures["us"], "us", "less", figures)]


SYNC_SCENARIOS = [
    Scenario("sync-one", measure_one, ours_only=True),
    Scenario("sync-50", measure_writers, ours_only=True),
    Scenario("sync-shared", measure_broadcast, ours_only=True),
    Scenario("sync-fan-out", measure_fan_out, ours_only=True),
    Scenario("sync-page", measure_page, ours_only=True, big=True),
    Scenario("sync-hash", measure_hash, ours_only=True),
]
