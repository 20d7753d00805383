"""JSON encoding that refuses NaN and Infinity, which msgspec silently writes as null."""

import math
from typing import Any, NoReturn

import msgspec


class NotJson(ValueError):
    """A value that cannot be written as JSON; the text says why."""


def _refuse(value: Any) -> NoReturn:
    raise NotJson(f"JSON has no {type(value).__name__}")


_encode = msgspec.json.Encoder(enc_hook=_refuse).encode


def encode_json(value: Any) -> bytes:
    """Return the value as JSON, or raise `NotJson`."""
    try:
        data = _encode(value)
    except NotJson:
        raise
    except UnicodeEncodeError:
        raise NotJson("it contains text that is not valid Unicode") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise NotJson("it contains a value or a key that JSON does not have") from error
    if b"null" in data and _has_no_number(msgspec.to_builtins(value, enc_hook=repr)):
        raise NotJson("JSON has no NaN and no Infinity")
    return data


def _has_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_number, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_number, value))
