"""Filters that the server can apply: ids, streams, kinds, partitions and times. The others stay with Spark."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from mainstem import limits
from mainstem.globs import matches
from mainstem.pipeline.log_pages import Selection

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Wanted:
    """A range of ids, and which rows of it. `nothing` says that the filters exclude each other."""

    after: int
    until: int
    selection: Selection
    nothing: bool = False


def push(wanted: Wanted, filters: Iterable[Filter]) -> tuple[Wanted, list[Filter]]:
    """What is left to look at, and the filters that Spark must still apply."""
    left = []
    for filter_ in filters:
        narrowed = _push_one(wanted, filter_)
        if narrowed is None:
            left.append(filter_)
            continue
        wanted, exact = narrowed
        if not exact:
            left.append(filter_)
    return wanted, left


def _push_one(wanted: Wanted, filter_: Filter) -> tuple[Wanted, bool] | None:
    """The narrowed range, and whether the server's filter says exactly the same; None if it has none like it."""
    attribute = getattr(filter_, "attribute", None)
    if attribute is None or len(attribute) != 1:
        return None
    name, value = attribute[0].lower(), getattr(filter_, "value", None)
    if value is None:
        return None
    if name == "committed_id":
        return _push_id(wanted, filter_, value)
    if name == "committed_at" and isinstance(value, datetime.datetime):
        return _push_time(wanted, filter_, value)
    if name == "stream":
        return _push_stream(wanted, filter_, value)
    if name == "kind" and isinstance(filter_, EqualTo):
        return _push_kind(wanted, value), True
    if name == "partitions" and isinstance(filter_, EqualTo) and not wanted.selection.partitions:
        return _push_partitions(wanted, value)
    return None


def _push_id(wanted: Wanted, filter_: Filter, value: Any) -> tuple[Wanted, bool] | None:
    if isinstance(filter_, In):
        values = [one for one in value if one is not None]
        if not values:
            return replace(wanted, nothing=True), True
        low, high, exact = min(values), max(values), len(set(values)) == 1
    elif isinstance(filter_, EqualTo):
        low, high, exact = value, value, True
    elif isinstance(filter_, GreaterThan):
        low, high, exact = value + 1, wanted.until, True
    elif isinstance(filter_, GreaterThanOrEqual):
        low, high, exact = value, wanted.until, True
    elif isinstance(filter_, LessThan):
        low, high, exact = 0, value - 1, True
    elif isinstance(filter_, LessThanOrEqual):
        low, high, exact = 0, value, True
    else:
        return None
    after, until = max(wanted.after, low - 1), min(wanted.until, high)
    return replace(wanted, after=after, until=max(until, after)), exact


def _push_time(wanted: Wanted, filter_: Filter, value: datetime.datetime) -> tuple[Wanted, bool] | None:
    if value.tzinfo is None:
        return None
    micros = (value - EPOCH) // datetime.timedelta(microseconds=1)
    since, before = 0, limits.INTEGER_MAX
    if isinstance(filter_, EqualTo):
        since, before = micros, micros + 1
    elif isinstance(filter_, GreaterThan):
        since = micros + 1
    elif isinstance(filter_, GreaterThanOrEqual):
        since = micros
    elif isinstance(filter_, LessThan):
        before = micros
    elif isinstance(filter_, LessThanOrEqual):
        before = micros + 1
    else:
        return None
    selection = wanted.selection
    since = max(since, selection.since_us or 0)
    before = min(before, limits.INTEGER_MAX if selection.before_us is None else selection.before_us)
    if since >= before:
        return replace(wanted, nothing=True), True
    selection = replace(
        selection, since_us=since or None, before_us=None if before == limits.INTEGER_MAX else max(before, 0)
    )
    return replace(wanted, selection=selection), True


def _push_stream(wanted: Wanted, filter_: Filter, value: Any) -> tuple[Wanted, bool] | None:
    selection = wanted.selection
    if isinstance(filter_, StringStartsWith):
        if value.startswith(selection.prefix):
            return replace(wanted, selection=replace(selection, prefix=value)), True
        return replace(wanted, nothing=not selection.prefix.startswith(value)), True
    if isinstance(filter_, EqualTo):
        values = [value]
    elif isinstance(filter_, In):
        values = [one for one in value if one is not None]
    else:
        return None
    if sum(len(quote(one)) for one in values) > limits.PUSHED_BYTES_MAX or any("*" in one for one in values):
        return None  # too long for a URL, or a glob there
    kept = tuple(one for one in values if _takes(selection, one))
    if not kept:
        return replace(wanted, nothing=True), True
    return replace(wanted, selection=replace(selection, streams=kept)), True


def _takes(selection: Selection, stream: str) -> bool:
    return not selection.streams or any(matches(pattern, stream) for pattern in selection.streams)


def _push_kind(wanted: Wanted, value: str) -> Wanted:
    if value not in ("stream", "event") or wanted.selection.kind not in (None, value):
        return replace(wanted, nothing=True)
    return replace(wanted, selection=replace(wanted.selection, kind=value))


def _push_partitions(wanted: Wanted, value: Any) -> tuple[Wanted, bool] | None:
    """Whoever has exactly these partitions has the first of them."""
    if not value or not all(isinstance(one, str) and one for one in value):
        return None
    return replace(wanted, selection=replace(wanted.selection, partitions=(value[0],))), False
