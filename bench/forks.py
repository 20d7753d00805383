"""Load that forks a long stream."""

from __future__ import annotations

import time

from bench.load_jobs import Figures, Forks
from bench.payloads import CONTENT_TYPES
from bench.quantiles import find_quantile
from bench.readers import PAGES_MAX
from bench.sockets import BlockingConnection, fetch_tail
from bench.wire import STREAM_ROOT, UnexpectedReply, build_request, check_status, require_header


def run_forks(job: Forks) -> Figures:
    with BlockingConnection(job.port) as connection:
        places = {"tail": fetch_tail(connection, job.stream), "middle": find_middle(connection, job)}
        figures: Figures = {}
        for place, offset in places.items():
            latencies = [
                time_fork(connection, job.stream, f"fork/{place}-{index:03d}", offset if place == "middle" else None)
                for index in range(job.forks)
            ]
            for index in range(job.forks):
                check_fork(connection, job.stream, f"fork/{place}-{index:03d}", offset)
            latencies.sort()
            figures[f"{place}_p50_ms"] = find_quantile(latencies, 0.50) * 1000
            figures[f"{place}_max_ms"] = latencies[-1] * 1000
    return figures


def find_middle(connection: BlockingConnection, job: Forks) -> str:
    """Return the offset at the middle of a stream. Offsets are opaque, so it has to be found by reading."""
    offset, total = "-1", 0
    for _ in range(PAGES_MAX):
        head, length = connection.fetch(build_request("GET", job.stream, query=f"?offset={offset}"))
        check_status(head, b"", b"200")
        offset = require_header(head, "Stream-Next-Offset")
        total += length
        if total * 2 >= job.payload_bytes:
            return offset
    raise UnexpectedReply(f"the middle of {job.stream} was never reached")


def time_fork(connection: BlockingConnection, source: str, name: str, offset: str | None) -> float:
    headers = {"Content-Type": CONTENT_TYPES["json"], "Stream-Forked-From": STREAM_ROOT + source}
    if offset is not None:
        headers["Stream-Fork-Offset"] = offset
    request = build_request("PUT", name, headers=headers)
    started = time.perf_counter()
    head, _ = connection.fetch(request)
    elapsed_s = time.perf_counter() - started
    check_status(head, b"", b"201")
    return elapsed_s


def check_fork(connection: BlockingConnection, source: str, name: str, tail: str) -> None:
    """Check that a fork ends at the requested offset, and begins like its source."""
    found = fetch_tail(connection, name)
    if found != tail:
        raise UnexpectedReply(f"{name} ends at {found}, not at {tail}")
    if fetch_start(connection, name) != fetch_start(connection, source):
        raise UnexpectedReply(f"{name} does not begin like {source}")


def fetch_start(connection: BlockingConnection, stream: str) -> bytes:
    page = bytearray()
    head, _ = connection.fetch(build_request("GET", stream, query="?offset=-1"), page)
    check_status(head, bytes(page[:200]), b"200")
    return bytes(page)
