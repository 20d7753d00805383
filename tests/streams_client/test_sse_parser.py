"""The SSE parser: pieces cut anywhere, all line ends, and input that is not an event."""

import re
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.client.core.errors import InvalidResponse, TooMuchData
from mainstem.client.core.sse import BatchParser, Event, EventParser
from mainstem.streams.rules import sse
from mainstem.streams.rules.offsets import Offset

ENDS = (b"\n", b"\r\n", b"\r")
line = st.binary(max_size=20).map(lambda data: re.sub(rb"[\r\n]", b"", data))
name = st.sampled_from(["data", "control", "deleted", "later", "ü"])
events = st.lists(st.tuples(name, st.lists(line, min_size=1, max_size=4)), max_size=6)


def write(wanted, end: bytes) -> bytes:
    said = b""
    for event, lines in wanted:
        fields = [b"event: " + event.encode(), *(b"data: " + part for part in lines), b": comment", b"id: 7"]
        said += end.join(fields) + end + end
    return said


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]


def parse(parser, pieces):
    return [item for piece in pieces for item in parser.feed(piece)]


@given(events, st.sampled_from(ENDS), st.lists(st.integers(0, 10_000), max_size=12))
def test_events_are_the_same_however_the_bytes_are_split_and_the_lines_ended(wanted, end, places):
    found = parse(EventParser(), cut(write(wanted, end), places))
    assert found == [Event(event, b"\n".join(lines)) for event, lines in wanted]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_garbage_parses_the_same_however_it_is_cut(data, places):
    assert parse(EventParser(), cut(data, places)) == parse(EventParser(), [data])


@given(st.lists(st.tuples(st.text(max_size=40), st.integers(0, 10**9)), max_size=5), st.lists(st.integers(0, 5000)))
def test_the_client_reads_what_the_server_encodes(batches, places):
    wire = b""
    for text, position in batches:
        wire += sse.encode_text(text.encode()) + sse.HEARTBEAT
        wire += sse.encode_control(Offset(0, position), "7", True, False)
    found = parse(BatchParser("text/plain", base64=False), cut(wire, places))
    # Line ends inside text arrive as LF: SSE cannot carry any other.
    unified = [re.sub("\r\n|\r", "\n", text).encode() for text, _ in batches]
    assert [batch.data for batch in found] == unified
    assert [batch.offset for batch in found] == [str(Offset(0, position)) for _, position in batches]


@given(st.lists(st.binary(max_size=60), max_size=5), st.lists(st.integers(0, 5000)))
def test_binary_data_survives_base64(datas, places):
    wire = b"".join(sse.encode_binary(data) + sse.encode_control(Offset(0, 1), "7", False, False) for data in datas)
    found = parse(BatchParser("image/png", base64=True), cut(wire, places))
    assert [batch.data for batch in found] == datas


@pytest.mark.parametrize("data", [b"f", b"fo", b"foo", b"foob", b"foobar", b"\0", b"\xff\xfe", bytes(range(256)), b""])
def test_every_padding_of_base64_is_read(data):
    wire = sse.encode_binary(data) + sse.encode_control(Offset(0, 1), None, True, True)
    (batch,) = BatchParser("application/x-protobuf", base64=True).feed(wire)
    assert (batch.data, batch.closed, batch.up_to_date) == (data, True, True)


def test_base64_may_span_several_lines():
    encoded = b64encode(bytes(range(200)))
    lines = b"".join(b"data: %b\n" % encoded[at : at + 76] for at in range(0, len(encoded), 76))
    control = sse.encode_control(Offset(0, 1), "7", False, False)
    (batch,) = BatchParser("a/b", base64=True).feed(b"event: data\n" + lines + b"\n" + control)
    assert batch.data == bytes(range(200))


@pytest.mark.parametrize("character", ["\u0085", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\u0085\u2028\u2029"])
def test_only_cr_and_lf_end_a_line(character):
    text = f"a{character}b".encode()
    assert parse(EventParser(), [b"data: " + text + b"\n\n"]) == [Event("message", text)]


def test_only_one_space_after_the_colon_is_dropped():
    assert parse(EventParser(), [b"data:  two\ndata: one\ndata:none\n\n"]) == [Event("message", b" two\none\nnone")]


def test_a_byte_order_mark_is_not_data():
    assert parse(EventParser(), [b"\xef\xbb\xbf", b"data: x\n\n"]) == [Event("message", b"x")]


def test_unknown_events_are_skipped_and_unfinished_ones_do_not_count():
    control = sse.encode_control(Offset(0, 3), "7", True, False)
    wire = b"event: later\ndata: {}\n\nevent: data\ndata:abc\n\nevent: x\n\n" + control + b"event: data\ndata:lost\n"
    (batch,) = BatchParser("text/plain", base64=False).feed(wire)
    assert (batch.data, batch.offset) == (b"abc", str(Offset(0, 3)))


def test_several_data_events_before_a_control_event_are_one_batch():
    control = sse.encode_control(Offset(0, 9), "7", True, False)
    wire = b"".join(sse.encode_text(part) for part in (b"[1]", b"[]", b"[[2],3]")) + control
    (batch,) = BatchParser("application/json", base64=False).feed(wire)
    assert batch.messages == [1, [2], 3]
    (text,) = BatchParser("text/plain", base64=False).feed(wire)
    assert text.data == b"[1][][[2],3]"


def test_a_deletion_is_noticed():
    parser = BatchParser("text/plain", base64=False)
    assert list(parser.feed(sse.DELETED)) == []
    assert parser.deleted


@pytest.mark.parametrize(
    ("content_type", "wire"),
    [
        ("text/plain", b"event: control\ndata: {broken\n\n"),
        ("text/plain", b"event: control\ndata:\n\n"),
        ("text/plain", b'event: control\ndata: {"upToDate":true}\n\n'),
        ("text/plain", b"event: control\ndata: []\n\n"),
        ("application/json", b'event: data\ndata: [{"a":\n\nevent: control\ndata: {"streamNextOffset":"1"}\n\n'),
        ("application/json", b'event: data\ndata: {"a":1}\n\nevent: control\ndata: {"streamNextOffset":"1"}\n\n'),
    ],
)
def test_an_unreadable_event_is_an_error(content_type, wire):
    with pytest.raises(InvalidResponse):
        list(BatchParser(content_type, base64=False).feed(wire))


def test_broken_base64_is_an_error():
    with pytest.raises(InvalidResponse, match="base64"):
        list(BatchParser("a/b", base64=True).feed(b"event: data\ndata: $$$\n\n"))


def test_an_event_without_end_is_not_collected_forever():
    parser = EventParser(bytes_max=1000)
    with pytest.raises(TooMuchData):
        parse(parser, [b"data: " + b"x" * 300] * 4)
    parser = EventParser(bytes_max=1000)
    with pytest.raises(TooMuchData):
        parse(parser, [b"data: " + b"x" * 300 + b"\n"] * 4)
