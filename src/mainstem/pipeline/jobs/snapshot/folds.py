"""What workers do for a snapshot: combine rows by key, or take them in order, and fold them onto the present state."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import ReducerFailed
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.snapshot.reducers import Entry, Keyed, Message, Ordered, Reducer, Reset, apply_entry
from mainstem.pipeline.jobs.snapshot.shelf import Passed, Present, Refused, Shelf, TargetGone
from mainstem.pipeline.jobs.targets import STREAM, Choice, Row, Spreader, Target, rows_of

TARGET = [("kind", pa.string()), ("name", pa.string()), ("life", pa.int64())]
PLACE = [("committed_id", pa.int64()), ("position", pa.int32())]
SPAN = [("first", pa.int64()), ("end", pa.int64())]
COUNTS = [("messages", pa.int64()), ("ignored", pa.int64())]

MARK, RESET, ENTRY = 0, 1, 2
"""Roles of a combined row, in the order in which a target's rows are folded."""
_ENTRY = [("role", pa.int32()), ("group", pa.string()), ("key", pa.string()), *PLACE, ("value", pa.binary())]
COMBINED = pa.schema([*TARGET, *_ENTRY, *COUNTS, *SPAN])
ORDERED_ONLY = [("id", pa.string()), ("client_id", pa.string()), ("partitions", pa.list_(pa.string()))]
TAKEN = pa.schema([*TARGET, *PLACE, *SPAN, ("data", pa.binary()), ("committed_at", pa.int64()), *ORDERED_ONLY])
RESULTS = pa.schema([*TARGET, ("status", pa.string()), ("after", pa.int64()), *COUNTS, ("size", pa.int64())])
RESULTS = RESULTS.append(pa.field("detail", pa.string()))


class Result(NamedTuple):
    """What became of one target."""

    kind: str
    name: str
    life: int
    status: str
    """put, unchanged, passed, gone, or fault."""
    after: int
    """Where its snapshot ended before."""
    messages: int
    ignored: int
    size: int
    detail: str | None


# Before the shuffle


class Combiner:
    """The newest entry of each key, as far as one worker has read. Rows come in committed order, so the last one is."""

    def __init__(self, reducer: Keyed, choice: Choice) -> None:
        self._extract = reducer.extract
        self._spread = Spreader(choice, json_only=True).spread
        self._forget()

    def _forget(self) -> None:
        self._entries: dict[tuple[Target, str | None, str | None], tuple[int, int, bytes | None]] = {}
        self._marks: dict[Target, list[int]] = {}
        self._size = 0

    def combine(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in self._spread(batch):
                self._add(row)
                if len(self._entries) >= limits.COMBINED_KEYS_MAX or self._size >= limits.COMBINED_BYTES_MAX:
                    yield self._take()
        if self._marks:
            yield self._take()

    def _add(self, row: Row) -> None:
        entry = self._extract(row.data)
        mark = self._marks.get(row.target)
        if mark is None:
            mark = self._marks[row.target] = [row.committed_id, row.position, 0, 0, row.start, row.end]
        mark[0], mark[1], mark[5] = row.committed_id, row.position, row.end
        mark[2] += 1
        if isinstance(entry, Entry):
            self._entries[row.target, entry.group, entry.key] = (row.committed_id, row.position, entry.value)
            self._size += len(row.data)
        elif isinstance(entry, Reset):
            self._entries[row.target, None, None] = (row.committed_id, row.position, None)
        else:
            mark[3] += 1

    def _take(self) -> pa.RecordBatch:
        rows: list[tuple[Any, ...]] = [
            (*target, MARK, None, None, mark[0], mark[1], None, *mark[2:]) for target, mark in self._marks.items()
        ]
        rows += [
            (*target, RESET if key is None else ENTRY, group, key, *place, value, 0, 0, None, None)
            for (target, group, key), (*place, value) in self._entries.items()
        ]
        self._forget()
        return to_batch(rows, COMBINED)


def take_in_order(choice: Choice, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each message with its target, and all that a function may want to know of it."""
    spreader = Spreader(choice, json_only=True)
    for batch in batches:
        times = batch.column("committed_at").cast(pa.int64()).to_pylist()
        ids, clients, partitions = (batch.column(name).to_pylist() for name, _ in ORDERED_ONLY)
        rows = [
            (
                *(*row.target, row.committed_id, row.position, row.start, row.end, row.data),
                *(times[row.number], ids[row.number], clients[row.number], partitions[row.number]),
            )
            for row in spreader.spread(batch)
        ]
        if rows:
            yield to_batch(rows, TAKEN)


def to_batch(rows: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# Behind it: all rows of a target come to one worker, one after the other


@dataclass(frozen=True)
class Folding:
    """How targets are folded, and where their snapshots go. It travels to the workers."""

    server: ServerOptions
    reducer: Reducer
    until: int
    partial: bool
    """Also fold what is left of a history that was pruned without a snapshot."""
    dry_run: bool

    def fold_combined(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._fold(batches, self._merge)

    def fold_ordered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._fold(batches, self._replay)

    def _fold(
        self, batches: Iterable[pa.RecordBatch], fold: Callable[[Shelf, Target, Iterator[Any]], Result]
    ) -> Iterator[pa.RecordBatch]:
        results: list[Result] = []
        with HttpClient(self.server) as client:
            shelf = Shelf(client)
            for place, rows in itertools.groupby(rows_of(batches), lambda row: row[:3]):
                results.append(self._judge(shelf, Target(*cast("tuple[str, str, int]", place)), rows, fold))
                if len(results) >= limits.SCAN_PAGE:
                    yield to_batch(results, RESULTS)
                    results.clear()
        if results:
            yield to_batch(results, RESULTS)

    def _judge(
        self,
        shelf: Shelf,
        target: Target,
        rows: Iterator[Any],
        fold: Callable[[Shelf, Target, Iterator[Any]], Result],
    ) -> Result:
        """One target that cannot be folded does not stop the others."""
        try:
            return fold(shelf, target, rows)
        except TargetGone:
            return Result(*target, "gone", 0, 0, 0, 0, None)
        except Passed:
            return Result(*target, "passed", 0, 0, 0, 0, None)
        except _Fault as fault:
            return Result(*target, "fault", fault.after, 0, 0, 0, str(fault))

    def _begin(self, shelf: Shelf, target: Target, first: int) -> tuple[Present, Iterator[bytes]]:
        """What is there already: the present snapshot, and of a fork without one what it has of its source."""
        present = shelf.fetch(target)
        if present.truncated and not self.partial:
            what = "committed id" if target.kind != STREAM else "position"
            raise _Fault(
                f"its history up to {what} {present.given_up} was pruned and no snapshot stands for it; "
                "--partial folds what is left",
                present.committed_id,
            )
        start = max(present.position, present.given_up)
        missing = target.kind == STREAM and present.state is None and start < first
        return present, shelf.inherited(target, start, first) if missing else iter(())

    def _finish(
        self, shelf: Shelf, target: Target, present: Present, state: Any, end: int, counts: tuple[int, int]
    ) -> Result:
        try:
            encoded = self.reducer.encode(state)
            if not self.dry_run:
                shelf.put(target, self.until, end, encoded)
        except (Refused, ReducerFailed) as error:
            raise _Fault(str(error), present.committed_id) from None
        return Result(*target, "put", present.committed_id, *counts, len(encoded), None)

    def _merge(self, shelf: Shelf, target: Target, rows: Iterator[Any]) -> Result:
        reducer = cast("Keyed", self.reducer)
        *_, last_id, _, _, messages, ignored, first, end = next(rows)
        present, inherited = self._begin(shelf, target, first)
        if last_id <= present.committed_id:
            return Result(*target, "unchanged", present.committed_id, 0, 0, 0, None)
        table = self._load(reducer, present)
        for data in inherited:
            entry = reducer.extract(data)
            if entry is not None:
                apply_entry(table, entry)
        cleared = (present.committed_id, limits.INTEGER_MAX)  # what is in the snapshot is not applied again
        for row in rows:
            *_, role, group, key, committed_id, position, value, _, _, _, _ = row
            if (committed_id, position) <= cleared:
                continue
            if role == RESET:
                table.clear()
                cleared = (committed_id, position)
            else:
                apply_entry(table, Entry(group, key, value))
        return self._finish(shelf, target, present, table, end, (messages, ignored))

    def _replay(self, shelf: Shelf, target: Target, rows: Iterator[Any]) -> Result:
        reducer = cast("Ordered", self.reducer)
        first = next(rows)
        present, inherited = self._begin(shelf, target, first[5])
        state = self._load(reducer, present)
        messages = ignored = end = 0
        older = ((*target, 0, number, 0, 0, data, 0, None, None, None) for number, data in enumerate(inherited))
        try:
            for row in itertools.chain(older, [first], rows):
                if 0 < row[3] <= present.committed_id:
                    continue
                state, known = self._step(reducer, state, target, row)
                messages += 1
                ignored += not known
                end = max(end, row[6])
        except ReducerFailed as error:
            raise _Fault(error.detail, present.committed_id) from None
        if not messages:
            return Result(*target, "unchanged", present.committed_id, 0, 0, 0, None)
        return self._finish(shelf, target, present, state, end, (messages, ignored))

    def _step(self, reducer: Ordered, state: Any, target: Target, row: Any) -> tuple[Any, bool]:
        _, _, _, committed_id, position, _, _, data, time_us, event_id, client_id, partitions = row
        try:
            event = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return state, False  # a number beyond all bounds, for example
        message = Message(
            event,
            committed_id,
            position,
            format_time(time_us),
            event_id,
            client_id,
            tuple(partitions or ()),
            target.name if target.kind == STREAM else None,
        )
        return reducer.step(state, message)

    def _load(self, reducer: Reducer, present: Present) -> Any:
        try:
            return reducer.begin(present.state)
        except (ReducerFailed, msgspec.MsgspecError) as error:
            raise _Fault(str(error), present.committed_id) from None


class _Fault(Exception):
    def __init__(self, detail: str, after: int) -> None:
        super().__init__(detail)
        self.after = after


def format_time(time_us: int) -> str:
    return datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC).isoformat(timespec="milliseconds")
