"""Reports to the server: what a round of a job, or a batch of a streaming query, has done.

A report is a courtesy. It is sent once, and waits only for a few seconds; a server that is away, or too old to know of
reports, costs a warning and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import MainstemError, RequestRefused
from mainstem.pipeline.http_client import HttpClient, ServerOptions

OTHER_CHARACTERS = re.compile(r"[^a-z0-9._-]+")
PASSWORD = re.compile(r"(?<=://)[^\s/@:]*:[^\s/@]*@")
"""A user and a password in a URI. A user alone stays: in `abfss://` it is a container."""
QUERY = re.compile(r"(://[^\s?#]*)[?#][^\s'\",;)]*")
"""The query of a URI, which may hold a signature."""


class RoundReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of `POST /v1/jobs`. Without a round, position or lag, the server fills it in."""

    job: str
    name: str
    started_at: str
    duration_s: float
    round: int | None = None
    rows: int = 0
    bytes: int = 0
    position: int | None = None
    lag: int | None = None
    faults: int = 0
    error: str | None = None
    details: dict[str, Any] = {}


def merge_reports(earlier: RoundReport | None, later: RoundReport) -> RoundReport:
    """Return one report for rounds that follow each other, so that no rows are missing if the first is not sent."""
    if earlier is None:
        return later
    return msgspec.structs.replace(
        later,
        started_at=earlier.started_at,
        duration_s=round(earlier.duration_s + later.duration_s, 3),
        rows=earlier.rows + later.rows,
        bytes=earlier.bytes + later.bytes,
    )


class ReportSender:
    """Sends reports, each with one attempt. After a failure it is silent until a report has arrived again."""

    def __init__(self, server: ServerOptions, warn: Callable[[str], None]) -> None:
        self._server = replace(server, retry_s=0)
        self._warn = warn
        self._warned = False

    def send(self, report: RoundReport) -> bool:
        """Return whether the server has stored the report. Never raises an error of the server or the network."""
        try:
            with HttpClient(self._server, timeout_s=limits.JOB_REPORT_S_MAX) as client:
                client.request("POST", "/v1/jobs", body=_encode(report), headers={"Content-Type": "application/json"})
        except MainstemError as error:
            if not self._warned:
                self._warn(f"this round of {report.name} was not reported: {_explain(error)}")
            self._warned = True
            return False
        self._warned = False
        return True


def make_job_name(text: str, otherwise: str) -> str:
    """Return a name under which a job may report, as close to the text as possible."""
    name = OTHER_CHARACTERS.sub("-", text.lower()).strip("._-")[: limits.JOB_NAME_CHARS_MAX]
    return name.rstrip("._-") or otherwise


def hide_credentials(text: str) -> str:
    """Return a text without the passwords and the queries of the URIs in it."""
    return QUERY.sub(r"\1", PASSWORD.sub("", text))


def clean_text(text: str) -> str:
    """Return a text as a report may hold it: valid UTF-8, of bounded length, and without credentials."""
    found = hide_credentials(text).encode("utf-8", "replace").decode()
    return found if len(found) <= limits.JOB_REASON_CHARS_MAX else found[: limits.JOB_REASON_CHARS_MAX - 1] + "…"


def _encode(report: RoundReport) -> bytes:
    body = msgspec.json.encode(report)
    if len(body) <= limits.JOB_REPORT_BYTES_MAX:
        return body
    return msgspec.json.encode(msgspec.structs.replace(report, details={}))


def _explain(error: MainstemError) -> str:
    if isinstance(error, RequestRefused) and error.facts.get("refused") == 404:
        return "the server is too old to take reports"
    return error.detail
