"""The targets of a job: the partitions and streams that its globs select, and their rows of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.globs import matches
from mainstem.pipeline.option_checks import check_globs
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset

if TYPE_CHECKING:
    import pyarrow as pa

    from mainstem.pipeline.log_reader import Selection

PARTITION, STREAM = "partition", "stream"


class Target(NamedTuple):
    kind: str
    name: str
    read_seq: int = 0
    """Tells apart the streams that had this path one after another (`Offset.read_seq`); 0 for partitions."""


class TargetRow(NamedTuple):
    """One message of one target. An event in several partitions is one row for each of them."""

    target: Target
    committed_id: int
    position: int
    start: int
    end: int
    """The positions at which a stream's message begins and ends; 0 for events."""
    data: bytes
    row_number: int
    """Its index in the batch."""


@dataclass(frozen=True)
class TargetSelector:
    """Selects partitions and streams by globs. `only` restricts the selection further."""

    partitions: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    only: frozenset[tuple[str, str]] | None = None

    def check(self) -> None:
        if not self.partitions and not self.streams:
            raise BadOption(
                "choose partitions or streams with globs, like --partitions 'room-*' or --streams 'orders/**'"
            )
        check_globs("--partitions", self.partitions)
        check_globs("--streams", self.streams)

    def matches(self, kind: str, name: str) -> bool:
        patterns = self.partitions if kind == PARTITION else self.streams
        if self.only is not None and (kind, name) not in self.only:
            return False
        return any(matches(pattern, name) for pattern in patterns)

    def selection(self) -> Selection:
        """Return the part of the selection that the server can apply."""
        from mainstem.pipeline.log_reader import Selection

        if not self.partitions:
            short = sum(len(quote(pattern)) for pattern in self.streams) <= limits.PUSHED_BYTES_MAX
            return Selection(streams=self.streams) if short else Selection(kind="stream")
        return Selection() if self.streams else Selection(kind="event")


COLUMNS = ("committed_id", "position", "stream", "offset", "partitions", "content_type", "data")


class TargetRouter:
    """Assigns each row of the log to its targets."""

    def __init__(self, selector: TargetSelector, *, json_only: bool) -> None:
        self._selector = selector
        self._json_only = json_only
        self._known: dict[tuple[str, str], bool] = {}

    def route(self, batch: pa.RecordBatch) -> Iterator[TargetRow]:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name in COLUMNS}
        sizes = columns.get("data") or [b""] * batch.num_rows
        places = zip(columns["committed_id"], columns["position"], columns["stream"], sizes, strict=True)
        for index, (committed_id, position, stream, data) in enumerate(places):
            if stream is None:
                for name in columns["partitions"][index]:
                    if self._matches(PARTITION, name):
                        yield TargetRow(Target(PARTITION, name), committed_id, position, 0, 0, data, index)
            elif self._matches(STREAM, stream):
                in_json = is_json(columns["content_type"][index] or "")
                if in_json or not self._json_only:
                    offset = Offset.parse(columns["offset"][index])
                    end = offset.position + len(data) + in_json  # a comma follows each JSON message
                    target = Target(STREAM, stream, offset.read_seq)
                    yield TargetRow(target, committed_id, position, offset.position, end, data, index)

    def _matches(self, kind: str, name: str) -> bool:
        known = self._known.get((kind, name))
        if known is None:
            if len(self._known) >= limits.TARGETS_KNOWN_MAX:
                self._known.clear()
            known = self._known[kind, name] = self._selector.matches(kind, name)
        return known
