"""The work of Spark's workers for retention: they read what a policy can touch, find floors, and send them back."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import limits
from mainstem.pipeline.http_client import HttpClient, ServerOptions
from mainstem.pipeline.jobs.batches import TARGET_COLUMNS, to_batch
from mainstem.pipeline.jobs.retain.floors import FloorFinder, Record
from mainstem.pipeline.jobs.retain.planning import Group, Work, select_targets
from mainstem.pipeline.jobs.retain.policies import Policy
from mainstem.pipeline.jobs.snapshot_client import SnapshotClient, TargetGone
from mainstem.pipeline.jobs.targets import PARTITION, STREAM, Target
from mainstem.pipeline.log_reader import Selection, read_range
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset

COLUMNS = ("committed_id", "stream", "offset", "partitions", "content_type", "committed_at")
RESULTS = pa.schema(
    [
        *TARGET_COLUMNS,
        ("policy", pa.int32()),
        ("status", pa.string()),
        *((name, pa.int64()) for name in ("floor", "first", "messages", "size", "read")),
        ("detail", pa.string()),
        ("partitions", pa.list_(pa.string())),
    ]
)
REFUSED = frozenset({400, 404, 409, 410})
REQUEST_BYTES = limits.CONTROL_BODY_BYTES_MAX // 2


class Result(NamedTuple):
    """The outcome for one target; or, in a dry run, an event of several partitions (`shared`) that one would prune."""

    kind: str
    name: str
    read_seq: int
    policy: int
    status: str
    """pruned, unchanged, changed (another client has pruned it), held (forks read it), gone, failed, or shared."""
    floor: int
    """The newest committed id to prune."""
    first: int
    """No row that stays has a lower id than this."""
    messages: int = 0
    size: int = 0
    read: int = 0
    """Rows that were read for this target; those of a group are in its first result."""
    detail: str | None = None
    partitions: list[str] | None = None
    """Of a shared event: the partitions that must all prune it before the server erases it."""


class TargetRecord(NamedTuple):
    name: str
    read_seq: int
    record: Record
    partitions: list[str]


class Examined(NamedTuple):
    """What was found out about one target, before anything is sent."""

    work: Work
    finder: FloorFinder
    offset: str
    """For a stream, the offset of the first append that stays."""
    first: int


def iter_records(batch: pa.RecordBatch, kind: str) -> Iterator[TargetRecord]:
    """Yield the records of a batch, one for each partition of an event. All messages of one record are in one batch."""
    times = batch.column("committed_at").cast(pa.int64()).to_pylist()
    ids = batch.column("committed_id").to_pylist()
    sizes = _sizes(batch)
    if kind == PARTITION:
        for number, names in enumerate(batch.column("partitions").to_pylist()):
            record = Record(ids[number], times[number], 1, sizes[number])
            for name in names:
                yield TargetRecord(name, 0, record, names)
        return
    streams, offsets, types = (batch.column(name).to_pylist() for name in ("stream", "offset", "content_type"))
    number = 0
    while number < len(ids):
        end = number
        while end < len(ids) and ids[end] == ids[number]:
            end += 1
        offset = Offset.parse(offsets[number])
        size = sum(sizes[number:end]) + (end - number if is_json(types[number] or "") else 0)
        record = Record(ids[number], times[number], end - number, size, offset.position)
        yield TargetRecord(streams[number], offset.read_seq, record, [])
        number = end


def _sizes(batch: pa.RecordBatch) -> list[int]:
    """Return the sizes of the messages, or zeros if the data was not requested."""
    if "data" not in batch.schema.names:
        return [0] * batch.num_rows
    return cast("list[int]", pc.binary_length(batch.column("data")).to_pylist())


@dataclass(frozen=True)
class Pruner:
    """Prunes targets according to policies. It is pickled and sent to the workers."""

    server: ServerOptions
    policies: tuple[Policy, ...]
    now_us: int
    dry_run: bool
    measured: bool
    """Whether sizes are needed, and so the data of the messages."""
    page_bytes: int

    def prune(self, group: Group) -> Iterator[pa.RecordBatch]:
        """Read the targets of a group, prune them, and yield the results."""
        reader = _GroupReader(self, group)
        with HttpClient(self.server) as client:
            for shared in reader.read():
                yield to_batch(shared, RESULTS)
            request = _PruneRequest(client, self.dry_run)
            read = reader.rows
            for examined in reader.list_examined(client):
                request.add(examined, read)
                read = 0
                if request.full:
                    yield to_batch(request.send(), RESULTS)
            if request.pending:
                yield to_batch(request.send(), RESULTS)


class _GroupReader:
    """Reads the rows of a group in committed order, until nothing more of it can be pruned."""

    def __init__(self, pruner: Pruner, group: Group) -> None:
        self._pruner = pruner
        self._group = group
        self._works = {(work.target.name, work.target.read_seq): work for work in group.work}
        self._finders = {
            key: FloorFinder(pruner.policies[work.policy], work.messages, work.size, pruner.now_us, work.until)
            for key, work in self._works.items()
        }
        self._open = dict(self._works)
        self.rows = 0

    def read(self) -> Iterator[list[Result]]:
        """Read as far as necessary. In a dry run, yield the events of several partitions that one would prune."""
        after: int | None = self._group.after
        while after is not None and self._open:
            after = yield from self._read_open(after)

    def _read_open(self, after: int) -> Generator[list[Result], None, int | None]:
        """Read the targets that are still open. Once some of them are done, return the id after which to read on
        without them; return None at the end."""
        kind = self._group.work[0].target.kind
        columns = (*COLUMNS, "data") if self._pruner.measured else COLUMNS
        selection = select_targets(kind, self._open.values()) if self._group.named else self._group.selection
        until = max(work.until for work in self._open.values())
        for batch in read_range(self._pruner.server, selection, columns, after, until, self._pruner.page_bytes):
            self.rows += batch.num_rows
            before, shared, last = len(self._open), [], ("", 0)
            for found in iter_records(batch, kind):
                last = (found.name, found.read_seq)
                result = self._take(found)
                if result is not None:
                    shared.append(result)
            if shared:
                yield shared
            reached: int = batch.column("committed_id")[-1].as_py()
            self._open = {key: work for key, work in self._open.items() if work.until > reached}
            # A large append may continue in the next page, so its stream has to be done, too.
            if not self._open or (self._group.named and len(self._open) < before and last not in self._open):
                return reached
        return None

    def _take(self, found: TargetRecord) -> Result | None:
        key = (found.name, found.read_seq)
        work = self._open.get(key)
        if work is None or found.record.committed_id < work.first:
            return None
        if not self._finders[key].take(found.record) or work.forked:  # of a forked stream, one record tells enough
            del self._open[key]
            return None
        if not self._pruner.dry_run or len(found.partitions) < 2:
            return None
        record = found.record
        return Result(
            PARTITION, "", 0, work.policy, "shared", record.committed_id, 0, 1, record.size, 0, None, found.partitions
        )

    def list_examined(self, client: HttpClient) -> Iterator[Examined]:
        for key, work in self._works.items():
            finder = self._finders[key]
            kept, first = finder.first_kept, max(work.until + 1, work.first)
            position = 0
            if kept is not None:
                first, position = kept.committed_id, kept.start
            elif work.target.kind == STREAM:
                first, position = self._find_next(work, max(finder.floor, work.until))
            elif finder.floor:
                first = finder.floor + 1
            yield Examined(work, finder, str(Offset(work.target.read_seq, position)), first)

    def _find_next(self, work: Work, after: int) -> tuple[int, int]:
        """Return the id and the position of a stream's first append after an id."""
        selection = Selection(streams=(work.target.name,))
        rows = read_range(self._pruner.server, selection, COLUMNS, after, work.last, 1)
        for batch in rows:
            for found in iter_records(batch, STREAM):
                if (found.name, found.read_seq) == (work.target.name, work.target.read_seq):
                    return found.record.committed_id, found.record.start
        return after + 1, 0  # the stream was deleted meanwhile


class _PruneRequest:
    """Collects floors, and sends them to the server in bounded requests."""

    def __init__(self, client: HttpClient, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run
        self._pending: list[tuple[Result, str]] = []
        self._size = 0

    def add(self, examined: Examined, read: int) -> None:
        self._pending.append((self._judge(examined, read), examined.offset))
        self._size += len(examined.work.target.name.encode()) * 6 + 64  # JSON may escape a character

    def _judge(self, examined: Examined, read: int) -> Result:
        """Return what to do with a target, if nobody else has pruned or deleted it since its rows were counted."""
        work, finder = examined.work, examined.finder
        found = Result(*work.target, work.policy, "unchanged", 0, examined.first, read=read)
        if not finder.floor:
            return found
        if work.forked:
            return found._replace(status="held", first=work.first)
        try:
            stored = SnapshotClient(self._client).fetch(work.target, whole=False)
        except TargetGone:
            return found._replace(status="gone")
        if stored.floor != work.floor:
            return found._replace(status="changed", first=work.first)
        return found._replace(status="pruned", floor=finder.floor, messages=finder.messages, size=finder.size)

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    @property
    def full(self) -> bool:
        return len(self._pending) >= limits.FLOORS_MAX or self._size >= REQUEST_BYTES

    def send(self) -> list[Result]:
        """Send the collected floors, and return the result of each target."""
        pending, self._pending, self._size = self._pending, [], 0
        wanted = [one for one in pending if one[0].status == "pruned"]
        if not wanted or self._dry_run:
            return [result for result, _ in pending]
        refused = self._post(wanted) is not None
        # One floor may be refused, for example because its stream was just deleted: send the others one by one.
        results = {id(one[0]): self._prune_one(one) if refused else one[0] for one in wanted}
        return [self._check_stream(results.get(id(result), result), offset) for result, offset in pending]

    def _check_stream(self, result: Result, offset: str) -> Result:
        """Return what was really pruned of a stream: the server keeps what its forks read, without an error."""
        if result.kind != STREAM or result.status != "pruned":
            return result
        try:
            stored = SnapshotClient(self._client).fetch(Target(*result[:3]), whole=False)
        except TargetGone:
            return result._replace(status="gone", messages=0, size=0)
        if stored.floor >= Offset.parse(offset).position:
            return result
        return result._replace(status="held", messages=0, size=0)

    def _prune_one(self, one: tuple[Result, str]) -> Result:
        refusal = self._post([one])
        if refusal is None:
            return one[0]
        status, detail = refusal
        gone = status in (404, 410) or (status == 400 and one[0].kind == STREAM)
        return one[0]._replace(status="gone" if gone else "failed", messages=0, size=0, detail=detail)

    def _post(self, wanted: list[tuple[Result, str]]) -> tuple[int, str] | None:
        """Return None if the server has accepted all floors, or else its status and reason."""
        body = {
            "floors": {result.name: result.floor for result, _ in wanted if result.kind == PARTITION},
            "streams": {result.name: offset for result, offset in wanted if result.kind == STREAM},
        }
        reply = self._client.request("POST", "/v1/prune", body=msgspec.json.encode(body), allowed=REFUSED)
        return None if reply.status < 400 else (reply.status, str(reply.problem.get("detail", "")))
