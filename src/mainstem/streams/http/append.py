"""Appends over HTTP: the command that a request stands for, and the reply to it.

The ASGI handler and the fast path of `mainstem serve` share all of this; they differ in how they wait and send.
"""

from mainstem import limits
from mainstem.errors import EmptyBody, MissingContentType
from mainstem.http.asgi import HeaderList, Headers
from mainstem.http.requests import is_true, text_header
from mainstem.http.responses import base_headers
from mainstem.streams.commands.append import Append, Appended
from mainstem.streams.http.headers import read_if_match, read_producer
from mainstem.streams.reading.reader import Streams
from mainstem.streams.rules import content_types, json_mode
from mainstem.streams.rules.json_mode import Messages


def prepare_append(streams: Streams, path: str, headers: Headers, body: bytes) -> Append:
    """The command of a POST with this body. Raises what is wrong with the request.

    A JSON body of more than PARSE_INLINE_BYTES_MAX takes so long that it belongs off the event loop.
    """
    closes = is_true(headers, b"stream-closed")
    content_type = messages = None
    if body:
        content_type = text_header(headers, b"content-type", limits.CONTENT_TYPE_BYTES_MAX)
        if not content_type:
            raise MissingContentType("an append says what it appends, in Content-Type")
        messages = parse_messages(content_type, body)
    elif not closes:
        raise EmptyBody("there is nothing to append")
    return Append(
        path,
        content_type,
        messages,
        closes,
        text_header(headers, b"stream-seq", limits.STREAM_SEQ_BYTES_MAX),
        read_producer(headers),
        read_if_match(headers),
        streams.touched_us(path),
    )


def append_reply(headers: Headers, done: Appended) -> tuple[int, HeaderList]:
    """The status and the headers of the reply to an append; it has no body."""
    reply = [*base_headers(headers), (b"stream-next-offset", str(done.state.next_offset).encode())]
    if done.state.closed:
        reply.append((b"stream-closed", b"true"))
    if done.producer is None:
        return 204, reply
    reply.append((b"producer-epoch", b"%d" % done.producer.epoch))
    reply.append((b"producer-seq", b"%d" % done.producer.last_seq))
    return (200 if done.wrote else 204), reply


def parse_messages(content_type: str, body: bytes, *, creating: bool = False) -> Messages:
    """A body in its stored form; only JSON is looked into."""
    if content_types.is_json(content_type):
        return json_mode.parse_body(body, empty_array_ok=creating)
    return Messages(body, 1)


def parsed_size(content_type: str, body: bytes) -> int:
    """How much of a body `parse_messages` looks at, which is what its time depends on."""
    return len(body) if content_types.is_json(content_type) else 0
