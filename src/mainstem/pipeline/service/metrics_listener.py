"""Serves the metrics of the service to Prometheus, and `/healthz` to health checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from socket import AF_INET6

from mainstem import limits
from mainstem.errors import BadPipelineFile
from mainstem.metrics import exposition
from mainstem.metrics.pipeline import PipelineMetrics
from mainstem.pipeline.service.definition import Endpoint


@contextmanager
def serve_metrics(metrics: PipelineMetrics, endpoint: Endpoint | None) -> Iterator[Endpoint | None]:
    """Listen during the block, in a thread, and yield the address; port 0 takes a free one."""
    if endpoint is None:
        yield None
        return
    try:
        server = _Server(endpoint, metrics)
    except OSError as error:
        raise BadPipelineFile(
            f"cannot serve metrics at {endpoint.host}:{endpoint.port}: {(error.strerror or str(error)).lower()}; give "
            "another address as `metrics`"
        ) from None
    thread = threading.Thread(target=server.serve_forever, name="mainstem-pipeline-metrics", daemon=True)
    thread.start()
    try:
        yield Endpoint(endpoint.host, server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(HTTPServer):
    """One request at a time: a scrape takes a millisecond."""

    def __init__(self, endpoint: Endpoint, metrics: PipelineMetrics) -> None:
        if ":" in endpoint.host:
            self.address_family = AF_INET6
        self.metrics = metrics
        super().__init__((endpoint.host, endpoint.port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = limits.SCRAPE_S_MAX

    def do_GET(self) -> None:
        find = {"/metrics": self._metrics, "/healthz": self._health}.get(self.path.partition("?")[0])
        if find is None:
            self._reply(404, "text/plain", b"see /metrics and /healthz\n")
            return
        self._reply(200, *find())

    do_HEAD = do_GET

    def _metrics(self) -> tuple[str, bytes]:
        format_ = exposition.choose_format(self.headers.get("Accept", ""))
        return format_, exposition.encode(self.server.metrics.families, format_)

    def _health(self) -> tuple[str, bytes]:
        return "text/plain", b"ok\n"

    def _reply(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the service writes a line per round."""
