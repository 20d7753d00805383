"""Canonical equality: two submissions with one id are the same event if their RFC 8785 (JCS) forms are equal.

JCS sorts keys by UTF-16 code units and writes numbers as ECMAScript does, so 1, 1.0 and 1e0 are the same number, and so
are two integers beyond 2^53 that round to the same double. Strings are compared as sent, not normalised. If a key is
repeated, the last one counts, as in JavaScript.

For nearly all events, msgspec's sorted encoder gives the same bytes as JCS. `_is_plain` recognises those events, and an
exact serialiser handles the others.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import ValidationFailed

FLOAT_PLAIN_MIN: Final = 1e-4
FLOAT_PLAIN_MAX: Final = 1e15  # from about here, and below 1e-6, encoders use exponents differently

BMP_LAST: Final = "\uffff"  # up to here, the order of code points is the order of UTF-16 units

HASHED: Final = b'{"event":%b,"partitions":%b}'
"""What the digest is made of: the canonical form of an event, and the names of its partitions."""

PLAIN_TYPES: Final = frozenset({str, bool, type(None)})
"""Values that msgspec always encodes as JCS does."""

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def read_float(text: str) -> float:
    """Parse a float in Python: msgspec takes up to 20 microseconds for a number near the ends of the range, and with
    this hook a thread can release the interpreter lock between two numbers."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:32]} is out of range")
    return value


_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=read_float).decode


def content_hash(partitions: Sequence[str], event: bytes) -> bytes:
    """Return the SHA-256 digest by which a retry is recognised.

    `partitions` must be normalised; `event` is the JSON text of an object, as the client sent it. Raise
    `ValidationFailed` if it has no canonical form: a number beyond a double, a lone surrogate, or more than
    `limits.JSON_DEPTH_MAX` levels.
    """
    return decoded_content_hash(partitions, decode_event(event))


def content_hashes(partitions: Iterable[Sequence[str]], events: Iterable[bytes]) -> list[str]:
    """Return the same digests for many events, in hexadecimal. This takes about half as long as one by one."""
    decoded = list(map(decode_event, events))
    try:
        forms = list(map(_encode_sorted if _are_plain(decoded) else canonicalize, decoded))
    except UnicodeEncodeError:
        raise _lone_surrogate() from None
    names = map(_encode_sorted, partitions)
    return [hashlib.sha256(HASHED % both).hexdigest() for both in zip(forms, names, strict=True)]


def decoded_content_hash(partitions: Sequence[str], event: dict[str, Any]) -> bytes:
    """Return the same digest for a decoded event."""
    return hashlib.sha256(HASHED % (canonicalize(event), _encode_sorted(partitions))).digest()


def canonicalize(value: Any) -> bytes:
    """Return the JCS form of a decoded JSON value. Raise `ValidationFailed` if it has none."""
    try:
        if _is_plain(value):
            return _encode_sorted(value)
        return _serialize(value)
    except UnicodeEncodeError:
        raise _lone_surrogate() from None
    except RecursionError:  # the caller's stack was almost full
        raise _too_deep() from None


def decode_event(event: bytes) -> dict[str, Any]:
    """Decode the JSON text of an event. Raise `ValidationFailed` if it has no canonical form."""
    try:
        return _decode_object(event)
    except UnicodeDecodeError:
        raise ValidationFailed("the event is not UTF-8", field="event") from None
    except msgspec.ValidationError:
        if event[:1] == b"{":
            raise ValidationFailed("a number in the event is out of range", field="event") from None
        raise ValidationFailed("the event must be a JSON object", field="event") from None
    except msgspec.DecodeError:
        raise ValidationFailed("the event is not valid JSON", field="event") from None
    except RecursionError:
        raise _too_deep() from None


def _lone_surrogate() -> ValidationFailed:
    return ValidationFailed("a string in the event has a lone surrogate", field="event")


def _too_deep() -> ValidationFailed:
    return ValidationFailed(f"the event is nested more than {limits.JSON_DEPTH_MAX} levels deep", field="event")


def _is_plain(value: Any) -> bool:
    """Return whether msgspec encodes this value as JCS does. It escapes strings in the same way, but sorts keys by code
    point, and writes integral, large and small floats differently."""
    level: list[Any] = [value if type(value) is dict or type(value) is list else [value]]
    for _ in range(limits.JSON_DEPTH_MAX):
        inner: list[Any] = []
        for container in level:
            if type(container) is dict:
                keys = "".join(container)
                if not keys.isascii() and max(keys) > BMP_LAST:
                    return False
                container = container.values()
            for item in container:
                kind = type(item)
                if kind is str or kind is bool or item is None:
                    continue
                if kind is dict or kind is list:
                    inner.append(item)
                elif not _is_plain_number(item):
                    return False
        if not inner:
            return True
        level = inner
    raise _too_deep()


def _are_plain(values: Sequence[Any]) -> bool:
    """Return whether `_is_plain` is true of all these containers: level by level, with little Python code per value."""
    level = values
    for _ in range(limits.JSON_DEPTH_MAX):
        keys = "".join(chain.from_iterable([container for container in level if type(container) is dict]))
        if not keys.isascii() and max(keys) > BMP_LAST:
            return False
        parts = [container.values() if type(container) is dict else container for container in level]
        kinds = set(map(type, chain.from_iterable(parts))) - PLAIN_TYPES
        if not kinds:
            return True
        others = [item for item in chain.from_iterable(parts) if type(item) in kinds]
        level = [item for item in others if type(item) is dict or type(item) is list]
        if len(level) < len(others) and not all(
            _is_plain_number(item) for item in others if type(item) is not dict and type(item) is not list
        ):
            return False
    if level:
        raise _too_deep()
    return True


def _is_plain_number(value: Any) -> bool:
    if type(value) is int:
        return -limits.INTEGER_MAX <= value <= limits.INTEGER_MAX
    return type(value) is float and FLOAT_PLAIN_MIN <= abs(value) < FLOAT_PLAIN_MAX and not value.is_integer()


def _serialize(value: Any) -> bytes:
    """Return the JCS form of any value."""
    parts: list[bytes] = []
    _write(value, parts.append, limits.JSON_DEPTH_MAX)
    return b"".join(parts)


def _write(value: Any, put: Callable[[bytes], None], levels_left: int) -> None:
    if isinstance(value, str) or value is None or isinstance(value, bool):
        put(_encode_sorted(value))
    elif isinstance(value, int | float):
        put(_number(value).encode())
    elif levels_left == 0:
        raise _too_deep()
    elif isinstance(value, dict):
        separator = b"{"
        for key in sorted(value, key=_utf16_units):
            put(separator + _encode_sorted(key) + b":")
            _write(value[key], put, levels_left - 1)
            separator = b","
        put(b"}" if value else b"{}")
    elif isinstance(value, list):
        separator = b"["
        for item in value:
            put(separator)
            _write(item, put, levels_left - 1)
            separator = b","
        put(b"]" if value else b"[]")
    else:
        raise TypeError(f"not a JSON value: {type(value).__name__}")


def _utf16_units(key: str) -> bytes:
    return key.encode("utf-16-be")  # big-endian bytes sort as their UTF-16 units do


def _number(value: int | float) -> str:
    """Format a number as ECMA-262 Number::toString does: the fewest digits that identify the double, and no exponent
    from 1e-6 up to, but not including, 1e21."""
    if isinstance(value, int) and abs(value) <= limits.INTEGER_MAX:
        return str(value)
    double = _double(value)
    size = abs(double)
    if FLOAT_PLAIN_MIN <= size < 1e16:
        return repr(double).removesuffix(".0")
    if size >= 1e21:
        return repr(double)  # Python and ECMAScript agree on these
    digits, point = _digits(double)
    sign = "-" if value < 0 else ""
    if not digits:
        return "0"  # -0 too
    if 0 < point <= 21:
        whole, fraction = digits[:point].ljust(point, "0"), digits[point:]
    elif -6 < point <= 0:
        whole, fraction = "0", "0" * -point + digits
    else:
        whole, fraction = digits[0], digits[1:]
        return f"{sign}{whole}{'.' if fraction else ''}{fraction}e{point - 1:+d}"
    return f"{sign}{whole}{'.' if fraction else ''}{fraction}"


def _double(value: int | float) -> float:
    try:
        double = float(value)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double):
        raise ValidationFailed("a number in the event is out of range", field="event")
    return double


def _digits(double: float) -> tuple[str, int]:
    """Return the shortest digits that round to |double|, and the exponent `point` of 0.<digits> * 10^point."""
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole) + len(fraction) - len(digits)
    return digits.rstrip("0"), len(whole) + int(exponent or 0) - leading_zeros
