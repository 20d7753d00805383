"""What workers do for retention: records of each target out of the log's rows, and floors back to the server."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec
import pyarrow as pa

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.retain.policies import Policies, Policy
from mainstem.pipeline.jobs.snapshot.folds import TARGET, to_batch
from mainstem.pipeline.jobs.snapshot.shelf import Shelf, TargetGone
from mainstem.pipeline.jobs.targets import PARTITION, STREAM, Target, rows_of
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset

FACTS = ("committed_at", "messages", "size", "start", "shares")
RECORDS = pa.schema([*TARGET, ("policy", pa.int32()), ("committed_id", pa.int64()), *((n, pa.int64()) for n in FACTS)])
"""One row a record and target. `shares`: to how many partitions an event belongs."""
_JUDGED = [("policy", pa.int32()), ("status", pa.string()), ("floor", pa.int64()), ("reached", pa.int64())]
FLOORS = pa.schema([*TARGET, *_JUDGED, ("messages", pa.int64()), ("size", pa.int64()), ("detail", pa.string())])
REFUSED = frozenset({400, 404, 409, 410})
REQUEST_BYTES = limits.CONTROL_BODY_BYTES_MAX // 2


class Floor(NamedTuple):
    """What became of one target."""

    kind: str
    name: str
    life: int
    policy: int
    status: str
    """pruned, unchanged, held (forks read it), gone, or fault."""
    floor: int
    """The newest id that goes."""
    reached: int
    """The newest id that is given up now, by this or before."""
    messages: int
    size: int
    detail: str | None


def take_records(policies: Policies, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records that any policy looks at. All messages of one record are in one batch."""
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
                rows += _shares(policies, partitions[number], committed_id, times[number], sizes[number])
                number += 1
                continue
            end = number
            while end < len(ids) and ids[end] == committed_id:
                end += 1
            policy = policies.find(STREAM, stream)
            if policy is not None:
                offset = Offset.parse(offsets[number])
                size = sum(sizes[number:end]) + (end - number if is_json(types[number] or "") else 0)
                facts = (times[number], end - number, size, offset.position, 1)
                rows.append((STREAM, stream, offset.read_seq, policy, committed_id, *facts))
            number = end
        if rows:
            yield to_batch(rows, RECORDS)


def _shares(policies: Policies, names: list[str], committed_id: int, time_us: int, size: int) -> list[tuple[Any, ...]]:
    found = [(name, policies.find(PARTITION, name)) for name in names]
    facts = (time_us, 1, size, 0, len(names))
    return [(PARTITION, name, 0, policy, committed_id, *facts) for name, policy in found if policy is not None]


def _sizes(batch: pa.RecordBatch) -> list[int]:
    """0 if nobody has asked for the data."""
    if "data" not in batch.schema.names:
        return [0] * batch.num_rows
    import pyarrow.compute as pc

    return cast("list[int]", pc.binary_length(batch.column("data")).to_pylist())


@dataclass(frozen=True)
class Pruning:
    """What holds targets back, and whether anything is done. It travels to the workers."""

    server: ServerOptions
    policies: tuple[Policy, ...]
    archived: dict[str, int]
    """Up to which id each archive has the log."""
    dry_run: bool

    def prune(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of what no bound keeps, target after target, each in committed order."""
        with HttpClient(self.server) as client:
            request = _Request(client, self.dry_run)
            for place, rows in itertools.groupby(rows_of(batches), lambda row: row[:3]):
                target = Target(*cast("tuple[str, str, int]", place))
                request.add(target, *self._judge(Shelf(client), target, rows))
                if request.full:
                    yield to_batch(request.send(), FLOORS)
            if request.waits:
                yield to_batch(request.send(), FLOORS)

    def _judge(self, shelf: Shelf, target: Target, rows: Iterator[Any]) -> tuple[Floor, str]:
        """The floor, and for a stream the offset behind it."""
        first = next(rows)
        number = first[3]
        policy = self.policies[number]
        try:
            present = shelf.fetch(target, whole=False)
        except TargetGone:
            return Floor(*target, number, "gone", 0, 0, 0, 0, None), ""
        cap = limits.INTEGER_MAX
        if policy.require_snapshot:
            cap = present.committed_id if present.state is not None else 0
        if policy.require_archive is not None:
            cap = min(cap, self.archived[policy.require_archive])
        floor = reached = messages = size = following = 0
        for row in itertools.chain([first], rows):
            committed_id, _, row_messages, row_size, start, behind = row[4:10]
            if committed_id > cap:
                break
            floor, following = committed_id, behind
            if (start if target.kind == STREAM else committed_id - 1) >= present.given_up:
                messages += row_messages
                size += row_size
        reached = max(floor, present.given_up) if target.kind == PARTITION else floor
        status = "pruned" if messages else "unchanged"
        offset = str(Offset(target.life, following)) if target.kind == STREAM else ""
        return Floor(*target, number, status, floor, reached, messages, size, None), offset


class _Request:
    """Floors on their way to the server, some at a time."""

    def __init__(self, client: HttpClient, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run
        self._waiting: list[tuple[Floor, str]] = []
        self._size = 0

    def add(self, target: Target, floor: Floor, offset: str) -> None:
        self._waiting.append((floor, offset))
        self._size += len(target.name.encode()) * 6 + 64  # a character may be escaped

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= limits.FLOORS_MAX or self._size >= REQUEST_BYTES

    def send(self) -> list[Floor]:
        """Give up what was added; what became of each."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        wanted = [one for one in waiting if one[0].status == "pruned"]
        if not wanted or self._dry_run:
            return [floor for floor, _ in waiting]
        refused = self._post(wanted) is not None
        # One of them cannot be, for example since its stream was just deleted: the others still can.
        became = {id(one[0]): self._give_up(one) if refused else one[0] for one in wanted}
        return [self._look(became.get(id(floor), floor), offset) for floor, offset in waiting]

    def _look(self, floor: Floor, offset: str) -> Floor:
        """What a stream has really given up: the server keeps what forks of it read, and does not call that a fault."""
        if floor.kind != STREAM or floor.status != "pruned":
            return floor
        try:
            present = Shelf(self._client).fetch(Target(floor.kind, floor.name, floor.life), whole=False)
        except TargetGone:
            return floor._replace(status="gone", messages=0, size=0)
        if present.given_up >= Offset.parse(offset).position:
            return floor
        return floor._replace(status="held", messages=0, size=0)

    def _give_up(self, one: tuple[Floor, str]) -> Floor:
        refusal = self._post([one])
        if refusal is None:
            return one[0]
        status, detail = refusal
        gone = status in (404, 410) or (status == 400 and one[0].kind == STREAM)
        return one[0]._replace(status="gone" if gone else "fault", messages=0, size=0, detail=detail)

    def _post(self, wanted: list[tuple[Floor, str]]) -> tuple[int, str] | None:
        """None if all is given up, else the status and what the server says."""
        body = {
            "floors": {floor.name: floor.floor for floor, _ in wanted if floor.kind == PARTITION},
            "streams": {floor.name: offset for floor, offset in wanted if floor.kind == STREAM},
        }
        reply = self._client.request("POST", "/v1/prune", body=msgspec.json.encode(body), allowed=REFUSED)
        return None if reply.status < 400 else (reply.status, str(reply.problem.get("detail", "")))
