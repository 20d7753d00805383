"""JSON mode: an array is flattened one level, and each message is kept byte for byte, followed by a comma.

So a stream's stored bytes are the inside of a JSON array, and a read of any run of whole messages is `[` + bytes
without the last comma + `]`. Message boundaries need no index: `messages` finds them again.
"""

import re
from typing import NamedTuple

import msgspec

from mainstem import limits
from mainstem.errors import BadJson, EmptyArray

JSON = "application/json"

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKETS = bytes.maketrans(b"{}", b"[]")
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


class Messages(NamedTuple):
    """A request body in its stored form."""

    data: bytes
    number: int


NOTHING = Messages(b"", 0)


def parse_body(body: bytes, *, empty_array_ok: bool = False) -> Messages:
    """The stored form of a request body."""
    try:
        if not body.isascii():
            body.decode("utf-8")
        if body.lstrip(b" \t\r\n")[:1] == b"[":
            parts = _array.decode(body)
            for part in parts:
                if len(part) > limits.JSON_DEPTH_MAX:  # a shorter one cannot be nested too deeply
                    _check_depth(bytes(part), limits.JSON_DEPTH_MAX - 1)
            if parts:
                return Messages(b",".join(parts) + b",", len(parts))
        else:
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


def _check_depth(body: bytes, levels_max: int) -> None:
    """The parser's depth ends with the stack, which is not always the same; ours must be, or what is stored here could
    not be read elsewhere. Innermost pairs are taken out until none is left: as many rounds as there are levels."""
    if body.count(b"[") + body.count(b"{") <= levels_max:
        return
    brackets = STRING.sub(b"", body).translate(BRACKETS, NO_BRACKETS)
    for _ in range(levels_max):
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            return  # nothing is left, or it is not JSON, and the parser says so
        brackets = rest
    if brackets:
        raise BadJson(f"the body is nested more than {limits.JSON_DEPTH_MAX} levels deep")


def wrap(data: bytes) -> bytes:
    """Stored bytes as the JSON array that a reader gets."""
    return b"[%b]" % data[:-1]


def messages(data: bytes) -> list[msgspec.Raw]:
    """The messages in stored bytes, each one exactly as it was sent."""
    return _array.decode(wrap(data))
