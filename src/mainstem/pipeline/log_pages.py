"""Reads a range of the log as Arrow batches, page by page. A page that was cut off is asked for again as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.errors import BadOption, HistoryLost, OtherLog
from mainstem.pipeline.datasource.typed import JsonColumns
from mainstem.pipeline.http_client import HttpClient, ServerOptions

ARROW = "application/vnd.apache.arrow.stream"
JSON_TYPE = r"^(?i)application/json *(;.*)?$"

# name -> Spark's type, in the order in which the server sends them
LOG_COLUMNS = {
    "committed_id": "BIGINT NOT NULL",
    "position": "INT NOT NULL",
    "kind": "STRING NOT NULL",
    "stream": "STRING",
    "offset": "STRING",
    "producer_id": "STRING",
    "partitions": "ARRAY<STRING>",
    "id": "STRING",
    "client_id": "STRING",
    "content_type": "STRING",
    "data": "BINARY NOT NULL",
    "committed_at": "TIMESTAMP NOT NULL",
}


@dataclass(frozen=True)
class Selection:
    """Which rows of a range are wanted. Empty means all."""

    streams: tuple[str, ...] = ()
    prefix: str = ""
    partitions: tuple[str, ...] = ()
    kind: str | None = None
    since_us: int | None = None
    before_us: int | None = None

    @property
    def nothing(self) -> bool:
        """No row is of a stream and of a partition."""
        of_streams = bool(self.streams or self.prefix or self.kind == "stream")
        of_partitions = bool(self.partitions or self.kind == "event")
        return of_streams and of_partitions

    def as_query(self) -> list[tuple[str, str]]:
        query = [("stream", stream) for stream in self.streams]
        query += [("partition", partition) for partition in self.partitions]
        named = [("prefix", self.prefix), ("kind", self.kind), ("since", self.since_us), ("before", self.before_us)]
        return query + [(name, str(value)) for name, value in named if value not in ("", None)]


@dataclass(frozen=True)
class Head:
    """Where the log ends, and the highest id that was taken out of it."""

    head: int
    pruned: int


def read_head(client: HttpClient) -> Head:
    found = client.get_json("/v1/log/head")
    return Head(int(found["head"]), int(found["pruned"]))


def read_bound(client: HttpClient, after: int, until: int, rows: int | None, size: int | None = None) -> int:
    """The id that is about so many rows, and at most so many bytes, behind `after`; always at least one further."""
    query = [("after", str(after)), ("until", str(until))]
    if rows is not None:
        query.append(("rows", str(rows)))
    if size is not None:
        query.append(("bytes", str(size)))
    found = client.get_json("/v1/log/bounds", query)
    return min(max(int(found["until"]), after + 1), until)


class Shape:
    """Makes the server's batches into those of the schema that Spark expects."""

    def __init__(self, schema: StructType, schema_column: str | None) -> None:
        names = [name.lower() for name in schema.fieldNames()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadOption(
                f"the column {twice[0]!r} is there twice: the log has one of this name; "
                "set schemaColumn=value to get the typed fields as one struct column instead"
            )
        self.arrow = to_arrow_schema(schema, timezone="UTC")
        self.log_names = [name for name in schema.fieldNames() if name in LOG_COLUMNS]
        typed = [field for field in schema.fields if field.name not in LOG_COLUMNS]
        self._struct = next((field for field in typed if field.name == schema_column), None)
        if self._struct is not None:
            if len(typed) > 1 or not isinstance(self._struct.dataType, StructType):
                raise BadOption(f"schemaColumn {schema_column!r} must be the only typed column, and a struct")
            self._parser: JsonColumns | None = JsonColumns(self._struct.dataType)
        else:
            self._parser = JsonColumns(StructType(typed)) if typed else None
        self._typed_names = [field.name for field in typed]
        self.columns = self._wanted()
        self._passes = self._parser is None and self.log_names == list(self.columns)

    def _wanted(self) -> tuple[str, ...]:
        """What the server has to send, in its order."""
        wanted = set(self.log_names)
        if self._parser is not None:
            wanted |= {"kind", "content_type", "data"}
        return tuple(name for name in LOG_COLUMNS if name in wanted) or ("committed_id",)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._passes and batch.schema.equals(self.arrow):
            return batch
        columns = {name: batch.column(name) for name in self.log_names}
        if self._parser is not None:
            flags = _json_flags(batch)
            if self._struct is not None:
                columns[self._struct.name] = self._parser.parse_struct(batch.column("data"), flags)
            else:
                columns |= zip(self._typed_names, self._parser.parse(batch.column("data"), flags), strict=True)
        arrays = [columns[field.name].cast(field.type) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def _json_flags(batch: pa.RecordBatch) -> list[bool] | None:
    """Which rows hold JSON: all events, and streams of that type. None stands for all of them."""
    types = batch.column("content_type")
    of_json = pc.fill_null(pc.match_substring_regex(types, JSON_TYPE), False)
    flags = pc.or_(of_json, pc.equal(batch.column("kind"), "event"))
    return None if pc.all(flags).as_py() else flags.to_pylist()


def read_range(
    server: ServerOptions, selection: Selection, columns: tuple[str, ...], after: int, until: int, page_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows with `after` < committed_id <= `until`, each exactly once, also if the server restarts meanwhile."""
    if selection.nothing or after >= until:
        return
    fixed = [*selection.as_query(), ("until", str(until)), ("max_bytes", str(page_bytes))]
    if len(columns) < len(LOG_COLUMNS):
        fixed.append(("columns", ",".join(columns)))
    position = 0  # a large record comes in several pages
    with HttpClient(server) as client:
        while after < until:
            place = [("after", str(after)), ("position", str(position))]
            reply = client.request("GET", "/v1/log", query=[*place, *fixed], headers={"Accept": ARROW})
            with pa.ipc.open_stream(pa.py_buffer(reply.body)) as batches:
                yield from (batch for batch in batches if batch.num_rows)
            following = int(reply.headers["Log-Next"]), int(reply.headers.get("Log-Position") or 0)
            if following <= (after, position):
                raise OtherLog(f"the log at {server.url} ends at {after}, but {until} was there before")
            after, position = following


def check_head(head: Head, after: int) -> None:
    """A log never gets shorter."""
    if head.head < after:
        raise OtherLog(
            f"the log ends at {head.head}, but this had come to {after}: it is another server, or an older backup"
        )


def check_history(head: Head, known_pruned: int, after: int) -> None:
    """Nothing behind `after` may have been taken out since somebody looked last."""
    if head.pruned > max(after, known_pruned):
        raise HistoryLost(
            f"the log was pruned up to committed id {head.pruned}, but this had come to {after} only: rows are lost, "
            "unless those that went are of streams or partitions that it does not read"
        )
