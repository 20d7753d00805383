"""The Python clients continue the trace of the application that uses them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    use_span,
)
from websockets.exceptions import InvalidStatus

from mainstem.client import AsyncStreams, Streams
from mainstem.client.offline import MemoryClientStore, OfflineClient
from mainstem.client.sync_connection import SyncConnection
from mainstem.testing.server import SETTINGS

TEXT = "text/plain"
ROUTE = "/v1/stream/{path}"


@contextmanager
def in_span_of(caller) -> Iterator[None]:
    """Run application code within a span."""
    context = SpanContext(
        int(caller.trace_id, 16), int(caller.span_id, 16), False, TraceFlags(1), TraceState([("vendor", "a")])
    )
    with use_span(NonRecordingSpan(context)):
        yield


def test_requests_continue_the_current_trace(traced_server, collector, caller, path):
    with Streams(traced_server.url) as streams:
        with in_span_of(caller):
            streams.create(path, TEXT)
        streams.append(path, b"x")
    span = collector.wait_for(f"PUT {ROUTE}", url__path=f"/v1/stream/{path}")
    assert (span.trace_id, span.parent_id, span.trace_state) == (caller.trace_id, caller.span_id, "vendor=a")
    outside = collector.wait_for(f"POST {ROUTE}", url__path=f"/v1/stream/{path}")
    assert outside.parent_id == ""


async def test_asynchronous_requests_do_so_too(traced_server, collector, caller, path):
    async with AsyncStreams(traced_server.url) as streams:
        with in_span_of(caller):
            await streams.create(path, TEXT)
    span = collector.wait_for(f"PUT {ROUTE}", url__path=f"/v1/stream/{path}")
    assert (span.trace_id, span.parent_id) == (caller.trace_id, caller.span_id)


def test_a_header_of_the_application_takes_precedence(traced_server, collector, caller, path):
    given = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with Streams(traced_server.url, headers={"Traceparent": given}) as streams, in_span_of(caller):
        streams.create(path, TEXT)
    span = collector.wait_for(f"PUT {ROUTE}", url__path=f"/v1/stream/{path}")
    assert span.trace_id == "ab" * 16


async def test_the_handshake_of_a_sync_client_continues_the_trace(caller):
    heads: asyncio.Queue[bytes] = asyncio.Queue()

    async def refuse(reader, writer):
        heads.put_nowait(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with in_span_of(caller):
            with pytest.raises(InvalidStatus):
                await asyncio.to_thread(
                    SyncConnection, f"ws://{host}:{port}/v1/sync", timeout_s=10, message_bytes_max=1000, proxy=None
                )
            async with OfflineClient(f"ws://{host}:{port}/v1/sync", client_id="a", store=MemoryClientStore()):
                found = [await heads.get(), await heads.get()]
    assert [f"traceparent: {caller.traceparent}".encode() in head.lower() for head in found] == [True, True]


PROGRAM = """
import sys
from mainstem.client import Streams
with Streams(sys.argv[1]) as streams:
    streams.create(sys.argv[2], "text/plain")
sys.exit(any(name.partition(".")[0] == "opentelemetry" for name in sys.modules))
"""


def test_a_client_does_not_import_opentelemetry(traced_server, path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, traced_server.url, path], env=environment, timeout=60)
    assert done.returncode == 0


BROKEN = """
import sys
import opentelemetry.trace
from mainstem.client import Streams
with Streams(sys.argv[1]) as streams:
    streams.create(sys.argv[2], "text/plain")
    streams.append(sys.argv[2], b"x")
"""


def test_a_client_works_if_opentelemetry_cannot_propagate_traces(traced_server, path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, traced_server.url, path],
        env=environment | {"OTEL_PROPAGATORS": "nonsense"},
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("requests do not continue traces") == 1
