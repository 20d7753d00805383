"""Loads that read stored data: whole streams, and the last message of a long one."""

from __future__ import annotations

import time

import msgspec

from bench.load_jobs import CatchUp, Figures, ReadLast, ReadOnce
from bench.payloads import CONTENT_TYPES, MESSAGE_BYTES, make_message
from bench.processes import CpuMeter
from bench.quantiles import find_quantile
from bench.sockets import BlockingConnection, fetch_tail
from bench.wire import UnexpectedReply, build_request, check_status, find_header, require_header

PAGES_MAX = 1_000_000
LAST_READS_MAX = 5_000
UP_TO_DATE = b'"upToDate"'


def read_stream(connection: BlockingConnection, stream: str, pages: list[bytes] | None = None) -> int:
    """Read the pages of a stream from its start until up to date, and return the bytes of all bodies."""
    offset, total = "-1", 0
    for _ in range(PAGES_MAX):
        kept = bytearray() if pages is not None else None
        head, length = connection.fetch(build_request("GET", stream, query=f"?offset={offset}"), kept)
        check_status(head, b"", b"200")
        total += length
        if pages is not None and kept is not None:
            pages.append(bytes(kept))
        if find_header(head, "Stream-Up-To-Date") == "true":
            return total
        offset = require_header(head, "Stream-Next-Offset")
    raise UnexpectedReply(f"the reader of {stream} was never up to date")


def count_messages(job: CatchUp, pages: list[bytes]) -> int:
    if job.content == "bytes":
        return sum(map(len, pages)) // MESSAGE_BYTES
    return sum(len(msgspec.json.decode(page)) for page in pages)


def run_catch_up(job: CatchUp) -> Figures:
    with BlockingConnection(job.port) as connection:
        started = time.perf_counter()
        read_stream(connection, job.stream)
        first_s = time.perf_counter() - started
        # The second pass is not measured: it checks that every message is there.
        pages: list[bytes] = []
        read_stream(connection, job.stream, pages)
        found, page_count = count_messages(job, pages), len(pages)
        if found != job.messages:
            raise UnexpectedReply(f"{job.stream} has {found} messages instead of {job.messages}")
        del pages
        times_s: list[float] = []
        meter = CpuMeter(job.pid)
        while sum(times_s) < job.seconds:
            started = time.perf_counter()
            read_stream(connection, job.stream)
            times_s.append(time.perf_counter() - started)
        cpu = meter.stop()
    # Message bytes, not body bytes: servers differ in the separators that they store and send.
    megabytes = job.messages * MESSAGE_BYTES / 1e6
    return {
        "first_mb_per_s": megabytes / first_s,
        "mb_per_s": megabytes * len(times_s) / sum(times_s),
        "reads": float(len(times_s)),
        "pages": float(page_count),
        **cpu,
    }


def run_read_once(job: ReadOnce) -> Figures:
    started = time.perf_counter()
    with BlockingConnection(job.port) as connection:
        read = read_live if job.live else read_stream
        total = read(connection, job.stream)
    if total < job.payload_bytes:
        raise UnexpectedReply(f"only {total} of {job.payload_bytes} bytes of {job.stream} arrived")
    return {"mb_per_s": job.payload_bytes / 1e6 / (time.perf_counter() - started)}


def read_live(connection: BlockingConnection, stream: str) -> int:
    """Follow a stream by SSE from its start until the server reports that the reader is up to date."""
    head = connection.open(build_request("GET", stream, query="?offset=-1&live=sse"))
    check_status(head, b"", b"200")
    total, tail = 0, b""
    while True:
        piece = bytes(connection.read_piece())
        total += len(piece)
        if UP_TO_DATE in tail + piece:
            return total
        tail = piece[-len(UP_TO_DATE) :]


def run_read_last(job: ReadLast) -> Figures:
    with BlockingConnection(job.port) as connection:
        before_last = fetch_tail(connection, job.stream)
        message = make_message("last")
        headers = {"Content-Type": CONTENT_TYPES["json"]}
        head, _ = connection.fetch(build_request("POST", job.stream, headers=headers, body=message))
        check_status(head, b"", b"204")
        request = build_request("GET", job.stream, query=f"?offset={before_last}")
        latencies = time_reads(connection, request, message, job.seconds)
    return {"p50_ms": find_quantile(latencies, 0.50) * 1000, "p99_ms": find_quantile(latencies, 0.99) * 1000}


def time_reads(connection: BlockingConnection, request: bytes, message: bytes, seconds: float) -> list[float]:
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and len(latencies) < LAST_READS_MAX:
        kept = bytearray()
        started = time.perf_counter()
        head, _ = connection.fetch(request, kept)
        latencies.append(time.perf_counter() - started)
        check_status(head, bytes(kept), b"200")
        if msgspec.json.decode(kept) != [msgspec.json.decode(message)]:
            raise UnexpectedReply(f"not the last message: {bytes(kept[:200])!r}")
    return sorted(latencies)
