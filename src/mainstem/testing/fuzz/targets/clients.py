"""What the clients read from a server, which may be another server or a broken proxy."""

from typing import Final

import msgspec

from mainstem.client.core.challenges import parse_challenges, read_refusal
from mainstem.client.core.errors import ClientError
from mainstem.client.core.retries import read_retry_after
from mainstem.client.core.sse import BatchParser, Event, EventParser
from mainstem.client.core.strict_json import NotJson, encode_json
from mainstem.client.sync_protocol.messages import decode_message
from mainstem.streams.rules import sse
from mainstem.streams.rules.offsets import Offset
from mainstem.testing.fuzz.target import Target
from mainstem.testing.fuzz.targets.edge import cut_in_two_places

CONTENT_TYPES: Final = ("application/json", "text/plain", "application/octet-stream")
DATE: Final = "Wed, 21 Oct 2015 07:28:00 GMT"


def read_events(data: bytes) -> None:
    """The parts in which an event stream arrives make no difference. Its length decides which content it has."""
    raw, parts = cut_in_two_places(data)
    assert _events(parts) == _events([raw])
    content_type = CONTENT_TYPES[len(raw) % len(CONTENT_TYPES)]
    parser = BatchParser(content_type, base64=content_type == "application/octet-stream")
    for part in parts:
        list(parser.feed(part))


def _events(parts: list[bytes]) -> list[Event]:
    parser = EventParser()
    return [event for part in parts for event in parser.feed(part)]


def carry_events(data: bytes) -> None:
    """What the server encodes is what the client gets, except for the kind of its line ends."""
    text = sse.repair(data)
    control = sse.encode_control(Offset(0, len(data)), "1", up_to_date=True, closed=False)
    lines = "\n".join(text.decode().replace("\r\n", "\n").split("\r")).encode()
    assert [event.data for event in EventParser().feed(sse.encode_text(text))] == [lines]
    batches = BatchParser("text/plain", base64=True).feed(sse.encode_binary(data) + control)
    assert [(batch.data, batch.offset) for batch in batches] == [(data, str(Offset(0, len(data))))]
    whole = sse.whole_characters(data)
    assert len(data) - whole < 4
    assert sse.repair(data[:whole]) + sse.repair(data[whole:]) == text or whole == len(data) or text[-1:] != data[-1:]


def read_replies(data: bytes) -> None:
    envelope, payload = decode_message(data)
    assert envelope.protocol_version == "1.0"
    if payload is not None:
        msgspec.json.encode(payload)


def read_refusals(data: bytes) -> None:
    text = data.decode("latin-1")
    for challenge in parse_challenges(text):
        assert challenge.scheme == challenge.scheme.lower()
    read_refusal(text)
    for headers in ({"retry-after": text, "date": DATE}, {"retry-after": DATE, "date": text}):
        wait_s = read_retry_after(headers)
        assert wait_s is None or wait_s >= 0


def encode_values(data: bytes) -> None:
    """JSON of a client is read back as the same value."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return
    assert msgspec.json.decode(encode_json(value)) == value


TARGETS: Final = (
    Target(
        "events",
        read_events,
        (
            b'\x40\x80event: data\ndata:[1]\n\nevent: control\ndata:{"streamNextOffset":"0_1","upToDate":true}\n\n',
            b"\x10\x20\xef\xbb\xbfevent: data\r\ndata: YQ==\r\r: c\n\nid: 1\nevent: deleted\ndata:{}\n\n",
        ),
        (b"data:", b"event: control\n", b"\n\n", b"\r\n\r\n", b"data:[]\n", b'{"streamNextOffset":"0_1"}'),
        documented=(ClientError,),
    ),
    Target(
        "event-lines",
        carry_events,
        (b"a\r\nb\rc\n", b" x\n\ny", b"\xc3\xa9\xf0\x9f\x98\x80", b""),
        (b"\r", b"\n", b" "),
    ),
    Target(
        "sync-replies",
        read_replies,
        (
            b'{"type":"connected","payload":{"client_id":"c","server_last_committed_id":1,"global_last_committed_id":1},'
            b'"protocol_version":"1.0"}',
            b'{"type":"sync_response","payload":{"events":[{"id":"e","partitions":["p"],"committed_id":1,"event":{}}],'
            b'"next_since_committed_id":1,"sync_to_committed_id":1,"has_more":false},"protocol_version":"1.0"}',
            b'{"type":"error","payload":{"code":"bad_request","message":"m","details":{}},"protocol_version":"1.0"}',
        ),
        (b'"committed_id":-1', b'"snapshots":[]', b'"results":[]'),
        documented=(ClientError,),
    ),
    Target(
        "refusals",
        read_refusals,
        (
            b'Bearer error="invalid_token", error_description="a \\"b\\""',
            b"Basic YTpi==, Digest a=b,c=d",
            b"120",
            b"Fri, 31 Dec 2999 23:59:59 GMT",
        ),
        (b'="', b'\\"', b", ", b"Bearer ", b"1e3", b"-1", b"nan", b"GMT", b"Wed, 21 Oct 2015 07:28:00 -9999"),
        documented=(ClientError,),
    ),
    Target(
        "values", encode_values, (b'{"a":[1,null,"x"]}', b"1e308", b"[true]"), (b"null", b"1.0"), documented=(NotJson,)
    ),
)
