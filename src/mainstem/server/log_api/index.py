"""`/v1/log/index`: the states that the server keeps besides the log (event ids, streams, producers), for jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
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
Names = Sequence[str]
States = Sequence[Any]


class Column(NamedTuple):
    name: str
    type: str
    """The name of the type in Arrow."""
    read: Callable[[Names, States], Iterable[Any]]
    """Returns the values of the whole column."""


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


def _names(names: Names, states: States) -> Names:
    return names


def _parts_of_names(part: int) -> Callable[[Names, States], Iterable[str]]:
    """Return a column of one part of producers' names. Each is the path of a stream, NUL, and the id of a producer."""
    return lambda names, states: [name.split("\0", 1)[part] for name in names]


def _digests(names: Names, states: States) -> Iterable[str]:
    return map(bytes.hex, map(attrgetter("digest"), states))


def _begins(names: Names, states: Sequence[StreamState]) -> Iterable[int]:
    """Return where each stream's own data begins: after what it has inherited, and after what is no longer kept."""
    return [max(state.earliest, state.lineage[-1].end if state.lineage else 0) for state in states]


def _trimmed(names: Names, states: Sequence[StreamState]) -> Iterable[bool]:
    return [state.earliest > 0 for state in states]


def _fields(type_: str, *names: str) -> list[Column]:
    return [Column(name, type_, _field(name)) for name in names]


def _field(name: str) -> Callable[[Names, States], Iterable[Any]]:
    return lambda names, states: map(attrgetter(name), states)


INDEXES: Final = {
    "events": Index(
        EVENT_IDS,
        (Column("id", "string", _names), *_fields("int64", "committed_id"), Column("digest", "string", _digests)),
    ),
    "streams": Index(
        STREAMS,
        (
            Column("path", "string", _names),
            *_fields("int64", "topic", "read_seq"),
            *_fields("string", "content_type"),
            Column("begins", "int64", _begins),
            *_fields("int64", "earliest", "tail", "messages", "last_id"),
            Column("trimmed", "bool", _trimmed),
            *_fields("int64", "forks"),
            *_fields("bool", "closed", "deleted", "soft_deleted"),
        ),
    ),
    "producers": Index(
        PRODUCERS,
        (
            Column("path", "string", _parts_of_names(0)),
            Column("id", "string", _parts_of_names(1)),
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
    names, states = zip(*page.found, strict=True) if page.found else ((), ())
    values = [list(column.read(names, states)) for column in columns]
    if format_ != ARROW:
        keys = [column.name for column in columns]
        return _lines.encode_lines([dict(zip(keys, row, strict=True)) for row in zip(*values, strict=True)])
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ArrowMissing("this server was installed without Arrow") from None
    schema = pa.schema([pa.field(column.name, pa.type_for_alias(column.type), nullable=False) for column in columns])
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return write_arrow_stream(arrays, schema)
