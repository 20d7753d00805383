import io
import json
import threading
from typing import Any

import pytest

from mainstem import limits
from mainstem.metrics.instruments import Counter
from mainstem.server.telemetry.access_log import AccessLog, Format

NOW_US = 1_794_911_894_040_000


def write(format_: Format, **changes: Any) -> str:
    """Return what the log writes about one request."""
    output = io.StringIO()
    log = AccessLog(format_, Counter(), lambda: NOW_US, output)
    log.start()
    log.add(**(describe() | changes))
    log.stop()
    return output.getvalue()


def describe() -> dict[str, Any]:
    return {
        "client": "192.0.2.7",
        "subject": "client ada",
        "method": "GET",
        "path": b"/v1/stream/a",
        "route": "/v1/stream/{path}",
        "status": 200,
        "code": "",
        "size": 864,
        "duration_s": 0.0123,
        "request_id": "r-1",
        "headers": {b"user-agent": b"curl/8", b"referer": b"https://example.org/page?token=secret"},
    }


def test_a_json_line_has_every_field_once():
    assert json.loads(write("json")) == {
        "time": "2026-11-17T10:38:14.040Z",
        "client": "192.0.2.7",
        "subject": "client ada",
        "method": "GET",
        "path": "/v1/stream/a",
        "route": "/v1/stream/{path}",
        "status": 200,
        "code": None,
        "bytes": 864,
        "duration_ms": 12.3,
        "request_id": "r-1",
        "referrer": "https://example.org/page",
        "user_agent": "curl/8",
    }


def test_a_combined_line_looks_like_that_of_a_web_server():
    assert write("combined") == (
        '192.0.2.7 - client_ada [17/Nov/2026:10:38:14 +0000] "GET /v1/stream/a HTTP/1.1" 200 864 '
        '"https://example.org/page" "curl/8" 0.012300 r-1\n'
    )


@pytest.mark.parametrize("format_", ["combined", "json"])
def test_what_clients_send_cannot_begin_a_new_line_or_end_a_field(format_):
    hostile = b'/a"\r\n\x1b[31m\xe2\x80\xae" 200 0'
    line = write(format_, path=hostile, subject='x"\n', headers={b"user-agent": hostile * 100})
    assert line.count("\n") == 1
    assert "\x1b" not in line
    assert len(line) < 4 * limits.ACCESS_FIELD_CHARACTERS_MAX + 500


class StuckOutput(io.StringIO):
    """A pipe that nobody reads, until `reader_came` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = threading.Event()
        self.reader_came = threading.Event()

    def write(self, text: str) -> int:
        self.writing.set()
        self.reader_came.wait()
        return super().write(text)


def test_lines_that_nobody_reads_are_dropped_and_counted():
    output, lost = StuckOutput(), Counter()
    log = AccessLog("json", lost, lambda: NOW_US, output)
    log.start()
    log.add(**describe())
    output.writing.wait()
    for _ in range(limits.ACCESS_LINES_WAITING_MAX + 5):
        log.add(**describe())
    assert lost.value == 5
    output.reader_came.set()
    log.stop()
    assert output.getvalue().count("\n") == limits.ACCESS_LINES_WAITING_MAX + 1


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_closed_pipe_is_reported_and_counted(caplog):
    lost = Counter()
    log = AccessLog("json", lost, lambda: NOW_US, ClosedPipe())
    log.start()
    log.add(**describe())
    log.stop()
    assert lost.value == 1
    assert "could not be written" in caplog.text
