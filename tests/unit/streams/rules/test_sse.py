import json
import re
from base64 import b64decode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.streams.rules.offsets import Offset
from mainstem.streams.rules.sse import (
    DELETED,
    HEARTBEAT,
    encode_binary,
    encode_control,
    encode_text,
    repair,
    whole_characters,
)

OFFSET = Offset(2, 77)
text = st.text(st.characters(exclude_categories=["Cs"]))
line_ends = st.text("ab\r\n: \t\ufeff\u2028\u0085")


def receive(stream: bytes) -> list[tuple[str, str, str | None]]:
    """Parse events as an EventSource does (HTML standard, section 9.2.6): (event, data, last event id)."""
    events: list[tuple[str, str, str | None]] = []
    data: list[str] = []
    name, last_id = "", None
    for line in re.split(r"\r\n|\n|\r", stream.decode("utf-8")):
        if not line:
            if data:
                events.append((name or "message", "\n".join(data), last_id))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id" and "\0" not in value:
            last_id = value
    return events


def test_a_data_event_has_no_space_that_a_receiver_would_have_to_strip():
    assert encode_text(b"hello") == b"event: data\ndata:hello\n\n"


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", b"data:a\ndata:b\n"),
        (b"a\rb", b"data:a\ndata:b\n"),
        (b"a\r\nb", b"data:a\ndata:b\n"),
        (b"a\n\rb", b"data:a\ndata:\ndata:b\n"),
        (b"\n", b"data:\ndata:\n"),
        (b"a\n", b"data:a\ndata:\n"),
        (b"\r\n\r\n", b"data:\ndata:\ndata:\n"),
    ],
)
def test_every_line_ending_starts_its_own_data_line(data, lines):
    assert encode_text(data) == b"event: data\n" + lines + b"\n"


@given(line_ends | text)
@example("a\n\nevent: control\ndata: {}\n\n")
@example("\r\revent: deleted\rdata:x\r\r")
def test_text_cannot_forge_an_event(data):
    events = receive(encode_text(data.encode()) + encode_control(OFFSET, "1", True, False))
    assert [event for event, _, _ in events] == ["data", "control"]


@given(line_ends | text)
@example(" world")
@example("a\n  indented")
def test_text_arrives_whole_but_for_the_kind_of_line_end(data):
    """Receivers remove one space after the colon, so a line that begins with a space needs another one."""
    assert receive(encode_text(data.encode()))[0][1] == re.sub(r"\r\n|\r", "\n", data)


@given(line_ends | text)
def test_only_lf_ends_a_line(data):
    assert b"\r" not in encode_text(data.encode())


@given(st.binary())
def test_binary_data_arrives_whole(data):
    events = receive(encode_binary(data) + b"\n")
    assert b64decode(events[0][1], validate=True) == data


def test_a_control_event_tells_the_readers_offset():
    [(event, data, last_id)] = receive(encode_control(OFFSET, "123", True, False))
    assert event == "control"
    assert json.loads(data) == {"streamNextOffset": str(OFFSET), "streamCursor": "123", "upToDate": True}
    assert last_id == str(OFFSET)


def test_a_reader_that_is_behind_does_not_get_up_to_date():
    [(_, data, _)] = receive(encode_control(OFFSET, "123", False, False))
    assert json.loads(data) == {"streamNextOffset": str(OFFSET), "streamCursor": "123"}


def test_the_last_control_event_of_a_closed_stream_has_no_cursor():
    [(_, data, _)] = receive(encode_control(OFFSET, "123", True, True))
    assert json.loads(data) == {"streamNextOffset": str(OFFSET), "upToDate": True, "streamClosed": True}


def test_a_heartbeat_is_not_an_event():
    assert receive(HEARTBEAT) == []
    assert [event for event, _, _ in receive(DELETED)] == ["deleted"]


@given(text)
@example("aé€🌊")
def test_text_split_anywhere_is_sent_in_whole_characters_without_loss(data):
    encoded = data.encode()
    for cut in range(len(encoded) + 1):
        sent = whole_characters(encoded[:cut])
        assert cut - 3 <= sent <= cut
        encoded[:sent].decode("utf-8")  # raises if a character was split
        encoded[sent:].decode("utf-8")


@given(text, st.data())
def test_text_in_arbitrary_parts_arrives_unchanged(data, draw):
    encoded = data.encode()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(encoded)), max_size=8)))
    received, held = "", b""
    for start, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True):
        held += encoded[start:end]
        size = whole_characters(held)
        received += repair(held[:size]).decode()
        held = held[size:]
    assert held == b""
    assert received == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",
        b"a\xbf",
        b"\xff",
        b"a\xfe",
        b"\x80\x80\x80\x80",
        b"a\xc0",
        b"\xc1",
        b"\xf5",
        b"\xe0\x80",
        b"\xed\xa0",
        b"\xf0\x80",
        b"\xf4\x90",
        b"\xc3\xa9\x80",
    ],
)
def test_bytes_that_cannot_become_a_character_are_not_held_back(data):
    assert whole_characters(data) == len(data)


@given(text)
def test_repair_leaves_valid_text_unchanged(data):
    assert repair(data.encode()) == data.encode()


@given(st.binary())
@example(b"caf\xe9")
@example(b"\xed\xa0\x80")
def test_repair_always_gives_valid_text(data):
    repaired = repair(data).decode("utf-8")
    assert repaired == data.decode("utf-8", "replace")
