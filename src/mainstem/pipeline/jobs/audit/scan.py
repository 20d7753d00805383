"""Scans one range of the log for hashes of events, runs of streams, appends of producers, and violations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.errors import ValidationFailed
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.audit.findings import FindingsWriter
from mainstem.pipeline.log_reader import Selection, read_range
from mainstem.pipeline.read_ahead import read_ahead
from mainstem.streams.rules.content_types import is_json
from mainstem.sync.protocol.canonical import content_hashes

COLUMNS = (
    *("committed_id", "position", "kind", "stream", "offset", "producer_id", "partitions", "id"),
    *("content_type", "data", "committed_at"),
)
SAMPLE_OF = 1_000
HASHED_AT_ONCE = 1_000  # events that are Python objects at the same time, which the processor can cache
Numbers = np.ndarray[Any, np.dtype[np.int64]]

_decode_values = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_value = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(frozen=True)
class ScanOptions:
    """What all tasks of one audit have in common. It is pickled and sent to the workers."""

    server: ServerOptions
    folder: Path
    sample: int = SAMPLE_OF
    """How many of a thousand events are hashed. The committed id decides which, so that all tasks agree."""
    skew_us: int = 0
    """How far a clock may step back."""


class Span(msgspec.Struct, frozen=True):
    """The result of scanning a range. Its file is written last: a range that has one is not scanned again."""

    after: int
    until: int
    rows: int
    events: int
    bytes: int
    first_id: int
    first_at_us: int
    last_id: int
    last_at_us: int


def scan_range(options: ScanOptions, after: int, until: int) -> Span:
    """Scan `after` < committed_id <= `until`, and write the findings to compare."""
    name = f"{after:016d}-{until:016d}"
    done = options.folder / "spans" / f"{name}.json"
    if done.exists():
        return msgspec.json.decode(done.read_bytes(), type=Span)
    with ExitStack() as stack:
        kinds = ("events", "runs", "appends", "faults")
        found = {kind: stack.enter_context(FindingsWriter(options.folder, kind, name)) for kind in kinds}
        scanner = RangeScanner(options, found)
        pages = read_range(options.server, Selection(), COLUMNS, after, until, limits.LOG_READ_BYTES)
        for batch in read_ahead(pages):
            scanner.add(batch)
        scanner.finish()
    span = scanner.describe(after, until)
    replace_file(done, msgspec.json.encode(span))
    return span


@dataclass
class Run:
    """Messages of one stream that follow each other without a gap."""

    first_id: int
    first_start: int
    last_id: int
    last_end: int
    messages: int


class RangeScanner:
    """Scans the batches of one range, which come in order."""

    def __init__(self, options: ScanOptions, found: dict[str, FindingsWriter]) -> None:
        self.options = options
        self.found = found
        self.rows = self.events = self.bytes = 0
        self._first: tuple[int, int] | None = None
        self._last: tuple[int, int, int] = (0, -1, 0)
        self._runs: dict[tuple[str, int], Run] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._check_order(batch)
        self.rows += batch.num_rows
        self.bytes += pc.sum(pc.binary_length(batch.column("data"))).as_py()
        of_events = pc.equal(batch.column("kind"), "event")
        events = batch.filter(of_events)
        if events.num_rows:
            self._add_events(events)
        if events.num_rows < batch.num_rows:
            streams = batch.filter(pc.invert(of_events))
            self._check_json(streams)
            self._add_runs(streams)
            self._add_appends(streams)

    def finish(self) -> None:
        for key, run in self._runs.items():
            self._end_run(key, run)
        self._runs.clear()

    def describe(self, after: int, until: int) -> Span:
        first_id, first_at_us = self._first or (0, 0)
        last_id, _, last_at_us = self._last
        return Span(after, until, self.rows, self.events, self.bytes, first_id, first_at_us, last_id, last_at_us)

    def _add_violation(self, rule: str, committed_id: Any, name: str | None, detail: str) -> None:
        self.found["faults"].add(rule, int(committed_id), name, detail)

    # Order

    def _check_order(self, batch: pa.RecordBatch) -> None:
        ids = _numbers(batch.column("committed_id"))
        positions = _numbers(batch.column("position").cast(pa.int64()))
        times = _numbers(batch.column("committed_at").cast(pa.int64()))
        if self._first is None:
            self._first = int(ids[0]), int(times[0])
            self._last = (0, -1, int(times[0]))
        last_id, last_position, last_at = self._last
        ids_before = np.concatenate(([last_id], ids[:-1]))
        positions_before = np.concatenate(([last_position], positions[:-1]))
        times_before = np.concatenate(([last_at], times[:-1]))
        same = ids == ids_before
        expected = np.where(same, positions_before + 1, 0)
        for row in np.flatnonzero((ids < ids_before) | (positions != expected)):
            before = f"message {positions_before[row]} of {ids_before[row]}"
            self._add_violation("order", ids[row], None, f"message {positions[row]} of {ids[row]} comes after {before}")
        for row in np.flatnonzero(times < times_before - self.options.skew_us):
            back_s = (times_before[row] - times[row]) / 1e6
            self._add_violation(
                "time", ids[row], None, f"{ids[row]} was committed {back_s:.6f} s before {ids_before[row]}"
            )
        self._last = int(ids[-1]), int(positions[-1]), int(times[-1])

    # Events

    def _add_events(self, events: pa.RecordBatch) -> None:
        for number in events.filter(pc.is_null(events.column("id"))).column("committed_id").to_pylist():
            self._add_violation("json", number, None, f"the event with committed id {number} cannot be decoded")
        events = events.filter(pc.is_valid(events.column("id")))
        self.events += events.num_rows
        try:
            digests = self._hash_all(events)
        except ValidationFailed:
            digests = self._hash_each(events)
        columns = [events.column("id"), events.column("committed_id"), pa.array(digests, pa.string())]
        self.found["events"].add_batch(pa.RecordBatch.from_arrays(columns, schema=self.found["events"].schema))

    def _hash_all(self, events: pa.RecordBatch) -> list[str | None]:
        """Hash a whole batch, which takes most of an audit's time. Raise if an event has no canonical form."""
        wanted = _numbers(events.column("committed_id")) % SAMPLE_OF < self.options.sample
        chosen = events if wanted.all() else events.filter(pa.array(wanted))
        digests: list[str | None] = []
        for first in range(0, chosen.num_rows, HASHED_AT_ONCE):
            part = chosen.slice(first, HASHED_AT_ONCE)
            digests += content_hashes(_lists(part.column("partitions")), part.column("data").to_pylist())
        if chosen is events:
            return digests
        following = iter(digests)
        return [next(following) if of_sample else None for of_sample in wanted]

    def _hash_each(self, events: pa.RecordBatch) -> list[str | None]:
        digests: list[str | None] = []
        for row in range(events.num_rows):
            event = events.slice(row, 1)
            try:
                digests += self._hash_all(event)
            except ValidationFailed as error:
                digests.append(None)
                name = event.column("id")[0].as_py()
                number = event.column("committed_id")[0].as_py()
                self._add_violation("hash", number, name, f"event {name!r} has no canonical form: {error.detail}")
        return digests

    # Streams

    def _check_json(self, rows: pa.RecordBatch) -> None:
        flags = _json_flags(rows.column("content_type"))
        if not flags.any():
            return
        json_rows = rows if flags.all() else rows.filter(pa.array(flags))
        values = json_rows.column("data").to_pylist()
        try:
            if len(_decode_values(b"[%b]" % b",".join(values))) == len(values):
                return
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        for row, value in enumerate(values):
            try:
                _decode_value(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                number, stream = json_rows.column("committed_id")[row].as_py(), json_rows.column("stream")[row].as_py()
                self._add_violation("json", number, stream, f"a message of {number} in {stream!r} is not valid JSON")

    def _add_runs(self, rows: pa.RecordBatch) -> None:
        names = rows.column("stream").dictionary_encode()
        codes = _numbers(names.indices.cast(pa.int64()))
        read_seqs, starts = _parse_offsets(rows.column("offset"))
        sizes = _numbers(pc.binary_length(rows.column("data")).cast(pa.int64()))
        ends = starts + sizes + _json_flags(rows.column("content_type"))
        order = np.lexsort((read_seqs, codes))  # stable: rows of one stream stay in committed order
        codes, read_seqs, starts, ends = codes[order], read_seqs[order], starts[order], ends[order]
        ids = _numbers(rows.column("committed_id"))[order]
        broken = (codes[1:] != codes[:-1]) | (read_seqs[1:] != read_seqs[:-1]) | (starts[1:] != ends[:-1])
        firsts = np.concatenate(([0], np.flatnonzero(broken) + 1))
        lasts = np.concatenate((firsts[1:] - 1, [len(order) - 1]))
        paths = names.dictionary.to_pylist()
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            key = paths[codes[first]], int(read_seqs[first])
            run = Run(int(ids[first]), int(starts[first]), int(ids[last]), int(ends[last]), last - first + 1)
            self._join_run(key, run)
        if len(self._runs) > limits.AUDIT_RUNS_OPEN_MAX:
            self.finish()

    def _join_run(self, key: tuple[str, int], run: Run) -> None:
        known = self._runs.get(key)
        if known is not None and known.last_end == run.first_start:
            known.last_id, known.last_end = run.last_id, run.last_end
            known.messages += run.messages
            return
        if known is not None:
            self._end_run(key, known)
        self._runs[key] = run

    def _end_run(self, key: tuple[str, int], run: Run) -> None:
        self.found["runs"].add(*key, run.first_id, run.first_start, run.last_id, run.last_end, run.messages)

    def _add_appends(self, rows: pa.RecordBatch) -> None:
        """Count appends, not messages: only the first message of each append counts."""
        wanted = pc.and_(pc.equal(rows.column("position"), 0), pc.is_valid(rows.column("producer_id")))
        rows = rows.filter(wanted)
        if not rows.num_rows:
            return
        read_seqs, _ = _parse_offsets(rows.column("offset"))
        table = pa.table([rows.column("stream"), pa.array(read_seqs), rows.column("producer_id")], ["s", "l", "p"])
        counted = table.group_by(["s", "l", "p"]).aggregate([([], "count_all")]).combine_chunks()
        columns = [counted.column(name).combine_chunks() for name in ("s", "l", "p", "count_all")]
        self.found["appends"].add_batch(pa.RecordBatch.from_arrays(columns, schema=self.found["appends"].schema))


def _numbers(column: pa.Array) -> Numbers:
    numbers: Numbers = column.to_numpy(zero_copy_only=False)
    return numbers


def _lists(column: pa.Array) -> Iterator[list[str]]:
    """Yield a column of lists as Python lists. Via its flat values this is several times faster than to_pylist."""
    flat = column.flatten().to_pylist()
    first = 0
    for size in pc.list_value_length(column).to_pylist():
        yield flat[first : first + size]
        first += size


def _json_flags(content_types: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    encoded = content_types.dictionary_encode()
    flags = np.array([is_json(name) for name in encoded.dictionary.to_pylist()], np.bool_)
    found: np.ndarray[Any, np.dtype[np.bool_]] = flags[_numbers(encoded.indices.cast(pa.int64()))]
    return found


def _parse_offsets(offsets: pa.Array) -> tuple[Numbers, Numbers]:
    """Return the read_seq and the position of each offset: `Offset.parse` for a whole column."""
    read_seqs = pc.utf8_slice_codeunits(offsets, 0, 16).cast(pa.int64())
    starts = pc.utf8_slice_codeunits(offsets, 17, 33).cast(pa.int64())
    return _numbers(read_seqs), _numbers(starts)
