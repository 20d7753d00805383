"""The rounds that pipeline jobs report, for administrators.

POST /v1/jobs       {"job": "archive", "name": "archive", "round": 7, ...}
GET  /v1/jobs       the last round of every job

The last rounds are states of the log, so they outlive restarts, and every node of a shared log knows them. The stream
`_mainstem/jobs` holds the history.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import MainstemError
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import collect_headers, decode_json, read_body
from mainstem.http.responses import CORS_HEADERS, method_not_allowed, respond, respond_json
from mainstem.log.commands import Key, State
from mainstem.log.records import CommittedId, Record
from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.instruments import Reading
from mainstem.streams.commands.report import ReportRound
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules.json_mode import parse_body
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.paths import JOBS_PATH
from mainstem.streams.states import JOBS, JobRound, StreamState, job_key, stream_key
from mainstem.timestamps import format_time, parse_time

logger = logging.getLogger(__name__)

ALLOW: Final = "GET, POST, OPTIONS"
FOLLOWERS: Final = frozenset(["archive", "snapshot", "rollup", "export", "query"])
"""Jobs whose rows are those of the log between two positions."""

Job = Literal["archive", "snapshot", "retain", "audit", "rollup", "import", "export", "query"]
Name = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9._-]{{0,{limits.JOB_NAME_CHARS_MAX - 1}}}\Z")]
Count = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]


class JobReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a POST."""

    job: Job
    name: Name
    round: Count | None = None
    started_at: Annotated[datetime, Meta(tz=True)]
    duration_s: Annotated[float, Meta(ge=0, le=limits.INTEGER_MAX)]
    rows: Count = 0
    bytes: Count = 0
    position: Count | None = None
    lag: Count | None = None
    faults: Count = 0
    error: Annotated[str, Meta(max_length=limits.JOB_REASON_CHARS_MAX)] | None = None
    details: dict[str, Any] = {}


class ReportedRound(msgspec.Struct, frozen=True, kw_only=True):
    """A round as the stream and the list have it: complete, even if the job did not know all of it."""

    job: Job
    name: str
    round: int
    started_at: str
    duration_s: float
    rows: int
    bytes: int
    position: int
    lag: int
    faults: int
    error: str | None
    details: dict[str, Any]
    reported_at: str


_decode: Final = msgspec.json.Decoder(ReportedRound).decode


class Jobs:
    def __init__(self, streams: Streams) -> None:
        self.last: dict[Key, ReportedRound] = {}
        """The last round of every job, by the key of its state; at most `limits.JOBS_MAX`."""
        self._streams = streams
        self._log = streams.log
        self._states: dict[Key, JobRound] = {}
        self._reporting = asyncio.Lock()
        """Held while one report is decided and committed, so that each of them sees the one before."""
        self._changed_while_loading: dict[Key, State | None] | None = None
        self._reloading: asyncio.Task[None] | None = None

    # Lifecycle

    async def start(self) -> None:
        self._publish_measures(self._log.metrics)
        self._log.store.watch_spaces(JOBS)
        self._log.observers.append(self._observe)
        self._log.resets.append(self._reset)
        await self._load()

    def _publish_measures(self, metrics: Metrics) -> None:
        """Show the last round of every job at each scrape."""

        def read(measure: Callable[[ReportedRound], float]) -> Callable[[], Reading]:
            return lambda: [((last.job, last.name), measure(last)) for last in self.last.values()]

        metrics.job_time.read = read(lambda last: parse_time(last.reported_at) / 1_000_000)
        metrics.job_seconds.read = read(lambda last: last.duration_s)
        metrics.job_rows.read = read(lambda last: last.rows)
        metrics.job_lag.read = read(lambda last: last.lag)
        metrics.job_faults.read = read(lambda last: last.faults)
        metrics.job_failed.read = read(lambda last: int(last.error is not None))

    async def stop(self) -> None:
        self._log.observers.remove(self._observe)
        self._log.resets.remove(self._reset)
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)

    async def _load(self) -> None:
        changed: dict[Key, State | None] = {}
        self._changed_while_loading = changed
        try:
            found = await self._log.store.scan(JOBS, "", "", limits.SCAN_PAGE)
        finally:
            self._changed_while_loading = None
        self._states.clear()
        self.last.clear()
        self._note({Key(JOBS, name): state for name, state in found} | changed)

    def _reset(self) -> None:
        """Load the table again, because changes made by other nodes were missed."""
        if self._reloading is not None:
            self._reloading.cancel()
        self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        while True:
            try:
                await self._load()
                return
            except MainstemError as error:
                logger.warning("loading the last rounds of jobs failed and will be retried: %s", error.detail)
                await asyncio.sleep(limits.REAP_EVERY_S)

    def _observe(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> None:
        found = {key: state for key, state in changes.items() if key.space is JOBS}
        if found:
            self._note(found)
            if self._changed_while_loading is not None:
                self._changed_while_loading.update(found)

    def _note(self, changes: Mapping[Key, State | None]) -> None:
        for key, state in changes.items():
            if isinstance(state, JobRound):
                self._states[key] = state
                self.last[key] = _decode(state.report)
            else:
                self._states.pop(key, None)
                self.last.pop(key, None)

    # Requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity: Identity = scope["mainstem.identity"]
        identity.require_admin()
        if scope["method"] == "GET":
            await self._log.catch_up()  # another node may have acknowledged a report
            found = sorted(self.last.items(), key=lambda item: item[0].name)
            await respond_json(send, {"jobs": [round_ for _, round_ in found]})
        elif scope["method"] == "POST":
            body = await read_body(collect_headers(scope["headers"]), receive, limits.JOB_REPORT_BYTES_MAX)
            report = decode_json(body, JobReport)
            async with self._reporting:
                await self._record(report)
            await respond(send, 204, CORS_HEADERS)
        else:
            raise method_not_allowed(scope["method"], ALLOW)

    async def _record(self, report: JobReport) -> None:
        await self._log.catch_up()
        key = job_key(report.job, report.name)
        before = self._states.get(key)
        now_us = self._log.clock_us()
        round_ = self._complete(report, key, now_us)
        text = msgspec.json.encode(round_)
        message = parse_body(text)  # raises if the details are nested too deeply to be stored
        clean = report.error is None and not report.faults
        command = ReportRound(
            key,
            JobRound(text, now_us, round_.position, clean),
            None if await self._is_echo(report, before) else message,
            self._find_forgotten(key, now_us),
            self._streams.touched_us(JOBS_PATH),
        )
        await self._log.submit(command)

    def _complete(self, report: JobReport, key: Key, now_us: int) -> ReportedRound:
        """Fill in what the job did not know, from the round before and from the log."""
        before = self.last.get(key)
        number, position, lag = report.round, report.position, report.lag
        if number is None:
            number = 1 if before is None else min(before.round + 1, limits.INTEGER_MAX)
        if position is None:
            position = 0 if before is None else before.position
        if lag is None:
            lag = max(0, self._log.store.head - position)
        found = {"round": number, "position": position, "lag": lag, "reported_at": format_time(now_us)}
        return msgspec.convert(msgspec.to_builtins(report) | found, ReportedRound)

    async def _is_echo(self, report: JobReport, before: JobRound | None) -> bool:
        """Return whether a round has read nothing but the reports of other rounds.

        To append it, too, would give every job that follows the log something to read and report, and so on for ever.
        """
        if before is None or not before.clean or report.error is not None or report.faults:
            return False
        if report.position is None or report.job not in FOLLOWERS:
            return not report.rows
        after, until = CommittedId(before.position), CommittedId(report.position)
        if not 0 <= until - after <= limits.JOB_ECHO_IDS_MAX:
            return False
        store = self._log.store
        stream: StreamState | None = await store.get(stream_key(JOBS_PATH))
        if until == after or stream is None:
            return until == after
        page_bytes = limits.JOB_ECHO_IDS_MAX * limits.JOB_REPORT_BYTES_MAX
        return len(await store.read_log(after, until, page_bytes, [stream.topic])) == until - after

    def _find_forgotten(self, key: Key, now_us: int) -> tuple[Key, ...]:
        """Return the jobs that leave the table: those that are silent for too long, or make it too large."""
        oldest_first = sorted(self._states, key=lambda other: self._states[other].reported_at_us)
        oldest_us = now_us - limits.JOB_KEPT_S * SECOND_US
        surplus = len({*self._states, key}) - limits.JOBS_MAX
        return tuple(
            other
            for number, other in enumerate(other for other in oldest_first if other != key)
            if number < surplus or self._states[other].reported_at_us < oldest_us
        )
