"""The headers and query parameters of the Durable Streams protocol as typed values."""

import re
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import BadHeader, BadQuery, MainstemError
from mainstem.http.asgi import Headers, Scope
from mainstem.http.requests import read_query, text_header
from mainstem.streams.commands.create import Lifetime
from mainstem.streams.rules import paths
from mainstem.streams.rules.lifecycle import parse_expires_at, parse_ttl
from mainstem.streams.rules.offsets import Offset, Sentinel, parse_offset
from mainstem.streams.rules.retention import parse_retention
from mainstem.streams.states import ProducerTuple, Retention

INTEGER = re.compile(rb"0|[1-9][0-9]{0,15}")


class ProducerHeaders(msgspec.Struct, frozen=True, gc=False):
    """The headers of a producer, except Producer-Seq, the only one that changes with every request."""

    id: str
    epoch: int

    def read_seq(self, headers: Headers) -> ProducerTuple:
        """Return all that the headers say about the producer."""
        return ProducerTuple(self.id, self.epoch, _integer(b"Producer-Seq", headers[b"producer-seq"]))


def read_producer(headers: Headers) -> ProducerHeaders | None:
    """Return what identifies the producer of a request; None if it has none. Its Producer-Seq is read later."""
    producer_id = text_header(headers, b"producer-id", limits.PRODUCER_ID_BYTES_MAX)
    epoch = headers.get(b"producer-epoch")
    has_seq = b"producer-seq" in headers
    if producer_id is None and epoch is None and not has_seq:
        return None
    if producer_id is None or epoch is None or not has_seq:
        raise BadHeader("Producer-Id, Producer-Epoch and Producer-Seq must be sent together")
    if not producer_id:
        raise BadHeader("Producer-Id is empty")
    return ProducerHeaders(producer_id, _integer(b"Producer-Epoch", epoch))


def read_lifetime(headers: Headers) -> Lifetime:
    ttl = text_header(headers, b"stream-ttl", 64)
    expires_at = text_header(headers, b"stream-expires-at", 64)
    if ttl is not None and expires_at is not None:
        raise BadHeader("Stream-TTL and Stream-Expires-At cannot be combined")
    if ttl is not None:
        return Lifetime(ttl_s=parse_ttl(ttl))
    if expires_at is not None:
        return Lifetime(expires_at_us=parse_expires_at(expires_at), expires_at_text=expires_at)
    return Lifetime()


def read_retention(headers: Headers) -> Retention | None:
    text = text_header(headers, b"stream-retention", 256)
    return None if text is None else parse_retention(text)


def read_if_match(headers: Headers) -> Offset | None:
    """Parse `If-Match: <offset>`, with or without quotes: append only if the stream still ends at this offset."""
    text = text_header(headers, b"if-match", 64)
    if text is None:
        return None
    offset = parse_offset(text.strip('"'))
    if not isinstance(offset, Offset):
        raise BadHeader("If-Match must be an offset that this server sent")
    return offset


def _integer(name: bytes, value: bytes) -> int:
    if INTEGER.fullmatch(value) and (number := int(value)) <= limits.INTEGER_MAX:
        return number
    raise BadHeader(f"{name.decode()} must be a whole number from 0 to 2^53-1")


class CatchUp(NamedTuple):
    """A read that needs only a page."""

    path: str
    offset: Offset | Sentinel


CATCH_UP_REMEMBERED_BYTES: Final = 256
"""Reads with a longer URL are not cached, so that nobody can fill the memory with them."""


def recognise_catch_up(path: bytes, query: bytes) -> CatchUp | None:
    """Return the read for a valid, short URL; `path` is the part after the prefix. None for everything else."""
    return _parse_catch_up(path, query) if len(path) + len(query) <= CATCH_UP_REMEMBERED_BYTES else None


@lru_cache(4096)
def _parse_catch_up(path: bytes, query: bytes) -> CatchUp | None:
    scope = {"query_string": query}
    try:
        if paths.is_reserved(stream := paths.parse_path(path)) or not read_query(scope).keys() <= {"offset", "cursor"}:
            return None
        return CatchUp(stream, parse_read({}, scope)[1])
    except MainstemError:
        return None  # the general path replies with the error


def parse_read(headers: Headers, scope: Scope) -> tuple[str | None, Offset | Sentinel, str | None]:
    """Return the live mode of a GET (None for catch-up), its offset, and the client's cursor."""
    query = read_query(scope)
    live = query.get("live")
    if live not in (None, "false", "long-poll", "sse"):
        raise BadQuery("live must be long-poll or sse")
    if live == "false":
        live = None
    if live is not None and "offset" not in query:
        raise BadQuery(f"live={live} needs an offset, such as offset=-1 or offset=now")
    wanted = query.get("offset", "-1")
    if live == "sse":
        wanted = headers.get(b"last-event-id", b"").decode("latin-1") or wanted
    return live, parse_offset(wanted), query.get("cursor")
