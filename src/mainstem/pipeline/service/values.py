"""Converts the values of a file of the service. Each function raises ValueError for a value that is not valid."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from mainstem import limits
from mainstem.pipeline.jobs.durations import parse_seconds
from mainstem.pipeline.service.definition import Endpoint

MEMORY = re.compile(r"([1-9][0-9]{0,6})\s*([mg])i?b?", re.IGNORECASE)
ENDPOINT = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+):([0-9]{1,5})", re.IGNORECASE)


def read_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def read_number(least: int, most: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(value)
        return value

    return convert


def read_url(value: Any) -> str:
    parts = urlsplit(read_text(value))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(value)
    return str(value).rstrip("/")


def read_retry(value: Any) -> float:
    seconds = parse_seconds(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError(value)
    if not 0 <= seconds <= limits.PIPELINE_RETRY_S_MAX:
        raise ValueError(value)
    return float(seconds)


def read_endpoint(value: Any) -> Endpoint:
    found = ENDPOINT.fullmatch(read_text(value))
    if found is None or int(found[2]) > 65_535:
        raise ValueError(value)
    return Endpoint(found[1].strip("[]"), int(found[2]))


def read_bytes(size: str) -> int:
    """Return a size such as 512m or 2g in bytes. Raises ValueError for any other text."""
    found = MEMORY.fullmatch(size)
    if found is None:
        raise ValueError(size)
    return int(found[1]) * (1_024**2 if found[2].lower() == "m" else 1_024**3)


def read_memory(value: Any) -> str:
    """Return a size in the form of Spark."""
    return f"{read_bytes(read_text(value)) // 1_024**2}m"


def read_worker_memory(value: Any) -> str:
    if read_bytes(read_text(value)) < limits.WORKER_MEMORY_BYTES_MIN:
        raise ValueError(value)
    return read_memory(value)


def read_conf(value: Any) -> dict[str, str]:
    """Return settings of Spark as text. A key without quotes is a table in TOML, so `spark.a.b = 1` is put together."""
    if not isinstance(value, dict):
        raise ValueError(value)
    found: dict[str, str] = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            found |= {f"{name}.{rest}": text for rest, text in read_conf(inner).items()}
        elif isinstance(inner, bool):
            found[name] = str(inner).lower()
        elif isinstance(inner, str | int | float):
            found[name] = str(inner)
        else:
            raise ValueError(value)
    return found
