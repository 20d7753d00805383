"""Which runs there are, from the messages of one stream that all processes with runs write and follow.

The order of that stream decides: of two starts with one id, the first wins, and every process comes to the same result.
This module has no clock; the time at which a message was received is an argument.
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
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class Registry:
    def __init__(self) -> None:
        self.active: dict[str, RunRecord] = {}
        self.ended: OrderedDict[str, RunRecord] = OrderedDict()
        """The latest runs that have ended, one per id."""
        self._heard_s: dict[str, float] = {}
        """When each worker that has runs was last heard of."""

    def find(self, run_id: str) -> RunRecord | None:
        """Return the run with this id: the active one, or else the last one that has ended."""
        return self.active.get(run_id) or self.ended.get(run_id)

    def list_runs(self) -> list[RunRecord]:
        """Return all runs that are known, the oldest first."""
        return sorted([*self.ended.values(), *self.active.values()], key=lambda run: run.started_at)

    def apply(self, entry: Entry, now_s: float) -> RunRecord | None:
        """Apply an entry, and return the run that it has changed, if any."""
        if isinstance(entry, Heartbeat):
            self._heard_s[entry.worker] = now_s
            for running in entry.runs:
                self._start(msgspec.structs.replace(running, worker=entry.worker))
            return None
        if isinstance(entry, Started):
            self._heard_s[entry.run.worker] = now_s
            return self._start(entry.run)
        run = self.active.get(entry.id)
        if run is None or run.token != entry.token:
            return None
        if isinstance(entry, Stopped):
            changed = msgspec.structs.replace(run, status="stopping", reason=entry.reason)
            self.active[run.id] = changed
            return changed
        del self.active[run.id]
        changed = msgspec.structs.replace(run, status=entry.outcome, reason=entry.reason or run.reason)
        self.ended[run.id] = changed
        self.ended.move_to_end(run.id)
        if len(self.ended) > limits.RUNS_ENDED_MAX:
            self.ended.popitem(last=False)
        return changed

    def find_lost(self, observer: str) -> list[RunRecord]:
        """Return the runs of workers that were silent for a lease in which the observer, a worker too, was heard."""
        now_s = self._heard_s.get(observer, 0.0)
        lost = {worker for worker, heard_s in self._heard_s.items() if now_s - heard_s > limits.RUN_LEASE_S}
        with_runs = {run.worker for run in self.active.values()}
        for worker in lost - with_runs:
            del self._heard_s[worker]
        return [run for run in self.active.values() if run.worker in lost]

    def _start(self, run: RunRecord) -> RunRecord | None:
        ended = self.ended.get(run.id)
        if run.id in self.active or (ended is not None and ended.token == run.token):
            return None
        self.active[run.id] = run
        return run
