"""The rules of Durable Streams: offsets, paths, content types, lifetimes, cursors, ETags, producers, globs."""

import re
from typing import Final
from urllib.parse import quote

from mainstem.errors import MainstemError
from mainstem.globs import ANY, check_cost, check_glob, compile_glob
from mainstem.log.records import TopicId
from mainstem.streams.rules import cursors, etags, lifecycle, retention
from mainstem.streams.rules.base64url import decode_base64url, encode_base64url
from mainstem.streams.rules.content_types import check_content_type, is_active, is_json, is_text, media_type
from mainstem.streams.rules.forks import parse_sub_offset
from mainstem.streams.rules.offsets import Offset, Sentinel, parse_offset
from mainstem.streams.rules.paths import Mount, check_path, check_prefix, is_reserved, parse_path
from mainstem.streams.rules.producers import is_duplicate
from mainstem.streams.states import ProducerState, ProducerTuple
from mainstem.testing.fuzz.target import Target, as_text
from mainstem.timestamps import format_time_exactly

NOW_US: Final = 1_800_000_000_000_000


def read_offsets(data: bytes) -> None:
    text = as_text(data)
    offset = parse_offset(text)
    assert (offset.value if isinstance(offset, Sentinel) else str(offset)) == text


def read_paths(data: bytes) -> None:
    """A path has one name: what it decodes to is checked, and leads back to it."""
    path = parse_path(data)
    check_path(path)
    assert parse_path(quote(path, safe="").encode()) == path
    assert Mount().parse_reference(f"/v1/stream/{quote(path)}", "") == path
    assert is_reserved(path) == (path.split("/")[0] == "__ds")


def check_prefixes(data: bytes) -> None:
    prefix = as_text(data)
    check_prefix(prefix)
    assert parse_path((prefix + "/x").encode()[1:]).endswith("/x")


def read_content_types(data: bytes) -> None:
    text = as_text(data)
    check_content_type(text)
    assert media_type(media_type(text)) == media_type(text)
    assert is_text(text) or not is_json(text)
    is_active(text)


def read_lifetimes(data: bytes) -> None:
    text = as_text(data)
    for parse in (lifecycle.parse_ttl, parse_sub_offset):
        try:
            assert str(parse(text)) == text
        except MainstemError:
            pass
    try:
        kept = retention.parse_retention(text)
        assert retention.parse_retention(retention.format_retention(kept)) == kept
    except MainstemError:
        pass
    time_us = lifecycle.parse_expires_at(text)
    if time_us >= 0:
        assert lifecycle.parse_expires_at(format_time_exactly(time_us)) == time_us


def read_cursors(data: bytes) -> None:
    """A cursor never goes backwards."""
    text = as_text(data)
    following = cursors.next_cursor(text, NOW_US, 1)
    assert int(following) >= cursors.current_interval(NOW_US)
    if cursors.is_ahead(text, NOW_US):
        assert int(following) > int(text)


def match_etags(data: bytes) -> None:
    text = as_text(data)
    etag = etags.make_etag(text, Offset(0, 0), Offset(0, 5), closed=False)
    assert etags.matches(f'"x", W/{etag}', etag)
    assert not etags.matches(etag, etags.make_etag(text, Offset(0, 0), Offset(0, 5), closed=True))
    etags.matches(text, etag)


def read_base64url(data: bytes) -> None:
    assert decode_base64url(encode_base64url(data)) == data
    decode_base64url(as_text(data))


def write_exactly_once(data: bytes) -> None:
    """Each pair of bytes is an append of one producer. In one epoch, every number is accepted once and in order."""
    known: ProducerState | None = None
    accepted: list[tuple[int, int]] = []
    for epoch, seq in zip(data[::2], data[1::2], strict=False):
        try:
            duplicate = is_duplicate(known, ProducerTuple("p", epoch, seq))
        except MainstemError:
            continue
        if duplicate:
            assert (epoch, seq) in accepted
        else:
            assert (epoch, seq) == (epoch, accepted[-1][1] + 1 if accepted and accepted[-1][0] == epoch else 0)
            assert not accepted or epoch >= accepted[-1][0]
            accepted.append((epoch, seq))
            known = ProducerState(TopicId(1), epoch, seq)


def match_globs(data: bytes) -> None:
    """The input is a pattern and a path. A regular expression knows whether they match."""
    pattern, _, path = as_text(data).partition(" ")
    check_glob(pattern)
    check_cost(pattern)
    if len(data) <= GLOB_BYTES_MAX:  # a regular expression may have to try many ways
        assert compile_glob(pattern).matches(path) == (_as_regex(pattern).fullmatch("/" + path) is not None)


GLOB_BYTES_MAX: Final = 48


def _as_regex(pattern: str) -> re.Pattern[str]:
    """Match segments that each begin with a slash, which makes `**` a repetition of them."""
    parts = [
        "(?:/[^/]*)*"
        if part == ANY
        else "/" + ("(?=[^/])" if "*" in part else "") + re.escape(part).replace(r"\*", "[^/]*")
        for part in pattern.split("/")
    ]
    return re.compile("".join(parts), re.DOTALL)


TARGETS: Final = (
    Target("offsets", read_offsets, (b"0000000000000001_0000000000000042", b"-1", b"now"), (b"_", b"0" * 16)),
    Target(
        "paths",
        read_paths,
        (b"chat/1", b"a%2Fb/%C3%A9", b"__ds/jwks.json", b"a/..b/", b"%5F_ds"),
        (b"..", b"%2e", b"//", b"%2F", b"%00", b"%7f", b"__ds/", b"%ff"),
    ),
    Target(
        "prefixes",
        check_prefixes,
        (b"/v1/stream", b"/a/b-c/_~", b"/v1/log/x", b"/v1"),
        (b"/", b".", b"/.."),
        documented=(MainstemError, ValueError),
    ),
    Target(
        "content-types",
        read_content_types,
        (b"application/json; charset=utf-8", b"text/plain", b"image/svg+xml", b"Application/JSON"),
        (b";", b"/", b"+xml", b"text/html"),
    ),
    Target(
        "lifetimes",
        read_lifetimes,
        (b"3600", b"2030-01-31T12:00:00Z", b"1969-12-31t23:59:59.999999999-12:34", b"max-age=1, max-bytes=2"),
        (b"max-messages=3", b"T24:00:00", b"-00:00", b"9999-12-31T23:59:59Z", b"0001-01-01T00:00:00+23:59", b".5"),
    ),
    Target("cursors", read_cursors, (b"3578400", b"999999999999999", b"0"), (b"9" * 15, b"\xd9\xa3")),
    Target("etags", match_etags, (b'"YQ==:0:5"', b"*", b'W/"a", "b"'), (b"W/", b'"', b", ", b":c")),
    Target("base64url", read_base64url, (b"YQ", b"_-", b""), (b"=", b"+", b"/"), documented=(ValueError,)),
    Target(
        "producers", write_exactly_once, (b"\0\0\0\1\0\1\0\2\1\0\1\1", b"\5\0\5\1\4\2\6\0"), (b"\0\0", b"\1\0", b"\1\1")
    ),
    Target(
        "globs",
        match_globs,
        (b"a/*/b a/x/b", b"a/** a", b"**/b*c*/** x/y/bac/z", b"* a/"),
        (b"**", b"/**/", b"*", b" ", b"/"),
    ),
)
