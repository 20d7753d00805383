"""The work of Spark's workers for a snapshot: they combine or sort rows, and fold them onto the stored state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.errors import ReducerFailed
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.batches import TARGET_COLUMNS, iter_rows, to_batch
from mainstem.pipeline.jobs.snapshot.reducers import Entry, Keyed, Message, Ordered, Reducer, Reset, apply_entry
from mainstem.pipeline.jobs.snapshot_client import (
    SnapshotClient,
    SnapshotRefused,
    StoredSnapshot,
    Superseded,
    TargetGone,
)
from mainstem.pipeline.jobs.targets import STREAM, Target, TargetRouter, TargetRow, TargetSelector
from mainstem.timestamps import format_time

POSITION_COLUMNS = [("committed_id", pa.int64()), ("position", pa.int32())]
SPAN_COLUMNS = [("first", pa.int64()), ("end", pa.int64())]
COUNT_COLUMNS = [("messages", pa.int64()), ("ignored", pa.int64())]

TOTALS, RESET, ENTRY = 0, 1, 2
"""Roles of a combined row, in the order in which the rows of a target are folded."""
_ENTRY_COLUMNS = [
    ("role", pa.int32()),
    ("group", pa.string()),
    ("key", pa.string()),
    *POSITION_COLUMNS,
    ("value", pa.binary()),
]
COMBINED = pa.schema([*TARGET_COLUMNS, *_ENTRY_COLUMNS, *COUNT_COLUMNS, *SPAN_COLUMNS])
_EVENT_COLUMNS = [("id", pa.string()), ("client_id", pa.string()), ("partitions", pa.list_(pa.string()))]
MESSAGES = pa.schema(
    [
        *TARGET_COLUMNS,
        *POSITION_COLUMNS,
        *SPAN_COLUMNS,
        ("data", pa.binary()),
        ("committed_at", pa.int64()),
        *_EVENT_COLUMNS,
    ]
)
RESULTS = pa.schema(
    [*TARGET_COLUMNS, ("status", pa.string()), ("after", pa.int64()), *COUNT_COLUMNS, ("size", pa.int64())]
)
RESULTS = RESULTS.append(pa.field("detail", pa.string()))


class Result(NamedTuple):
    """The outcome for one target."""

    kind: str
    name: str
    read_seq: int
    status: str
    """put, unchanged, passed, gone, or failed."""
    after: int
    """The committed id of its previous snapshot."""
    messages: int
    ignored: int
    size: int
    detail: str | None


# Before the shuffle


class Combiner:
    """Keeps the newest entry of each key that a worker has read. Rows come in committed order, so the last one wins."""

    def __init__(self, reducer: Keyed, selector: TargetSelector) -> None:
        self._extract = reducer.extract
        self._route = TargetRouter(selector, json_only=True).route
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[tuple[Target, str | None, str | None], tuple[int, int, bytes | None]] = {}
        self._totals: dict[Target, list[int]] = {}
        self._size = 0

    def combine(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in self._route(batch):
                self._add(row)
                if len(self._entries) >= limits.COMBINED_KEYS_MAX or self._size >= limits.COMBINED_BYTES_MAX:
                    yield self._flush()
        if self._totals:
            yield self._flush()

    def _add(self, row: TargetRow) -> None:
        entry = self._extract(row.data)
        totals = self._totals.get(row.target)
        if totals is None:
            totals = self._totals[row.target] = [row.committed_id, row.position, 0, 0, row.start, row.end]
        totals[0], totals[1], totals[5] = row.committed_id, row.position, row.end
        totals[2] += 1
        if isinstance(entry, Entry):
            self._entries[row.target, entry.group, entry.key] = (row.committed_id, row.position, entry.value)
            self._size += len(row.data)
        elif isinstance(entry, Reset):
            self._entries[row.target, None, None] = (row.committed_id, row.position, None)
        else:
            totals[3] += 1

    def _flush(self) -> pa.RecordBatch:
        rows: list[tuple[Any, ...]] = [
            (*target, TOTALS, None, None, totals[0], totals[1], None, *totals[2:])
            for target, totals in self._totals.items()
        ]
        rows += [
            (*target, RESET if key is None else ENTRY, group, key, *position, value, 0, 0, None, None)
            for (target, group, key), (*position, value) in self._entries.items()
        ]
        self._clear()
        return to_batch(rows, COMBINED)


def extract_messages(selector: TargetSelector, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each message with its target and the fields of a `Message`."""
    router = TargetRouter(selector, json_only=True)
    for batch in batches:
        times = batch.column("committed_at").cast(pa.int64()).to_pylist()
        ids, clients, partitions = (batch.column(name).to_pylist() for name, _ in _EVENT_COLUMNS)
        rows = [
            (
                *(*row.target, row.committed_id, row.position, row.start, row.end, row.data),
                *(times[row.row_number], ids[row.row_number], clients[row.row_number], partitions[row.row_number]),
            )
            for row in router.route(batch)
        ]
        if rows:
            yield to_batch(rows, MESSAGES)


# After the shuffle: one worker receives all rows of a target, one after another


@dataclass(frozen=True)
class Fold:
    """Folds targets and stores their snapshots. It is pickled and sent to the workers."""

    server: ServerOptions
    reducer: Reducer
    until: int
    partial: bool
    """Whether to fold what is left of a history that was pruned without a snapshot."""
    dry_run: bool

    def fold_combined(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._fold(batches, self._fold_entries)

    def fold_ordered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self._fold(batches, self._fold_messages)

    def _fold(
        self, batches: Iterable[pa.RecordBatch], fold: Callable[[SnapshotClient, Target, Iterator[Any]], Result]
    ) -> Iterator[pa.RecordBatch]:
        results: list[Result] = []
        with HttpClient(self.server) as client:
            snapshots = SnapshotClient(client)
            for key, rows in itertools.groupby(iter_rows(batches), lambda row: row[:3]):
                results.append(self._fold_target(snapshots, Target(*cast("tuple[str, str, int]", key)), rows, fold))
                if len(results) >= limits.SCAN_PAGE:
                    yield to_batch(results, RESULTS)
                    results.clear()
        if results:
            yield to_batch(results, RESULTS)

    def _fold_target(
        self,
        snapshots: SnapshotClient,
        target: Target,
        rows: Iterator[Any],
        fold: Callable[[SnapshotClient, Target, Iterator[Any]], Result],
    ) -> Result:
        """Fold one target. A target that cannot be folded does not stop the others."""
        try:
            return fold(snapshots, target, rows)
        except TargetGone:
            return Result(*target, "gone", 0, 0, 0, 0, None)
        except Superseded:
            return Result(*target, "passed", 0, 0, 0, 0, None)
        except _FoldFailed as error:
            return Result(*target, "failed", error.after, 0, 0, 0, str(error))

    def _get_stored(
        self, snapshots: SnapshotClient, target: Target, first: int
    ) -> tuple[StoredSnapshot, Iterator[bytes]]:
        """Return the stored snapshot, and the messages that a fork without one has from its source."""
        stored = snapshots.fetch(target)
        if stored.truncated and not self.partial:
            what = "committed id" if target.kind != STREAM else "position"
            raise _FoldFailed(
                f"its history up to {what} {stored.floor} was pruned without a snapshot; --partial folds what is left",
                stored.committed_id,
            )
        start = max(stored.position, stored.floor)
        missing = target.kind == STREAM and stored.state is None and start < first
        return stored, snapshots.read_inherited(target, start, first) if missing else iter(())

    def _put(
        self,
        snapshots: SnapshotClient,
        target: Target,
        stored: StoredSnapshot,
        state: Any,
        end: int,
        counts: tuple[int, int],
    ) -> Result:
        try:
            encoded = self.reducer.encode(state)
            if not self.dry_run:
                snapshots.put(target, self.until, end, encoded)
        except (SnapshotRefused, ReducerFailed) as error:
            raise _FoldFailed(str(error), stored.committed_id) from None
        return Result(*target, "put", stored.committed_id, *counts, len(encoded), None)

    def _fold_entries(self, snapshots: SnapshotClient, target: Target, rows: Iterator[Any]) -> Result:
        reducer = cast("Keyed", self.reducer)
        *_, last_id, _, _, messages, ignored, first, end = next(rows)
        stored, inherited = self._get_stored(snapshots, target, first)
        if last_id <= stored.committed_id:
            return Result(*target, "unchanged", stored.committed_id, 0, 0, 0, None)
        table = self._load(reducer, stored)
        for data in inherited:
            entry = reducer.extract(data)
            if entry is not None:
                apply_entry(table, entry)
        cleared = (stored.committed_id, limits.INTEGER_MAX)  # skip what the snapshot contains
        for row in rows:
            *_, role, group, key, committed_id, position, value, _, _, _, _ = row
            if (committed_id, position) <= cleared:
                continue
            if role == RESET:
                table.clear()
                cleared = (committed_id, position)
            else:
                apply_entry(table, Entry(group, key, value))
        return self._put(snapshots, target, stored, table, end, (messages, ignored))

    def _fold_messages(self, snapshots: SnapshotClient, target: Target, rows: Iterator[Any]) -> Result:
        reducer = cast("Ordered", self.reducer)
        first = next(rows)
        stored, inherited = self._get_stored(snapshots, target, first[5])
        state = self._load(reducer, stored)
        messages = ignored = end = 0
        older = ((*target, 0, number, 0, 0, data, 0, None, None, None) for number, data in enumerate(inherited))
        try:
            for row in itertools.chain(older, [first], rows):
                if 0 < row[3] <= stored.committed_id:
                    continue
                state, known = self._step(reducer, state, target, row)
                messages += 1
                ignored += not known
                end = max(end, row[6])
        except ReducerFailed as error:
            raise _FoldFailed(error.detail, stored.committed_id) from None
        if not messages:
            return Result(*target, "unchanged", stored.committed_id, 0, 0, 0, None)
        return self._put(snapshots, target, stored, state, end, (messages, ignored))

    def _step(self, reducer: Ordered, state: Any, target: Target, row: Any) -> tuple[Any, bool]:
        _, _, _, committed_id, position, _, _, data, time_us, event_id, client_id, partitions = row
        try:
            event = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return state, False  # for example a number that is out of range
        message = Message(
            event,
            committed_id,
            position,
            format_time(time_us).replace("Z", "+00:00"),  # reducer functions may keep it in their states
            event_id,
            client_id,
            tuple(partitions or ()),
            target.name if target.kind == STREAM else None,
        )
        return reducer.step(state, message)

    def _load(self, reducer: Reducer, stored: StoredSnapshot) -> Any:
        try:
            return reducer.begin(stored.state)
        except ReducerFailed as error:
            raise _FoldFailed(str(error), stored.committed_id) from None
        except msgspec.MsgspecError:
            raise _FoldFailed("its present snapshot is not valid JSON", stored.committed_id) from None


class _FoldFailed(Exception):
    def __init__(self, detail: str, after: int) -> None:
        super().__init__(detail)
        self.after = after
