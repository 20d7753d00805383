"""Which runs there are, from the messages of one stream that all processes with runs write and follow.

The order of that stream decides: of two starts with one id, the first wins, and every process comes to the same result.
It replaces clocks, too: a worker is lost if this process was heard several times in a row and that one was not.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
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
    embedded: bool = False
    """Whether that process has the log itself open, and no other process can."""
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
    """Says that a worker is alive. It is small, so that the log accepts it however many runs there are."""

    worker: str


class Running(msgspec.Struct, frozen=True, tag="running"):
    """Some runs of a worker, so that they outlive the retention of the stream. These entries follow its heartbeat."""

    worker: str
    runs: tuple[RunRecord, ...] = ()
    last: bool = False
    """Whether the worker has listed all its runs since its heartbeat."""


Entry = Started | Stopped | Ended | Heartbeat | Running

_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> Any:
    return msgspec.to_builtins(entry)


def decode_entry(message: bytes) -> Entry | None:
    """Return a message of the registry; None for one that is not known, from a newer version for example."""
    try:
        return _decoder.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def divide(runs: Iterable[RunRecord], bytes_max: int) -> list[tuple[RunRecord, ...]]:
    """Return runs in parts of at most that many bytes of JSON, or of a single run. There is at least one part."""
    parts: list[list[RunRecord]] = [[]]
    size = 0
    for run in runs:
        cost = len(msgspec.json.encode(run)) + 1
        if parts[-1] and size + cost > bytes_max:
            parts.append([])
            size = 0
        parts[-1].append(run)
        size += cost
    return [tuple(part) for part in parts]


class Registry:
    """The runs of all processes, as the worker of this process sees them."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.active: dict[str, RunRecord] = {}
        self.ended: OrderedDict[str, RunRecord] = OrderedDict()
        """The latest runs that have ended, by their tokens: an id may have had several runs."""
        self._last: dict[str, str] = {}
        """For each id, the token of its run in `ended` that has ended last."""
        self._ended_unseen: OrderedDict[str, None] = OrderedDict()
        """The tokens of runs whose end is all that was left of them: a later entry may still list them."""
        self._unmentioned: set[str] = set()
        """The tokens of active runs that nobody has mentioned since the stream was read again from its beginning."""
        self._missed: dict[str, int] = {}
        """For each other worker with runs: how many heartbeats of this worker came since the last one of that one."""
        self._listed: dict[str, set[str]] = {}
        """For each other worker, the tokens that it has listed since its heartbeat, until it has listed all."""
        self._unlisted: set[str] = set()
        """The tokens of active runs that their workers did not list the last time."""
        self._removed: list[str] = []

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

    def find_rival(self, run: RunRecord) -> RunRecord | None:
        """Return an active run with the same stream that was started before this one, if one of them closes it."""
        for other in self.active.values():
            if other.token == run.token:
                return None
            if other.stream == run.stream and (other.closes or run.closes):
                return other
        return None

    def list_runs(self) -> list[RunRecord]:
        """Return all runs that are known, the oldest first, and for each id the last that has ended."""
        ended = [self.ended[token] for token in self._last.values()]
        return sorted([*ended, *self.active.values()], key=lambda run: run.started_at)

    def read_again(self) -> None:
        """Prepare for reading the stream from its beginning: the ends of runs may have been trimmed in the meantime."""
        self._unmentioned = {run.token for run in self.active.values() if run.worker != self.worker}

    def forget_unmentioned(self) -> None:
        """Forget the runs that nobody has mentioned since `read_again`. Their workers mention those that go on."""
        self._forget(self._unmentioned)
        self._unmentioned = set()

    def take_removed(self) -> list[str]:
        """Return the tokens of the runs that have ended or were forgotten since the last call."""
        removed, self._removed = self._removed, []
        return removed

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Heartbeat):
            self._hear(entry.worker)
        elif isinstance(entry, Running):
            self._list(entry)
        elif isinstance(entry, Started):
            self._missed.pop(entry.run.worker, None)
            self._start(entry.run)
        else:
            run = self.active.get(entry.id)
            if run is not None and run.token == entry.token:
                self._stop_or_end(run, entry)
            elif isinstance(entry, Ended) and entry.token not in self.ended:
                self._ended_unseen[entry.token] = None
                if len(self._ended_unseen) > limits.RUNS_ENDED_MAX:
                    self._ended_unseen.popitem(last=False)

    def find_lost(self) -> list[RunRecord]:
        """Return the runs of workers that are silent although this one is heard."""
        lost = {worker for worker, missed in self._missed.items() if missed > limits.RUN_HEARTBEATS_MISSED_MAX}
        return [run for run in self.active.values() if run.worker in lost]

    def find_orphans(self, workers: Collection[str]) -> list[RunRecord]:
        """Return the runs of earlier processes that had this log open; `workers` are those of the one that has it."""
        return [run for run in self.active.values() if run.embedded and run.worker not in workers]

    def _hear(self, worker: str) -> None:
        if worker != self.worker:
            self._missed.pop(worker, None)
            self._listed[worker] = set()
            return
        others = {run.worker for run in self.active.values()} - {worker}
        self._missed = {other: self._missed.get(other, 0) + 1 for other in others}
        self._listed = {other: listed for other, listed in self._listed.items() if other in others}

    def _list(self, entry: Running) -> None:
        """Add runs whose start was trimmed, and forget those that their worker has left out twice in a row.

        It may leave out one that was started a moment ago, and may list one that has just ended.
        """
        for run in entry.runs:
            self._start(msgspec.structs.replace(run, worker=entry.worker))
        listed = self._listed.get(entry.worker)
        if listed is None:  # it is this worker, or the heartbeat was trimmed
            return
        listed.update(run.token for run in entry.runs)
        if entry.last:
            del self._listed[entry.worker]
            unlisted = {run.token for run in self.active.values() if run.worker == entry.worker} - listed
            gone = unlisted & self._unlisted
            self._forget(gone)
            self._unlisted = (self._unlisted - listed) | (unlisted - gone)

    def _start(self, run: RunRecord) -> None:
        self._unmentioned.discard(run.token)
        has_ended = run.token in self.ended or run.token in self._ended_unseen or not run.active
        if run.id not in self.active and not has_ended:
            self.active[run.id] = run

    def _forget(self, tokens: Collection[str]) -> None:
        if tokens:
            for run in [run for run in self.active.values() if run.token in tokens]:
                self._remove(run)

    def _remove(self, run: RunRecord) -> None:
        del self.active[run.id]
        self._unlisted.discard(run.token)
        self._removed.append(run.token)

    def _stop_or_end(self, run: RunRecord, entry: Stopped | Ended) -> None:
        if isinstance(entry, Stopped):
            self.active[run.id] = msgspec.structs.replace(run, status="stopping", reason=entry.reason)
            return
        self._remove(run)
        self.ended[run.token] = msgspec.structs.replace(run, status=entry.outcome, reason=entry.reason or run.reason)
        self._last[run.id] = run.token
        if len(self.ended) > limits.RUNS_ENDED_MAX:
            token, oldest = self.ended.popitem(last=False)
            if self._last[oldest.id] == token:
                del self._last[oldest.id]
