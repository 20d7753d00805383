"""Values as JSON, without the one thing that msgspec changes in silence: it writes NaN and Infinity as null."""

import math
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


def encode_json(value: Any) -> bytes:
    """Raises TypeError, ValueError or RecursionError for what cannot be JSON."""
    data = _encode(value)
    if b"null" in data and _has_no_number(msgspec.to_builtins(value, enc_hook=repr)):
        raise ValueError("JSON has no NaN and no Infinity")
    return data


def _has_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_number, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_number, value))
