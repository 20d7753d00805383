"""Remembered heads: a head gives the same result whether it is parsed or remembered, and the memory is bounded."""

import gc
import weakref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.server.edge import heads
from mainstem.server.edge.heads import Heads, RequestHead, parse_head


def raw_head(*lines, line=b"POST /v1/stream/a HTTP/1.1", host=b"Host: a"):
    return b"\r\n".join([line, host, *lines])


def make_trace(number):
    return b"00-%032x-%016x-01" % (number, number)


def outcome(parse, raw):
    """Return the head without its plan, or the code of the error."""
    try:
        return msgspec.structs.asdict(parse(raw)) | {"plan": None}
    except MainstemError as error:
        return error.code


# Lines that come close to the numbers that are taken out of a head.
names = st.sampled_from(
    [
        *(b"Content-Length", b"content-length", b"CONTENT-LENGTH", b"Producer-Seq", b"producer-seq", b"Producer-seq"),
        *(b"Traceparent", b"traceparent", b"TraceParent", b"X"),
    ]
)
separators = st.sampled_from([b": ", b":", b":  ", b":\t", b" : "])
values = st.sampled_from(
    [
        *(b"0", b"00", b"1", b"7", b"07", b"100", b"12345", b"9" * 15, b"9" * 16, b"9" * 17, b"9" * 18, b"9" * 19),
        *(b"", b"-1", b"+1", b"1 ", b"1,2", b"x", b"1\n", b"1\r", b"\xb9"),
        *(
            heads.NO_TRACE,
            make_trace(1),
            make_trace(2),
            make_trace(3)[:-1],
            make_trace(4) + b"0",
            b"01" + make_trace(1)[2:],
        ),
    ]
)
lines = st.builds(lambda *parts: b"".join(parts), names, separators, values)
others = st.sampled_from(
    [
        *(b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close", b"Connection: Upgrade"),
        *(b"Upgrade: websocket", b"Producer-Id: p", b"Cookie: Content-Length: 5", b" Producer-Seq: 5"),
    ]
)
starts = st.sampled_from(
    [b"POST /v1/stream/a HTTP/1.1", b"POST /v1/stream/a HTTP/1.0", b"GET / HTTP/1.1", b"POST http://b/a HTTP/1.1"]
)
raw_heads = st.builds(lambda start, fields: raw_head(*fields, line=start), starts, st.lists(lines | others, max_size=4))


@given(st.lists(raw_heads, min_size=1, max_size=12))
def test_a_remembered_head_equals_a_parsed_one(raws):
    known = Heads()
    for raw in [*raws, *raws]:
        assert outcome(lambda raw: known.parse(raw).head, raw) == outcome(parse_head, raw)


@given(values, values, st.permutations([b"Content-Length", b"Producer-Seq", b"Producer-Id"]))
def test_a_number_that_changes_gives_what_parsing_gives(first, second, order):
    known = Heads()
    for value in (first, second, first):
        raw = raw_head(*(name + b": " + value for name in order))
        assert outcome(lambda raw: known.parse(raw).head, raw) == outcome(parse_head, raw)


@given(st.lists(raw_heads, min_size=2, max_size=6), values, values)
def test_the_next_head_of_a_connection_gives_what_parsing_gives(raws, first, second):
    """The machine compares each head with the last one of its connection, before it looks for its end."""
    known = Heads()
    raws += [raw_head(b"Producer-Seq: " + value, b"Content-Length: 5") for value in (first, second)]
    last = None
    for raw in [*raws, *raws]:
        matched = None if last is None else last.match(raw + b"\r\n\r\nPOST")
        if matched is not None:
            assert msgspec.structs.asdict(matched) == msgspec.structs.asdict(parse_head(raw))
        try:
            last = known.parse(raw)
        except MainstemError:
            last = None


def test_only_a_whole_head_matches_the_last_one():
    known = Heads()
    raw = raw_head(b"Producer-Seq: 41", b"Content-Length: 5") + b"\r\n\r\n"
    last = known.parse(raw[:-4])
    for seq in (b"41", b"42", b"7", b"1234567890123456"):
        whole = raw.replace(b"41", seq)
        for end in range(len(whole)):
            assert last.match(whole[:end]) is None
        head = last.match(whole + b"12345")
        assert head is not None
        assert (head.raw + b"\r\n\r\n", (head.fields or {})[b"producer-seq"]) == (whole, seq)
    for seq in (b"", b"0", b"01", b"4 ", b" 4", b"-4", b"+4", b"4\n", b"12345678901234567", b"\xb2"):
        assert last.match(raw.replace(b"41", seq)) is None


def test_heads_of_one_kind_are_planned_once():
    planned = []

    def plan(head):
        planned.append(head.path)
        return object()

    known = Heads(plan)
    plans = {
        id(known.parse(raw_head(b"Content-Length: %d" % length, b"Producer-Seq: %d" % seq)).head.plan)
        for length in (1, 20, 300)
        for seq in (1, 2, 3)
    }
    assert len(plans) == len(planned) == 1
    known.parse(raw_head(b"Content-Length: 0", b"Producer-Seq: 1"))  # framed differently
    known.parse(raw_head(b"Content-Length: 1", b"Producer-Seq: 01"))  # malformed, which its handler finds
    known.parse(raw_head(b"Content-Length: 1", b"Producer-Seq: 1", line=b"POST /v1/stream/b HTTP/1.1"))
    assert len(planned) == 4


def test_heads_of_different_traces_are_of_one_kind():
    """A new head per request would take as long to parse as everything else, and push others out of the memory."""
    planned: list[RequestHead] = []
    known = Heads(planned.append)
    for number in range(1, 6):
        raw = raw_head(b"Content-Length: 5", b"traceparent: " + make_trace(number))
        head = known.parse(raw).head
        assert head.fields == dict(head.headers)
        assert (head.fields or {})[b"traceparent"] == make_trace(number)
        assert head.raw == raw
    assert len(planned) == 1
    known.parse(raw_head(b"Content-Length: 5", b"traceparent: 1"))
    known.parse(raw_head(b"Content-Length: 5", b"traceparent: " + make_trace(7).upper().replace(b"0", b"A")))
    assert len(planned) == 3


def test_a_head_with_other_numbers_leaves_earlier_heads_unchanged():
    known = Heads()
    first = known.parse(raw_head(b"Content-Length: 5", b"Producer-Seq: 1")).head
    second = known.parse(raw_head(b"Content-Length: 5", b"Producer-Seq: 2")).head
    assert (first.fields or {})[b"producer-seq"] == b"1"
    assert (second.fields or {})[b"producer-seq"] == b"2"
    assert dict(first.headers) == first.fields
    assert dict(second.headers) == second.fields


def test_an_unchanged_head_is_shared():
    known = Heads()
    raw = raw_head(b"Content-Length: 5")
    assert known.parse(raw).head is known.parse(bytes(bytearray(raw))).head


def test_a_head_is_found_again_after_others_of_its_kind():
    known = Heads()
    lengths = [b"5", b"7", b"5", b"5", b"12", b"7"]
    found = [known.parse(raw_head(b"Content-Length: " + length)).head for length in lengths]
    assert [head.length for head in found] == [5, 7, 5, 5, 12, 7]
    assert [dict(head.headers)[b"content-length"] for head in found] == lengths


def known_heads(known):
    assert len(known._known) == len(known._by_first)
    return len(known._known), sum(map(len, known._known)) + sum(map(len, known._by_first))


def test_strangers_cannot_fill_the_memory_with_heads():
    known = Heads()
    longest = limits.HEAD_KNOWN_BYTES_MAX
    for number in range(3):
        known.parse(raw_head(b"X: " + b"%d" % number + b"x" * longest))
    assert known_heads(known) == (0, 0)
    for number in range(2 * limits.HEADS_KNOWN_MAX):
        known.parse(raw_head(b"X: %d" % number))
    assert known_heads(known)[0] == limits.HEADS_KNOWN_MAX
    for number in range(2 * limits.HEADS_KNOWN_BYTES_MAX // longest):
        known.parse(raw_head(b"X: %d" % number + b"x" * (longest - 100)))
    number, size = known_heads(known)
    assert number > limits.HEADS_KNOWN_BYTES_MAX // longest // 3
    assert size == known._known_bytes <= limits.HEADS_KNOWN_BYTES_MAX


@pytest.mark.parametrize("remembered", [heads.parse_known_start, heads.parse_field])
def test_only_short_lines_are_cached(remembered):
    before = remembered.cache_info().currsize
    parse_head(b"GET /%b HTTP/1.1\r\nHost: a\r\nX: %b" % (b"y" * 2000, b"y" * 2000))
    assert remembered.cache_info().currsize <= before + 1  # the Host line
    assert remembered.cache_info().maxsize == 4096


def test_handshakes_are_not_remembered():
    known = Heads()
    head = known.parse(raw_head(b"Connection: Upgrade", b"Upgrade: websocket", line=b"GET /v1/sync HTTP/1.1")).head
    assert head.websocket
    assert known_heads(known) == (0, 0)


def test_a_plan_that_knows_its_server_does_not_keep_it_in_memory():
    known = Heads()
    known.parse(raw_head()).head.plan = known
    left = weakref.ref(known)
    del known
    gc.collect()
    assert left() is None
