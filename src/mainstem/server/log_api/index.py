"""`/v1/log/index`: the states that the server keeps besides the log (event ids, streams, producers), for jobs."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import ArrowMissing, BadQuery
from mainstem.http.requests import parse_count
from mainstem.log.commands import Space
from mainstem.log.store import Store
from mainstem.server.log_api.arrow import write_arrow_stream
from mainstem.server.log_api.formats import ARROW, Body
from mainstem.server.log_api.selection import check_parameters
from mainstem.streams.states import PRODUCERS, STREAMS, StreamState
from mainstem.sync.states import EVENT_IDS

Entry = tuple[str, Any]
"""A name, and the state with that name."""


class Column(NamedTuple):
    name: str
    type: str
    """The name of the type in Arrow."""
    read: Callable[[Entry], Any]


class Index(NamedTuple):
    """One kind of state: the space that holds it, and the columns that show it."""

    space: Space[Any]
    columns: tuple[Column, ...]


class IndexQuery(msgspec.Struct, frozen=True):
    of: str
    prefix: str = ""
    after: str = ""
    limit: int = limits.SCAN_PAGE


class IndexPage(NamedTuple):
    found: list[Entry]
    next: str | None
    """The name to continue after; None at the end."""


def _digest(entry: Entry) -> str:
    digest: bytes = entry[1].digest
    return digest.hex()


def _begins(entry: Entry) -> int:
    """Return where a stream's own data begins: after what it has inherited, and after what is no longer kept."""
    state: StreamState = entry[1]
    return max(state.earliest, state.lineage[-1].end if state.lineage else 0)


def _is_trimmed(entry: Entry) -> bool:
    state: StreamState = entry[1]
    return state.earliest > 0


def _of_name(part: int) -> Callable[[Entry], str]:
    """Return a function for one part of a producer's name, which is the path of its stream, NUL, and its id."""
    return lambda entry: entry[0].split("\0", 1)[part]


def _fields(type_: str, *names: str) -> list[Column]:
    return [Column(name, type_, _field(name)) for name in names]


def _field(name: str) -> Callable[[Entry], Any]:
    return lambda entry: getattr(entry[1], name)


INDEXES: Final = {
    "events": Index(
        EVENT_IDS,
        (Column("id", "string", itemgetter(0)), *_fields("int64", "committed_id"), Column("digest", "string", _digest)),
    ),
    "streams": Index(
        STREAMS,
        (
            Column("path", "string", itemgetter(0)),
            *_fields("int64", "topic", "read_seq"),
            *_fields("string", "content_type"),
            Column("begins", "int64", _begins),
            *_fields("int64", "earliest", "tail", "messages", "last_id"),
            Column("trimmed", "bool", _is_trimmed),
            *_fields("int64", "forks"),
            *_fields("bool", "closed", "deleted", "soft_deleted"),
        ),
    ),
    "producers": Index(
        PRODUCERS,
        (
            Column("path", "string", _of_name(0)),
            Column("id", "string", _of_name(1)),
            *_fields("int64", "topic", "epoch", "last_seq"),
        ),
    ),
}


def parse_index_query(query: Mapping[str, str]) -> IndexQuery:
    check_parameters(query, "of", "prefix", "after", "limit")
    of = query.get("of", "")
    if of not in INDEXES:
        raise BadQuery(f"of must be one of {', '.join(INDEXES)}")
    limit = parse_count(query.get("limit", str(limits.SCAN_PAGE)), "limit", limits.INDEX_PAGE_MAX)
    return IndexQuery(of, query.get("prefix", ""), query.get("after", ""), limit)


async def find_index(store: Store, query: IndexQuery) -> IndexPage:
    """Return a page of states, sorted by name. A store on disk decodes them off the event loop."""
    index = INDEXES[query.of]
    found = await store.scan(index.space, query.prefix, query.after, query.limit)
    return IndexPage(found, found[-1][0] if len(found) == query.limit else None)


_lines = msgspec.json.Encoder()


def encode_index(page: IndexPage, of: str, format_: str) -> Body:
    columns = INDEXES[of].columns
    values = [[column.read(entry) for entry in page.found] for column in columns]
    if format_ != ARROW:
        names = [column.name for column in columns]
        return _lines.encode_lines([dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)])
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ArrowMissing("this server was installed without Arrow") from None
    schema = pa.schema([pa.field(column.name, pa.type_for_alias(column.type), nullable=False) for column in columns])
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return write_arrow_stream(arrays, schema)
