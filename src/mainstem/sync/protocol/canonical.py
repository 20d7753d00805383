"""Canonical equality: two submissions with one id are the same event when their RFC 8785 (JCS) forms are.

JCS sorts keys by UTF-16 code units and writes numbers as ECMAScript does, so 1, 1.0 and 1e0 are one number, and so are
two integers beyond 2^53 that round to one double. Strings are compared as sent, not normalised. Of a repeated key the
last one counts, as in JavaScript.

Nearly all events hold nothing on which msgspec's own sorted encoder and JCS differ; `_is_plain` tells them, and the
exact serializer takes the others.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import ValidationFailed

FLOAT_PLAIN_MIN: Final = 1e-4
FLOAT_PLAIN_MAX: Final = 1e15  # from about here on, and below 1e-6, encoders choose their exponents differently

BMP_LAST: Final = "\uffff"  # up to here the order of code points is the order of UTF-16 units

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def read_float(text: str) -> float:
    """msgspec takes up to 20 microseconds for a number near the ends of the range; Python's own reader does not. And a
    thread that runs this gives up the interpreter lock between two numbers."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is out of range")
    return value


_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=read_float).decode


def content_hash(partitions: Sequence[str], event: bytes) -> bytes:
    """The SHA-256 digest under which a retry is known again.

    `partitions` are normalised already; `event` is the JSON of an object, as it was sent. What has no canonical form
    (a number beyond a double, a lone surrogate, more than `limits.JSON_DEPTH_MAX` levels) is `ValidationFailed`.
    """
    return decoded_content_hash(partitions, decode_event(event))


def decoded_content_hash(partitions: Sequence[str], event: dict[str, Any]) -> bytes:
    """The same for an event that is decoded already."""
    names = _encode_sorted(partitions)
    return hashlib.sha256(b'{"event":%b,"partitions":%b}' % (canonicalize(event), names)).digest()


def canonicalize(value: Any) -> bytes:
    """The JCS form of a decoded JSON value; `ValidationFailed` where it has none."""
    try:
        if _is_plain(value):
            return _encode_sorted(value)
        return _serialize(value)
    except UnicodeEncodeError:
        raise ValidationFailed("a string holds a lone surrogate", field="event") from None
    except RecursionError:  # the caller's stack was nearly full
        raise _too_deep() from None


def decode_event(event: bytes) -> dict[str, Any]:
    """The value of an event; `ValidationFailed` if that has no canonical form."""
    try:
        return _decode_object(event)
    except UnicodeDecodeError as error:
        raise ValidationFailed(f"the event is not UTF-8: {error.reason}", field="event") from None
    except msgspec.DecodeError as error:  # a ValidationError too: a number out of range, or not an object
        raise ValidationFailed(f"the event has no canonical form: {error}", field="event") from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ValidationFailed:
    return ValidationFailed(f"the event is nested more than {limits.JSON_DEPTH_MAX} levels deep", field="event")


def _is_plain(value: Any) -> bool:
    """Whether msgspec writes this value as JCS does. Its escapes are JCS's; its order of keys is that of code points,
    and its numbers differ where they are integral floats, large, or small."""
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


def _is_plain_number(value: Any) -> bool:
    if type(value) is int:
        return -limits.INTEGER_MAX <= value <= limits.INTEGER_MAX
    return type(value) is float and FLOAT_PLAIN_MIN <= abs(value) < FLOAT_PLAIN_MAX and not value.is_integer()


def _serialize(value: Any) -> bytes:
    """JCS to the letter, for any value."""
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
    return key.encode("utf-16-be")  # big-endian bytes compare as their units do


def _number(value: int | float) -> str:
    """ECMA-262 Number::toString: as many digits as the double needs; no exponent from 1e-6 up to below 1e21."""
    if isinstance(value, int) and abs(value) <= limits.INTEGER_MAX:
        return str(value)
    double = _double(value)
    size = abs(double)
    if FLOAT_PLAIN_MIN <= size < 1e16:
        return repr(double).removesuffix(".0")
    if size >= 1e21:
        return repr(double)  # Python's way and ECMAScript's are the same there
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
        raise ValidationFailed("a number is not a finite double", field="event")
    return double


def _digits(double: float) -> tuple[str, int]:
    """The shortest digits that round to |double|, and where the decimal point stands in them: 0.<digits> * 10^point."""
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole) + len(fraction) - len(digits)
    return digits.rstrip("0"), len(whole) + int(exponent or 0) - leading_zeros
