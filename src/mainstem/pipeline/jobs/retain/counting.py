"""Counts the events of partitions that have come since the last round: the server keeps counts of streams only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.pipeline.jobs.batches import to_batch
from mainstem.pipeline.jobs.context import JobContext
from mainstem.pipeline.jobs.ranges import map_ranges, split_range
from mainstem.pipeline.jobs.retain.policies import Policies
from mainstem.pipeline.jobs.targets import PARTITION
from mainstem.pipeline.log_reader import Selection, read_range

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.ranges import Transform

COUNTS = pa.schema([("name", pa.string()), ("messages", pa.int64()), ("size", pa.int64()), ("read", pa.int64())])
"""The counts of one task. The rows that it has read are in a row without a name."""


class EventCounts:
    """How many events of each partition are in a range of the log."""

    def __init__(self) -> None:
        self.messages: dict[str, int] = {}
        self.size: dict[str, int] = {}
        self.read = 0

    def add(self, name: str | None, messages: int, size: int, read: int) -> None:
        self.read += read
        if name is not None:
            self.messages[name] = self.messages.get(name, 0) + messages
            self.size[name] = self.size.get(name, 0) + size


def count_events(
    context: JobContext, policies: Policies, floors: Mapping[str, int], after: int, until: int
) -> EventCounts:
    """Count the events of `after` < committed_id <= `until` in each partition whose policy needs it, above its floor.

    A short range is counted here: starting Spark for it would take far longer.
    """
    counts = EventCounts()
    if after >= until:
        return counts
    measured = any(policy.kind == PARTITION and policy.max_bytes is not None for policy in policies.all)
    columns = ("committed_id", "partitions", *(["data"] if measured else []))
    selection = _select(policies)
    transform: Transform = partial(_count, policies, floors)
    if until - after <= limits.RETAIN_DRIVER_IDS:
        for batch in transform(read_range(context.server, selection, columns, after, until, limits.LOG_READ_BYTES)):
            for row in batch.to_pylist():
                counts.add(**row)
        return counts
    from mainstem.pipeline.spark.session import count_task_slots

    ranges = split_range(after, until, count_task_slots(context.spark))
    found = map_ranges(context, ranges, selection, columns, lambda: transform, COUNTS)
    for row in found.groupBy("name").sum("messages", "size", "read").collect():
        counts.add(*row)
    return counts


def _select(policies: Policies) -> Selection:
    """Name the partitions if the policies do, so that the server reads no others."""
    globs = {glob for policy in policies.all if policy.kind == PARTITION and policy.counted for glob in policy.globs}
    if any("*" in glob for glob in globs) or len(globs) > limits.EVENT_PARTITIONS_MAX:
        return Selection(kind="event")
    return Selection(partitions=tuple(sorted(globs)))


def _count(
    policies: Policies, floors: Mapping[str, int], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    counted = [policy.counted for policy in policies.all]
    counts = EventCounts()
    for batch in batches:
        sizes = pc.binary_length(batch.column("data")).to_pylist() if "data" in batch.schema.names else None
        ids, partitions = batch.column("committed_id").to_pylist(), batch.column("partitions").to_pylist()
        for number, names in enumerate(partitions):
            for name in names or ():
                policy = policies.find(PARTITION, name)
                if policy is not None and counted[policy] and ids[number] > floors.get(name, 0):
                    counts.add(name, 1, 0 if sizes is None else sizes[number], 0)
        counts.read += batch.num_rows
        if len(counts.messages) >= limits.COMBINED_KEYS_MAX:
            yield _encode(counts)
            counts = EventCounts()
    yield _encode(counts)


def _encode(counts: EventCounts) -> pa.RecordBatch:
    rows = [(name, messages, counts.size[name], 0) for name, messages in counts.messages.items()]
    return to_batch([*rows, (None, 0, 0, counts.read)], COUNTS)
