"""Which runs there are, from the messages of one stream that all processes with runs write and follow.

The order of that stream decides: of two starts with one id, the first wins, and every process comes to the same result.
It replaces clocks, too: a worker is lost if this process was heard several times in a row and that one was not.
"""

from collections import OrderedDict
from typing import Any, Literal

import msgspec

from mainstem import limits

Outcome = Literal["finished", "failed", "stopped", "lost"]
Status = Literal["running", "stopping", "finished", "failed", "stopped", "lost"]


class RunRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run as the registry knows it."""

    id: str
    stream: str
    token: str
    """Names this start of the run; the id of the producer that writes its stream."""
    format: str = "plain"
    closes: bool = True
    """Whether the end of the run closes its stream."""
    tag: str = ""
    """What the caller noted at the start, for example the id of the message that the run answers."""
    started_at: str = ""
    ttl_s: int | None = None
    """The TTL of the stream."""
    worker: str = ""
    """The process that runs it."""
    status: Status = "running"
    reason: str = ""

    @property
    def active(self) -> bool:
        return self.status in ("running", "stopping")


class Started(msgspec.Struct, frozen=True, tag="start"):
    run: RunRecord


class Stopped(msgspec.Struct, frozen=True, tag="stop"):
    id: str
    token: str
    reason: str = ""


class Ended(msgspec.Struct, frozen=True, tag="end"):
    id: str
    token: str
    outcome: Outcome
    reason: str = ""


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    worker: str
    runs: tuple[RunRecord, ...] = ()
    """All runs of the worker, so that they outlive the retention of the stream."""


Entry = Started | Stopped | Ended | Heartbeat

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> Any:
    return msgspec.to_builtins(entry)


def decode_entry(message: bytes) -> Entry | None:
    """Return a message of the registry; None for one that is not known, from a newer version for example."""
    try:
        return _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Registry:
    """The runs of all processes, as the worker of this process sees them."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.active: dict[str, RunRecord] = {}
        self.ended: OrderedDict[str, RunRecord] = OrderedDict()
        """The latest runs that have ended, by their tokens: an id may have had several runs."""
        self._last: dict[str, str] = {}
        """For each id, the token of its run in `ended` that has ended last."""
        self._unmentioned: set[str] = set()
        """The tokens of active runs that nobody has mentioned since the stream was read again from its beginning."""
        self._missed: dict[str, int] = {}
        """For each other worker with runs: how many heartbeats of this worker came since the last one of that one."""

    def find(self, run_id: str) -> RunRecord | None:
        """Return the run with this id: the active one, or else the last one that has ended."""
        active, last = self.active.get(run_id), self._last.get(run_id)
        return self.ended[last] if active is None and last is not None else active

    def look_up(self, run: RunRecord) -> RunRecord:
        """Return what is known now of a run that was known before. Its id may belong to another run by now."""
        active = self.active.get(run.id)
        if active is not None and active.token == run.token:
            return active
        return self.ended.get(run.token) or (msgspec.structs.replace(run, status="lost") if run.active else run)

    def list_runs(self) -> list[RunRecord]:
        """Return all runs that are known, the oldest first, and for each id the last that has ended."""
        ended = [self.ended[token] for token in self._last.values()]
        return sorted([*ended, *self.active.values()], key=lambda run: run.started_at)

    def read_again(self) -> None:
        """Prepare for reading the stream from its beginning: the ends of runs may have been trimmed in the meantime."""
        self._unmentioned = {run.token for run in self.active.values() if run.worker != self.worker}

    def forget_unmentioned(self) -> None:
        """Forget the runs that nobody has mentioned since `read_again`. Their workers mention those that go on."""
        if self._unmentioned:
            self.active = {id: run for id, run in self.active.items() if run.token not in self._unmentioned}
            self._unmentioned = set()

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Heartbeat):
            self._hear(entry.worker)
            for running in entry.runs:
                self._start(msgspec.structs.replace(running, worker=entry.worker))
        elif isinstance(entry, Started):
            self._missed.pop(entry.run.worker, None)
            self._start(entry.run)
        else:
            run = self.active.get(entry.id)
            if run is not None and run.token == entry.token:
                self._stop_or_end(run, entry)

    def find_lost(self) -> list[RunRecord]:
        """Return the runs of workers that are silent although this one is heard."""
        lost = {worker for worker, missed in self._missed.items() if missed > limits.RUN_HEARTBEATS_MISSED_MAX}
        return [run for run in self.active.values() if run.worker in lost]

    def _hear(self, worker: str) -> None:
        if worker != self.worker:
            self._missed.pop(worker, None)
            return
        others = {run.worker for run in self.active.values()} - {worker}
        self._missed = {other: self._missed.get(other, 0) + 1 for other in others}

    def _start(self, run: RunRecord) -> None:
        self._unmentioned.discard(run.token)
        if run.id not in self.active and run.token not in self.ended:
            self.active[run.id] = run

    def _stop_or_end(self, run: RunRecord, entry: Stopped | Ended) -> None:
        if isinstance(entry, Stopped):
            self.active[run.id] = msgspec.structs.replace(run, status="stopping", reason=entry.reason)
            return
        del self.active[run.id]
        self.ended[run.token] = msgspec.structs.replace(run, status=entry.outcome, reason=entry.reason or run.reason)
        self._last[run.id] = run.token
        if len(self.ended) > limits.RUNS_ENDED_MAX:
            token, oldest = self.ended.popitem(last=False)
            if self._last[oldest.id] == token:
                del self._last[oldest.id]
