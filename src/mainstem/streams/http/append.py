"""Appends over HTTP: the command for a request, and the reply.

The ASGI handler and the fast path of `mainstem serve` share this module; they differ in how they wait and send.
"""

import msgspec

from mainstem import limits
from mainstem.errors import EmptyBody, MissingContentType
from mainstem.http.asgi import HeaderList, Headers
from mainstem.http.requests import is_true, text_header
from mainstem.streams.commands.append import Append, Appended
from mainstem.streams.http.headers import ProducerHeaders, read_if_match, read_producer
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules import content_types, json_mode
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.rules.offsets import Offset, encode_offset


class AppendHeaders(msgspec.Struct, frozen=True, gc=False):
    """What the headers of an append say, except Producer-Seq: the next append of a producer differs only in that."""

    content_type: str | None
    closes: bool
    stream_seq: str | None
    producer: ProducerHeaders | None
    if_match: Offset | None


def read_append_headers(headers: Headers) -> AppendHeaders:
    return AppendHeaders(
        text_header(headers, b"content-type", limits.CONTENT_TYPE_BYTES_MAX),
        is_true(headers, b"stream-closed"),
        text_header(headers, b"stream-seq", limits.STREAM_SEQ_BYTES_MAX),
        read_producer(headers),
        read_if_match(headers),
    )


def prepare_append(streams: Streams, path: str, known: AppendHeaders, headers: Headers, body: bytes) -> Append:
    """Return the command for a POST with this body. Raise an error if the request is invalid.

    Call it in a thread if a JSON body is larger than PARSE_INLINE_BYTES_MAX, since parsing it takes long.
    """
    content_type = messages = producer = None
    if known.producer is not None:
        producer = known.producer.read_seq(headers)
    if body:
        content_type = known.content_type
        if not content_type:
            raise MissingContentType("the append has no Content-Type; send the content type of the stream")
        messages = parse_messages(content_type, body)
    elif not known.closes:
        raise EmptyBody("the body is empty, so there is nothing to append")
    return Append(
        path,
        content_type,
        messages,
        known.closes,
        known.stream_seq,
        producer,
        known.if_match,
        streams.touched_us(path),
    )


def append_reply(done: Appended) -> tuple[int, HeaderList]:
    """Return the status of the reply to an append, and its headers besides `base_headers`. It has no body."""
    state, producer = done.state, done.producer
    reply = [(b"stream-next-offset", encode_offset(state.read_seq, state.tail))]
    if state.closed:
        reply.append((b"stream-closed", b"true"))
    if producer is None:
        return 204, reply
    reply.append((b"producer-epoch", b"%d" % producer.epoch))
    reply.append((b"producer-seq", b"%d" % producer.last_seq))
    return (200 if done.wrote else 204), reply


def parse_messages(content_type: str, body: bytes, *, creating: bool = False) -> Messages:
    """Return a body in its stored form. Only JSON is parsed."""
    if content_types.is_json(content_type):
        return json_mode.parse_body(body, empty_array_ok=creating)
    return Messages(body, 1)


def parsed_size(content_type: str, body: bytes) -> int:
    """Return how many bytes of a body `parse_messages` has to parse, which determines how long it takes."""
    return len(body) if content_types.is_json(content_type) else 0
