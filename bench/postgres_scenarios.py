"""Scenarios for the PostgreSQL store: nodes with their own database, on the same machine and disk."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.generator import run_load
from bench.load_jobs import Append, FanOut, Figures, Fill
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import CACHE, Peer, PeerFailed, Server
from mainstem.testing.postgres import PostgresMissing, PostgresProcess

SUBSCRIBERS = 50
# As on a small dedicated server; fsync and synchronous_commit are on, which is PostgreSQL's default.
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB"}


@contextmanager
def run_nodes(number: int) -> Iterator[list[Server]]:
    """Run `number` nodes on one empty database."""
    CACHE.mkdir(exist_ok=True)
    try:
        postgres = PostgresProcess(parent=CACHE, **SETTINGS)
    except PostgresMissing as missing:
        raise PeerFailed(str(missing)) from None
    with ExitStack() as stack:
        stack.callback(postgres.close)
        postgres.start()
        url = postgres.url(stack.enter_context(postgres.database()))
        yield [stack.enter_context(run_node(url)) for _ in range(number)]


@contextmanager
def run_node(url: str) -> Iterator[Server]:
    program = Path(sys.executable).parent / "mainstem"

    def make_command(port: int, data: Path) -> list[str]:
        return [str(program), "serve", "--port", str(port), "--store", url]

    folder = Path(tempfile.mkdtemp(prefix="node-", dir=CACHE))
    try:
        node = Server(Peer("mainstem", "", "", make_command), folder)
        node.start()
        try:
            yield node
        finally:
            node.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def append(port: int, pace: Pace, connections: int, stream: str | None = None) -> Figures:
    return run_load(
        Append(port=port, connections=connections, stream=stream, seconds=pace.seconds, warmup_s=pace.warmup_s)
    )


def measure_appends(server: Server, pace: Pace) -> list[Measurement]:
    with run_nodes(1) as [node]:
        figures = append(node.port, pace, 64)
    title = "PostgreSQL, one node, 64 connections"
    return [Measurement("postgres-c64", title, figures["per_s"], "appends/s", details=figures)]


def measure_two_nodes(server: Server, pace: Pace) -> list[Measurement]:
    with run_nodes(2) as nodes:
        run_load(Fill(port=nodes[0].port, stream="shared", content="bytes", appends=1, messages=1))
        with ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(lambda node: append(node.port, pace, 32, "shared"), nodes))
    figures = {f"node{number}_per_s": run["per_s"] for number, run in enumerate(runs)}
    total = sum(run["per_s"] for run in runs)
    title = "PostgreSQL, two nodes, 32 connections each, one stream"
    return [Measurement("postgres-2x32", title, total, "appends/s", details=figures)]


def measure_crossing(server: Server, pace: Pace) -> list[Measurement]:
    with run_nodes(2) as [one, two]:
        job = FanOut(port=one.port, write_port=two.port, mode="sse", subscribers=SUBSCRIBERS, seconds=pace.seconds)
        figures = run_load(job)
    title = f"PostgreSQL, one node to {SUBSCRIBERS} SSE subscribers of another"
    return [
        Measurement("postgres-cross-p50", f"{title}, p50", figures["p50_ms"], "ms", "less", figures),
        Measurement("postgres-cross-p99", f"{title}, p99", figures["p99_ms"], "ms", "less", figures),
    ]


POSTGRES_SCENARIOS = [
    Scenario("postgres-append", measure_appends, ours_only=True),
    Scenario("postgres-two-nodes", measure_two_nodes, ours_only=True),
    Scenario("postgres-crossing", measure_crossing, ours_only=True),
]
