"""JSON mode: an array is flattened one level, and each message is kept byte for byte, followed by a comma.

So a stream's stored bytes are the inside of a JSON array, and a read of any run of whole messages is `[` + bytes
without the last comma + `]`. Message boundaries need no index: `messages` finds them again.

Large bodies and records are taken apart in groups of messages, because one call of the parser would keep the
interpreter lock for long: see `json_groups`.
"""

import codecs
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import BadJson, EmptyArray, MessageTooLarge, TooManyMessages
from mainstem.streams.rules import json_groups

JSON = "application/json"
SPACE: Final = b" \t\r\n"

_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class Messages(NamedTuple):
    """A request body in its stored form."""

    data: bytes
    number: int


NOTHING = Messages(b"", 0)


def parse_body(
    body: bytes, *, empty_array_ok: bool = False, messages_max: int = limits.APPEND_MESSAGES_MAX
) -> Messages:
    """The stored form of a request body."""
    try:
        _check_utf8(body)
        if body.lstrip(SPACE)[:1] == b"[":
            stored = _parse_array(body, messages_max)
            if stored.number:
                return stored
        else:
            _check_size(len(body))
            _check_depth(body, limits.JSON_DEPTH_MAX)
            return Messages(bytes(_value.decode(body)) + b",", 1)
    except UnicodeDecodeError as error:
        raise BadJson(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except msgspec.DecodeError as error:
        raise BadJson(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise BadJson("the body is nested too deeply") from None
    if empty_array_ok:
        return NOTHING
    raise EmptyArray("an empty array holds no message to append")


def _parse_array(body: bytes, messages_max: int) -> Messages:
    if len(body) <= limits.PARSE_INLINE_BYTES_MAX:
        parts = _array.decode(body)
        _check_parts(parts, len(parts), messages_max)
        return Messages(b",".join(parts) + b",", len(parts))
    end = len(body.rstrip(SPACE)) - 1
    if body[end:][:1] != b"]":
        raise BadJson("the body is not JSON: it begins with [ and does not end with ]")
    start = body.index(b"[") + 1
    groups: list[bytes] = []
    number = 0
    for group in json_groups.split(body, start, end):
        parts = _decode_group(body, group)
        number += len(parts)
        _check_parts(parts, number, messages_max)
        if not parts and group != slice(start, end):
            raise BadJson(f"the body is not JSON: a message is missing at byte {group.start}")
        groups.append(b",".join(parts))
    return Messages(b",".join([*groups, b""]), number)


def _decode_group(data: bytes, group: slice) -> list[msgspec.Raw]:
    _check_size(group.stop - group.start - 2 * json_groups.GROUP_BYTES)  # what is more than a group is one message
    try:
        return _array.decode(b"[%b]" % data[group])
    except msgspec.DecodeError as error:
        raise BadJson(f"the body is not JSON: {error}, counted from byte {group.start - 1}") from None


def _check_size(size: int) -> None:
    if size > limits.JSON_MESSAGE_BYTES_MAX:
        most = limits.JSON_MESSAGE_BYTES_MAX
        raise MessageTooLarge(f"one JSON message is at most {most} bytes", limit_bytes=most)


def _check_parts(parts: list[msgspec.Raw], number: int, messages_max: int) -> None:
    if number > messages_max:
        raise TooManyMessages(f"an append holds at most {messages_max} messages", limit_messages=messages_max)
    for part in parts:
        if len(part) > limits.JSON_DEPTH_MAX:  # a shorter one cannot be nested too deeply
            _check_depth(bytes(part), limits.JSON_DEPTH_MAX - 1)


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(body), limits.PARSE_INLINE_BYTES_MAX):
        window = body[at : at + limits.PARSE_INLINE_BYTES_MAX]
        try:
            decoder.decode(window, final=at + len(window) == len(body))
        except UnicodeDecodeError as error:
            first = max(at + error.start - (len(error.object) - len(window)), 0)  # it had kept some bytes
            raise UnicodeDecodeError("utf-8", body, first, first + 1, error.reason) from None


def _check_depth(body: bytes, levels_max: int) -> None:
    """The parser's depth ends with the stack, which is not always the same; ours must be, or what is stored here could
    not be read elsewhere."""
    if body.count(b"[") + body.count(b"{") <= levels_max:
        return
    if json_groups.depth(body, 0, len(body)) > levels_max:
        raise BadJson(f"the body is nested more than {limits.JSON_DEPTH_MAX} levels deep")


def wrap(data: bytes) -> bytes:
    """Stored bytes as the JSON array that a reader gets."""
    return b"".join((b"[", memoryview(data)[:-1], b"]"))  # one copy: pages may be large


def messages(data: bytes) -> list[msgspec.Raw]:
    """The messages in stored bytes, each one exactly as it was sent."""
    return _array.decode(wrap(data))


def message_groups(data: bytes, start: int = 0) -> Iterator[tuple[slice, list[msgspec.Raw]]]:
    """The messages in stored bytes from a place on, a bounded number of bytes at a time unless one message is larger.

    Each group comes with its position, which does not include the comma after its last message.
    """
    if start >= len(data):
        return
    for group in json_groups.split(data, start, len(data) - 1):
        yield group, _array.decode(b"[%b]" % data[group])


def count_messages(data: bytes) -> int:
    return sum(len(parts) for _, parts in message_groups(data))


def find_message(data: bytes, number: int) -> int | None:
    """Where the message with this number begins, counted from 0; the end if it is the next one; None beyond that."""
    for group, parts in message_groups(data):
        if number < len(parts):
            begins: int = group.start
            return begins + sum(len(part) + 1 for part in parts[:number])
        number -= len(parts)
    return None if number else len(data)


def find_end(data: bytes, bytes_max: int) -> int:
    """Where the last message ends that still fits, with its comma; behind the first one if that alone is larger."""
    end = 0
    for group, parts in message_groups(data):
        at: int = group.start
        for part in parts:
            at += len(part) + 1
            if end and at > bytes_max:
                return end
            end = at
    return end


def begins_message(data: bytes, at: int) -> bool:
    """Whether a message begins at this place, or the data ends there."""
    if at <= 0 or at >= len(data):
        return at in (0, len(data))
    for group, parts in message_groups(data):
        if at <= group.stop:
            place: int = group.start
            for part in parts:
                if place >= at:
                    break
                place += len(part) + 1
            return place == at
    return False
