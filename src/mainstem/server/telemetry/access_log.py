"""The access log: a line per request on standard output, in the combined format or as JSON.

A thread writes the lines. If nobody reads them, they are dropped and counted, and the server goes on.
"""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, TextIO

import msgspec

from mainstem import limits
from mainstem.escaping import escape_line
from mainstem.metrics.instruments import Counter
from mainstem.timestamps import format_time

logger = logging.getLogger(__name__)
Format = Literal["combined", "json"]
CUT = limits.ACCESS_FIELD_CHARACTERS_MAX


class Entry(msgspec.Struct, frozen=True):
    """What the log says about a request. It has no query, no token and no payload."""

    time: str
    client: str | None
    subject: str | None
    method: str
    path: str
    route: str
    status: int
    code: str | None
    bytes: int
    duration_ms: float
    request_id: str
    referrer: str | None = None
    user_agent: str | None = None


def format_combined(entry: Entry, at_us: int) -> str:
    """Return a line in the combined format of web servers, with the duration in seconds and the id at its end."""
    at = datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    request = f"{entry.method} {_clean(entry.path)} HTTP/1.1"
    return (
        f"{entry.client or '-'} - {_clean(entry.subject or '-').replace(' ', '_')} [{at}] "
        f'"{request}" {entry.status} {entry.bytes} '
        f'"{_clean(entry.referrer or "-")}" "{_clean(entry.user_agent or "-")}" '
        f"{entry.duration_ms / 1000:.6f} {entry.request_id}"
    )


def _clean(text: str) -> str:
    """Return a text that can be inside quotes on one line of a terminal."""
    return escape_line(text[:CUT]).replace('"', "%22")


class AccessLog:
    """Collects lines on the event loop, and writes them on a thread between `start` and `stop`."""

    def __init__(self, format_: Format, lost: Counter, clock_us: Callable[[], int], output: TextIO | None = None):
        self._format = format_
        self._lost = lost
        self._clock_us = clock_us
        self._output = output or sys.stdout
        self._lines: deque[str] = deque()
        self._ready = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="mainstem-access-log", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, unless nobody reads it."""
        self._stopping = True
        self._ready.set()
        if self._thread is not None:
            self._thread.join(timeout=limits.ACCESS_LOG_FLUSH_S_MAX)

    def add(
        self,
        *,
        client: str | None,
        subject: str | None,
        method: str,
        path: bytes,
        route: str,
        status: int,
        code: str,
        size: int,
        duration_s: float,
        request_id: str,
        headers: dict[bytes, bytes],
    ) -> None:
        if len(self._lines) >= limits.ACCESS_LINES_WAITING_MAX:
            self._lost.value += 1
            return
        now_us = self._clock_us()
        entry = Entry(
            format_time(now_us),
            client,
            subject,
            method,
            path.decode("latin-1")[:CUT],
            route,
            status,
            code or None,
            size,
            round(duration_s * 1000, 3),
            request_id,
            _text(headers.get(b"referer")),
            _text(headers.get(b"user-agent")),
        )
        if self._format == "json":
            self._lines.append(msgspec.json.encode(entry).decode())
        else:
            self._lines.append(format_combined(entry, now_us))
        self._ready.set()

    def _run(self) -> None:
        while True:
            self._ready.wait()
            self._ready.clear()
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                try:
                    self._output.write("\n".join(lines) + "\n")
                    self._output.flush()
                except (OSError, ValueError) as error:  # the pipe is closed, or the disk is full
                    self._lost.value += len(lines)
                    logger.warning("%d lines of the access log could not be written: %s", len(lines), error)
            if self._stopping and not self._lines:
                return


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1").split("?")[0][:CUT]
