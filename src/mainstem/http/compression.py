"""Content-Encoding: choosing one that the client accepts, and the encoders."""

import sys
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import brotli

from mainstem import limits

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def _gzip(data: bytes) -> bytes:
    return zlib.compress(data, level=5, wbits=31)


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data, level=5)  # RFC 9110: "deflate" is the zlib format


def _brotli(data: bytes) -> bytes:
    encoded: bytes = brotli.compress(data, quality=4)
    return encoded


def _zstd(data: bytes) -> bytes:
    encoded: bytes = zstd.compress(data, level=3)
    return encoded


# In the order of the server's preference: the best ratio of size to time first.
ENCODERS: dict[str, Callable[[bytes], bytes]] = {"zstd": _zstd, "br": _brotli, "gzip": _gzip, "deflate": _deflate}


def choose_encoding(accept_encoding: str, size: int) -> str | None:
    """Return the encoding for a body of this size; None for no encoding."""
    return None if size < limits.COMPRESS_BYTES_MIN else prefer_encoding(accept_encoding)


def prefer_encoding(accept_encoding: str) -> str | None:
    """Return the encoding for a body that is not small; None for no encoding."""
    if not accept_encoding:
        return None
    if len(accept_encoding) <= ACCEPT_REMEMBERED_CHARS:
        return _prefer_known(accept_encoding)
    return _prefer(accept_encoding)


def _prefer(accept_encoding: str) -> str | None:
    weights = dict(_parse(accept_encoding))
    for name in ENCODERS:
        if weights.get(name, weights.get("*", 0.0)) > 0:
            return name
    return None


ACCEPT_REMEMBERED_CHARS: Final = 128
_prefer_known = lru_cache(maxsize=256)(_prefer)


def _parse(accept_encoding: str) -> list[tuple[str, float]]:
    weights: list[tuple[str, float]] = []
    for item in accept_encoding.split(","):
        name, _, parameter = item.partition(";")
        key, _, value = parameter.partition("=")
        try:
            weight = float(value) if key.strip().lower() == "q" else 1.0
        except ValueError:
            weight = 0.0
        weights.append((name.strip().lower(), weight))
    return weights
