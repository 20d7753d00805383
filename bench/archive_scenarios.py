"""The archive job on growing logs: its rate, how the rate changes with ten times the rows, and the driver's memory."""

from __future__ import annotations

import http.client
import random
import shutil

from bench.generator import LoadFailed, run_module
from bench.load_jobs import Figures
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import Server
from bench.wire import HOST

MILLION = 1_000_000
BATCH = 1_000
BODIES = 200  # different ones, sent in turn
LIMIT_S = 900.0
TIMES = 3


def fill(server: Server, stream: str, rows: int) -> None:
    """Append distinct messages of about 190 bytes: equal ones would compress to almost nothing in Parquet."""
    bodies = [_make_body(random.Random(number)) for number in range(BODIES)]
    headers = {"Content-Type": "application/json"}
    connection = http.client.HTTPConnection(HOST, server.port, timeout=LIMIT_S)
    try:
        _ask(connection, "PUT", stream, None, headers)
        for number in range(rows // BATCH):
            _ask(connection, "POST", stream, bodies[number % BODIES], headers)
    finally:
        connection.close()


def _make_body(chance: random.Random) -> bytes:
    messages = (
        f'{{"id":"{chance.getrandbits(64):016x}","user":{chance.randrange(10_000)},"text":"{chance.randbytes(70).hex()}"}}'
        for _ in range(BATCH)
    )
    return f"[{','.join(messages)}]".encode()


def _ask(
    connection: http.client.HTTPConnection, method: str, stream: str, body: bytes | None, headers: dict[str, str]
) -> None:
    connection.request(method, f"/v1/stream/{stream}", body=body, headers=headers)
    reply = connection.getresponse()
    said = reply.read()
    if reply.status >= 300:
        raise LoadFailed(f"{method} {stream}: {reply.status} {said[:200]!r}")


def archive(server: Server, times: int) -> Figures:
    folder = server.folder / "lake"
    try:
        return run_module("bench.archive_workload", server.port, folder, times, name="the archive", limit_s=LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_archive(server: Server, pace: Pace) -> list[Measurement]:
    rows = int(MILLION * pace.fill)
    fill(server, "archived", rows)
    figures = archive(server, TIMES)
    title = f"archive of {rows / MILLION:g} million rows"
    return [
        Measurement("archive", f"{title}, warm", figures["rows_per_s"], "rows/s", details=figures),
        Measurement("archive-cold", f"{title}, first time", figures["cold_rows_per_s"], "rows/s", details=figures),
        Measurement(
            "archive-rewrite",
            f"{title}: time / time in which Spark rewrites them as Parquet",
            figures["rewrite_rows_per_s"] / figures["rows_per_s"],
            "x",
            "less",
        ),
    ]


def measure_growth(server: Server, pace: Pace) -> list[Measurement]:
    """Measure the archive of 1, 3 and 10 million rows of one log."""
    found: list[Measurement] = []
    filled = 0
    rates: dict[int, float] = {}
    figures: Figures = {}
    for millions in (1, 3, 10):
        rows = int(millions * MILLION * pace.fill)
        fill(server, f"archived/{millions}", rows - filled)
        filled = rows
        figures = archive(server, 2)
        rates[millions] = figures["rows_per_s"]
        title = f"archive of {millions * pace.fill:g} million rows"
        found.append(Measurement(f"archive-{millions}m", title, rates[millions], "rows/s", details=figures))
    title = "archive, rate with the most rows / rate with the fewest"
    found.append(Measurement("archive-growth", title, rates[10] / rates[1], "x"))
    title = f"archive of {10 * pace.fill:g} million rows, driver memory"
    found.append(Measurement("archive-memory", title, figures["driver_mb"], "MB", "less", figures))
    return found


ARCHIVE_SCENARIOS = [
    Scenario("archive", measure_archive, ours_only=True),
    Scenario("archive-growth", measure_growth, ours_only=True, big=True),
]
