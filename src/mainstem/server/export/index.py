"""`/v1/log/index`: what the server remembers beside the log (event ids, streams, producers), for whoever audits it."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import ArrowMissing, BadQuery
from mainstem.log.commands import Space
from mainstem.log.store import Store
from mainstem.server.export.formats import ARROW, format_micros
from mainstem.streams.listing import parse_count
from mainstem.streams.states import PRODUCERS, STREAMS, ProducerState, StreamState
from mainstem.sync.states import EVENT_IDS, EventEntry

Row = dict[str, Any]


class Index(NamedTuple):
    """One kind of state: where it is kept, and what is shown of it, column by column with Arrow's type."""

    space: Space[Any]
    columns: Mapping[str, str]
    describe: Callable[[str, Any], Row]


class IndexQuery(msgspec.Struct, frozen=True):
    of: str
    after: str = ""
    limit: int = limits.SCAN_PAGE


class IndexPage(NamedTuple):
    found: list[tuple[str, Any]]
    next: str | None
    """The name to go on after; None at the end."""


def _event(name: str, entry: EventEntry) -> Row:
    return {
        "id": name,
        "committed_id": entry.committed_id,
        "digest": entry.digest.hex(),
        "committed_at": format_micros(entry.committed_at_us),
    }


def _stream(path: str, state: StreamState) -> Row:
    inherited = state.lineage[-1].end if state.lineage else 0
    return {
        "path": path,
        "topic": state.topic,
        "read_seq": state.read_seq,
        "content_type": state.content_type,
        "begins": max(state.earliest, inherited),
        "tail": state.tail,
        "messages": state.messages,
        "last_id": state.last_id,
        "trimmed": state.earliest > 0,
        "closed": state.closed,
        "deleted": state.deleted,
        "soft_deleted": state.soft_deleted,
    }


def _producer(name: str, state: ProducerState) -> Row:
    path, _, producer_id = name.partition("\0")
    return {
        "path": path,
        "id": producer_id,
        "topic": state.topic,
        "epoch": state.epoch,
        "last_seq": state.last_seq,
    }


INDEXES: Final = {
    "events": Index(
        EVENT_IDS, {"id": "string", "committed_id": "int64", "digest": "string", "committed_at": "string"}, _event
    ),
    "streams": Index(
        STREAMS,
        {
            "path": "string",
            "topic": "int64",
            "read_seq": "int64",
            "content_type": "string",
            "begins": "int64",
            "tail": "int64",
            "messages": "int64",
            "last_id": "int64",
            "trimmed": "bool",
            "closed": "bool",
            "deleted": "bool",
            "soft_deleted": "bool",
        },
        _stream,
    ),
    "producers": Index(
        PRODUCERS,
        {"path": "string", "id": "string", "topic": "int64", "epoch": "int64", "last_seq": "int64"},
        _producer,
    ),
}


def parse_index_query(query: Mapping[str, str]) -> IndexQuery:
    for name in query:
        if name not in ("of", "after", "limit"):
            raise BadQuery(f"there is no parameter {name[:64]!r} here")
    of = query.get("of", "")
    if of not in INDEXES:
        raise BadQuery(f"of is one of {', '.join(INDEXES)}")
    limit = parse_count(query.get("limit", str(limits.SCAN_PAGE)), "limit", limits.INDEX_PAGE_MAX)
    return IndexQuery(of, query.get("after", ""), limit)


async def find_index(store: Store, query: IndexQuery) -> IndexPage:
    """A page by name, as it is durable now. The store decodes it off the event loop where it reads from a disk."""
    index = INDEXES[query.of]
    found = await store.scan(index.space, "", query.after, query.limit)
    return IndexPage(found, found[-1][0] if len(found) == query.limit else None)


_lines = msgspec.json.Encoder()


def encode_index(page: IndexPage, of: str, format_: str) -> bytes:
    index = INDEXES[of]
    rows = [index.describe(name, state) for name, state in page.found]
    if format_ != ARROW:
        return _lines.encode_lines(rows)
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ArrowMissing("this server was installed without Arrow; ask for application/x-ndjson") from None
    schema = pa.schema(
        [pa.field(name, pa.type_for_alias(type_), nullable=False) for name, type_ in index.columns.items()]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        if rows:
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
    body: bytes = sink.getvalue().to_pybytes()
    return body
