"""JSON mode: an array is flattened one level, and each message is stored byte for byte, followed by a comma.

So the stored bytes of a stream are the contents of a JSON array, and a read of consecutive messages is `[` + bytes
without the last comma + `]`. Message boundaries need no index, because `messages` can find them again.

Large bodies and records are parsed in groups of messages, because a single call of the parser would hold the
interpreter lock for too long: see `json_groups`.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from mainstem import limits
from mainstem.errors import BadJson, EmptyArray, MessageTooLarge, TooManyMessages
from mainstem.streams.rules import json_groups

JSON = "application/json"
SPACE: Final = b" \t\r\n"

_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class Messages(msgspec.Struct, frozen=True, gc=False):
    """A request body in its stored form."""

    data: bytes
    number: int


NOTHING = Messages(b"", 0)


def parse_body(
    body: bytes, *, empty_array_ok: bool = False, messages_max: int = limits.APPEND_MESSAGES_MAX
) -> Messages:
    """Parse a request body into its stored form. Raise `BadJson` if it is not JSON."""
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
        raise BadJson(f"the body is not valid UTF-8 at byte {error.start}") from None
    except msgspec.DecodeError as error:
        raise _bad_json(error) from None
    except RecursionError:
        raise BadJson("the body is nested too deeply") from None
    if empty_array_ok:
        return NOTHING
    raise EmptyArray("the body is an empty array, so there is no message to append")


# The parser's errors end with a position, unless the input ends too early. Only the position is passed on: the rest is
# in the parser's own terms.
BYTE = re.compile(r"\(byte ([0-9]+)\)$")


def _bad_json(error: msgspec.DecodeError, first: int = 0) -> BadJson:
    """Return the error for a body that the parser refused. `first` is the byte at which the parser began."""
    at = BYTE.search(str(error))
    if at is None:
        return BadJson("the body is not valid JSON: it ends too early")
    return BadJson(f"the body is not valid JSON at byte {first + int(at[1])}")


def _parse_array(body: bytes, messages_max: int) -> Messages:
    if len(body) <= limits.PARSE_INLINE_BYTES_MAX:
        parts = _array.decode(body)
        number = len(parts)
        sizes = list(map(len, parts))
        _check_parts(parts, sizes, number, messages_max)
        if sum(sizes) + number + 1 == len(body):  # nothing but messages and commas between the brackets
            return Messages(body[1:-1] + b",", number)
        return Messages(b",".join([*parts, b""]), number)
    end = len(body.rstrip(SPACE)) - 1
    if body[end:][:1] != b"]":
        raise BadJson("the body is not valid JSON: it begins with [ but does not end with ]")
    start = body.index(b"[") + 1
    groups: list[bytes] = []
    number = 0
    for group in json_groups.split(body, start, end):
        parts = _decode_group(body, group)
        number += len(parts)
        _check_parts(parts, list(map(len, parts)), number, messages_max)
        if not parts and group != slice(start, end):
            raise BadJson(f"the body is not valid JSON: a message is missing at byte {group.start}")
        groups.append(b",".join(parts))
    return Messages(b",".join([*groups, b""]), number)


def _decode_group(data: bytes, group: slice) -> list[msgspec.Raw]:
    _check_size(group.stop - group.start - 2 * json_groups.GROUP_BYTES)  # the excess over a group is one message
    try:
        return _array.decode(b"[%b]" % data[group])
    except msgspec.DecodeError as error:
        raise _bad_json(error, group.start - 1) from None


def _check_size(size: int) -> None:
    if size > limits.JSON_MESSAGE_BYTES_MAX:
        most = limits.JSON_MESSAGE_BYTES_MAX
        raise MessageTooLarge(f"a JSON message is larger than {most} bytes", limit_bytes=most)


def _check_parts(parts: list[msgspec.Raw], sizes: list[int], number: int, messages_max: int) -> None:
    if number > messages_max:
        raise TooManyMessages(f"the append has more than {messages_max} messages", limit_messages=messages_max)
    depth_max = limits.JSON_DEPTH_MAX
    if max(sizes, default=0) > depth_max:  # shorter messages cannot be nested too deeply
        for part in parts:
            if len(part) > depth_max:
                _check_depth(bytes(part), depth_max - 1)


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(body), limits.PARSE_INLINE_BYTES_MAX):
        window = body[at : at + limits.PARSE_INLINE_BYTES_MAX]
        try:
            decoder.decode(window, final=at + len(window) == len(body))
        except UnicodeDecodeError as error:
            first = max(at + error.start - (len(error.object) - len(window)), 0)  # the decoder had buffered some bytes
            raise UnicodeDecodeError("utf-8", body, first, first + 1, error.reason) from None


def _check_depth(body: bytes, levels_max: int) -> None:
    """Raise `BadJson` if the body is nested too deeply. The parser's own limit depends on the stack, which varies; ours
    must be fixed, or data stored by one server could not be read by another."""
    if body.count(b"[") + body.count(b"{") <= levels_max:
        return
    if json_groups.depth(body, 0, len(body)) > levels_max:
        raise BadJson(f"the body is nested more than {limits.JSON_DEPTH_MAX} levels deep")


def wrap(data: bytes) -> bytes:
    """Return stored bytes as the JSON array that a reader receives."""
    return b"".join((b"[", memoryview(data)[:-1], b"]"))  # copies once, because pages may be large


def messages(data: bytes) -> list[msgspec.Raw]:
    """Return the messages in stored bytes, each exactly as it was sent."""
    return _array.decode(wrap(data))


def message_groups(data: bytes, start: int = 0) -> Iterator[tuple[slice, list[msgspec.Raw]]]:
    """Yield the messages in stored bytes from a position, in groups of bounded size unless one message is larger.

    Each group comes with its position, which excludes the comma after its last message.
    """
    if start >= len(data):
        return
    for group in json_groups.split(data, start, len(data) - 1):
        yield group, _array.decode(b"[%b]" % data[group])


def count_messages(data: bytes) -> int:
    return sum(len(parts) for _, parts in message_groups(data))


def find_message(data: bytes, number: int) -> int | None:
    """Return where the message with this number, counted from 0, begins. Return the end of the data for the number
    after the last, and None beyond that."""
    for group, parts in message_groups(data):
        if number < len(parts):
            begins: int = group.start
            return begins + sum(len(part) + 1 for part in parts[:number])
        number -= len(parts)
    return None if number else len(data)


def find_end(data: bytes, bytes_max: int) -> int:
    """Return the end, including the comma, of the last message that fits, or of the first message if even that does not
    fit."""
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
    """Return whether a message begins at this position, or the data ends there."""
    if at <= 0 or at >= len(data):
        return at in (0, len(data))
    for group, parts in message_groups(data):
        if at <= group.stop:
            start: int = group.start
            for part in parts:
                if start >= at:
                    break
                start += len(part) + 1
            return start == at
    return False
