"""What the handlers read from a request: headers, queries, encodings, settings of an operator."""

import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

import brotli

from mainstem.errors import MainstemError
from mainstem.http.asgi import Headers
from mainstem.http.compression import ENCODERS, prefer_encoding
from mainstem.http.requests import collect_headers, parse_count, parse_query, read_query, request_origin
from mainstem.pipeline.jobs.durations import parse_interval
from mainstem.server.log_api.index import parse_index_query
from mainstem.server.log_api.selection import parse_selection
from mainstem.server.log_api.tail import parse_event_id
from mainstem.server.settings import FIELDS, load_settings
from mainstem.streams.http.append import read_append_headers
from mainstem.streams.http.headers import (
    parse_read,
    read_if_match,
    read_lifetime,
    read_producer,
    read_retention,
    recognise_catch_up,
)
from mainstem.streams.reading.sets import read_set_token
from mainstem.testing.fuzz.target import Target, as_text

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def read_headers(data: bytes) -> None:
    """Each line of the input is a header. One rule may refuse what the next one accepts, so all are tried."""
    pairs = [
        (name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in data.splitlines())
    ]
    headers = collect_headers(pairs)
    readers: tuple[Callable[[Headers], object], ...] = (
        read_append_headers,
        read_lifetime,
        read_retention,
        read_if_match,
        lambda headers: request_origin({"scheme": "http"}, headers).encode("ascii"),
        lambda headers: parse_read(headers, {"query_string": b"live=sse&offset=-1"}),
    )
    for read in readers:
        try:
            read(headers)
        except MainstemError:
            pass
    producer = read_producer(headers)
    if producer is not None:
        assert producer.read_seq(headers).seq >= 0


def read_queries(data: bytes) -> None:
    scope = {"query_string": data}
    for parse in (lambda: parse_selection(scope), lambda: parse_index_query(read_query(scope))):
        try:
            parse()
        except MainstemError:
            pass
    catch_up = recognise_catch_up(b"a", data)
    values = parse_query(scope)
    for name, value in values:
        try:
            assert 1 <= parse_count(value, name, 1_000) <= 1_000
        except MainstemError:
            pass
    live, offset, _ = parse_read({}, scope)
    assert catch_up is None or (live is None and catch_up.offset == offset)


def choose_encodings(data: bytes) -> None:
    """Whatever the client accepts, the encoding is one of ours, and decoding returns the content."""
    chosen = prefer_encoding(data.decode("latin-1"))
    assert chosen is None or chosen in ENCODERS
    for name, decode in DECODERS.items():
        assert decode(ENCODERS[name](data)) == data


DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstd": zstd.decompress,
    "br": brotli.decompress,
    "gzip": lambda data: zlib.decompress(data, wbits=31),
    "deflate": zlib.decompress,
}


def resume_readers(data: bytes) -> None:
    """The ids that a reader of events sends back."""
    text = as_text(data)
    try:
        after, position = parse_event_id(text)
    except MainstemError:
        read_set_token(text)
    else:
        assert (after, position) == parse_event_id(f"{after}:{position}")


def read_settings(data: bytes) -> None:
    """Each line of the input is a variable of the environment."""
    lines = [as_text(line).partition("=") for line in data.splitlines()]
    environment = {f"MAINSTEM_{name}": value for name, _, value in lines}
    settings: Any = load_settings({}, environment)
    assert all(hasattr(settings, name) for name in FIELDS)


def read_durations(data: bytes) -> None:
    number, unit = parse_interval(as_text(data), "--every").split(" ")
    assert parse_interval(f"{number}{'ms' if unit.startswith('milli') else unit[0]}", "--every") == f"{number} {unit}"


TARGETS: Final = (
    Target(
        "headers",
        read_headers,
        (
            b'content-type: application/json\nstream-closed: true\nstream-seq: a\nif-match: "'
            + b"0" * 16
            + b"_"
            + b"0" * 16
            + b'"',
            b"producer-id: p\nproducer-epoch: 0\nproducer-seq: 9007199254740991",
            b"stream-ttl: 3600\nstream-retention: max-age=3600, max-bytes=10, max-messages=5",
            b"stream-expires-at: 2030-01-31T12:00:00.5+01:00\nx-forwarded-proto: https\nx-forwarded-host: a:80, b",
            b"host: [::1]:80\nlast-event-id: now\naccept-encoding: gzip\naccept-encoding: br",
        ),
        (b"\n", b"\nhost: a", b"\nstream-ttl: 0", b"\nproducer-seq: 1", b"2030-02-30T25:61:61Z", b"+24:00"),
    ),
    Target(
        "queries",
        read_queries,
        (
            b"offset=0000000000000000_0000000000000005&cursor=7",
            b"offset=now&live=long-poll",
            b"after=5&position=1&until=9&max_bytes=100&kind=stream&stream=a/**&columns=data,offset&since=1&before=2",
            b"partition=a&partition=%C3%A9&kind=event&prefix=",
            b"of=streams&after=a&limit=10",
            b"tail=5",
        ),
        (b"&offset=-1", b"&live=sse", b"&limit=1", b"%ff", b"&stream=**", b"+", b"&prefix=a", b"&tail=1"),
    ),
    Target(
        "encodings",
        choose_encodings,
        (b"gzip, deflate;q=0.5, br;q=0, *;q=0.1", b"zstd", b"identity;q=1, *;q=0", b"gzip;q=nan"),
        (b";q=", b"inf", b"*", b"zstd", b"gzip", b"identity"),
    ),
    Target("resumptions", resume_readers, (b"12:3", b"7", b"eyJhIjoiLTEifQ"), (b":", b"e30", b"=", b"_", b"-")),
    Target(
        "settings",
        read_settings,
        (
            b"PORT=4437\nSTORE=sqlite\nSTREAM_PREFIX=/v1/stream",
            b"INSECURE=true\nLOG_LEVEL=debug\nJWKS=x\nPAGE_BYTES=4096",
        ),
        (*(b"\n" + name.upper().encode() + b"=" for name in FIELDS), b"postgresql://a@b/c"),
    ),
    Target("durations", read_durations, (b"30s", b"1m", b" 2 h ", b"500ms", b"1d"), (b"ms", b"s", b"\xd9\xa3")),
)
