"""The work of Spark's workers for retention: they extract records per target from the log, and send floors back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.batches import TARGET_COLUMNS, iter_rows, to_batch
from mainstem.pipeline.jobs.retain.policies import Policies, Policy
from mainstem.pipeline.jobs.snapshot_client import SnapshotClient, TargetGone
from mainstem.pipeline.jobs.targets import PARTITION, STREAM, Target
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset

_RECORD_FIELDS = ("committed_at", "messages", "size", "start", "shares")
RECORDS = pa.schema(
    [*TARGET_COLUMNS, ("policy", pa.int32()), ("committed_id", pa.int64()), *((n, pa.int64()) for n in _RECORD_FIELDS)]
)
"""One row per record and target. `shares` is the number of partitions of an event."""
_FLOOR_COLUMNS = [("policy", pa.int32()), ("status", pa.string()), ("floor", pa.int64()), ("reached", pa.int64())]
FLOORS = pa.schema(
    [*TARGET_COLUMNS, *_FLOOR_COLUMNS, ("messages", pa.int64()), ("size", pa.int64()), ("detail", pa.string())]
)
REFUSED = frozenset({400, 404, 409, 410})
REQUEST_BYTES = limits.CONTROL_BODY_BYTES_MAX // 2


class Floor(NamedTuple):
    """The floor of one target, and its outcome."""

    kind: str
    name: str
    read_seq: int
    policy: int
    status: str
    """pruned, unchanged, held (forks read it), gone, or failed."""
    floor: int
    """The newest committed id to prune."""
    reached: int
    """The newest committed id that is pruned, by this round or earlier."""
    messages: int
    size: int
    detail: str | None


def extract_records(policies: Policies, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records that any policy applies to. All messages of one record are in one batch."""
    for batch in batches:
        times = batch.column("committed_at").cast(pa.int64()).to_pylist()
        names = ("committed_id", "stream", "offset", "partitions", "content_type")
        ids, streams, offsets, partitions, types = (batch.column(name).to_pylist() for name in names)
        sizes = _sizes(batch)
        rows: list[tuple[Any, ...]] = []
        number = 0
        while number < len(ids):
            stream, committed_id = streams[number], ids[number]
            if stream is None:
                rows += _event_records(policies, partitions[number], committed_id, times[number], sizes[number])
                number += 1
                continue
            end = number
            while end < len(ids) and ids[end] == committed_id:
                end += 1
            policy = policies.find(STREAM, stream)
            if policy is not None:
                offset = Offset.parse(offsets[number])
                size = sum(sizes[number:end]) + (end - number if is_json(types[number] or "") else 0)
                fields = (times[number], end - number, size, offset.position, 1)
                rows.append((STREAM, stream, offset.read_seq, policy, committed_id, *fields))
            number = end
        if rows:
            yield to_batch(rows, RECORDS)


def _event_records(
    policies: Policies, names: list[str], committed_id: int, time_us: int, size: int
) -> list[tuple[Any, ...]]:
    found = [(name, policies.find(PARTITION, name)) for name in names]
    fields = (time_us, 1, size, 0, len(names))
    return [(PARTITION, name, 0, policy, committed_id, *fields) for name, policy in found if policy is not None]


def _sizes(batch: pa.RecordBatch) -> list[int]:
    """Return the sizes of the messages, or zeros if the data was not requested."""
    if "data" not in batch.schema.names:
        return [0] * batch.num_rows
    import pyarrow.compute as pc

    return cast("list[int]", pc.binary_length(batch.column("data")).to_pylist())


@dataclass(frozen=True)
class Pruner:
    """Prunes targets according to policies. It is pickled and sent to the workers."""

    server: ServerOptions
    policies: tuple[Policy, ...]
    archived: dict[str, int]
    """The committed id that each archive has reached."""
    dry_run: bool

    def prune(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Prune the given rows, which no bound keeps. They come target by target, in committed order."""
        with HttpClient(self.server) as client:
            request = _PruneRequest(client, self.dry_run)
            for key, rows in itertools.groupby(iter_rows(batches), lambda row: row[:3]):
                target = Target(*cast("tuple[str, str, int]", key))
                request.add(target, *self._find_floor(SnapshotClient(client), target, rows))
                if request.full:
                    yield to_batch(request.send(), FLOORS)
            if request.pending:
                yield to_batch(request.send(), FLOORS)

    def _find_floor(self, snapshots: SnapshotClient, target: Target, rows: Iterator[Any]) -> tuple[Floor, str]:
        """Return the floor, and for a stream the offset after it."""
        first = next(rows)
        number = first[3]
        policy = self.policies[number]
        try:
            stored = snapshots.fetch(target, whole=False)
        except TargetGone:
            return Floor(*target, number, "gone", 0, 0, 0, 0, None), ""
        cap = limits.INTEGER_MAX
        if policy.require_snapshot:
            cap = stored.committed_id if stored.state is not None else 0
        if policy.require_archive is not None:
            cap = min(cap, self.archived[policy.require_archive])
        floor = reached = messages = size = following = 0
        for row in itertools.chain([first], rows):
            committed_id, _, row_messages, row_size, start, row_following = row[4:10]
            if committed_id > cap:
                break
            floor, following = committed_id, row_following
            if (start if target.kind == STREAM else committed_id - 1) >= stored.floor:
                messages += row_messages
                size += row_size
        reached = max(floor, stored.floor) if target.kind == PARTITION else floor
        status = "pruned" if messages else "unchanged"
        offset = str(Offset(target.read_seq, following)) if target.kind == STREAM else ""
        return Floor(*target, number, status, floor, reached, messages, size, None), offset


class _PruneRequest:
    """Collects floors, and sends them to the server in bounded requests."""

    def __init__(self, client: HttpClient, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run
        self._pending: list[tuple[Floor, str]] = []
        self._size = 0

    def add(self, target: Target, floor: Floor, offset: str) -> None:
        self._pending.append((floor, offset))
        self._size += len(target.name.encode()) * 6 + 64  # JSON may escape a character

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def full(self) -> bool:
        return len(self._pending) >= limits.FLOORS_MAX or self._size >= REQUEST_BYTES

    def send(self) -> list[Floor]:
        """Send the collected floors, and return the result of each target."""
        pending, self._pending, self._size = self._pending, [], 0
        wanted = [one for one in pending if one[0].status == "pruned"]
        if not wanted or self._dry_run:
            return [floor for floor, _ in pending]
        refused = self._post(wanted) is not None
        # One floor may be refused, for example because its stream was just deleted: send the others one by one.
        results = {id(one[0]): self._prune_one(one) if refused else one[0] for one in wanted}
        return [self._check_stream(results.get(id(floor), floor), offset) for floor, offset in pending]

    def _check_stream(self, floor: Floor, offset: str) -> Floor:
        """Return what was really pruned of a stream: the server keeps what its forks read, without an error."""
        if floor.kind != STREAM or floor.status != "pruned":
            return floor
        try:
            stored = SnapshotClient(self._client).fetch(Target(floor.kind, floor.name, floor.read_seq), whole=False)
        except TargetGone:
            return floor._replace(status="gone", messages=0, size=0)
        if stored.floor >= Offset.parse(offset).position:
            return floor
        return floor._replace(status="held", messages=0, size=0)

    def _prune_one(self, one: tuple[Floor, str]) -> Floor:
        refusal = self._post([one])
        if refusal is None:
            return one[0]
        status, detail = refusal
        gone = status in (404, 410) or (status == 400 and one[0].kind == STREAM)
        return one[0]._replace(status="gone" if gone else "failed", messages=0, size=0, detail=detail)

    def _post(self, wanted: list[tuple[Floor, str]]) -> tuple[int, str] | None:
        """Return None if the server has accepted all floors, or else its status and reason."""
        body = {
            "floors": {floor.name: floor.floor for floor, _ in wanted if floor.kind == PARTITION},
            "streams": {floor.name: offset for floor, offset in wanted if floor.kind == STREAM},
        }
        reply = self._client.request("POST", "/v1/prune", body=msgspec.json.encode(body), allowed=REFUSED)
        return None if reply.status < 400 else (reply.status, str(reply.problem.get("detail", "")))
