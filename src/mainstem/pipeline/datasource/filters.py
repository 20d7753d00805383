"""Filters that the server can apply: ids, streams, kinds, partitions and times. Spark applies the others."""

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
from mainstem.pipeline.log_reader import Selection

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Scan:
    """A range of ids, and a selection of its rows. It matches nothing if the filters contradict each other."""

    after: int
    until: int
    selection: Selection
    matches_nothing: bool = False


def push_filters(scan: Scan, filters: Iterable[Filter]) -> tuple[Scan, list[Filter]]:
    """Return the narrowed scan, and the filters that Spark must still apply."""
    left = []
    for filter_ in filters:
        narrowed = _push_one(scan, filter_)
        if narrowed is None:
            left.append(filter_)
            continue
        scan, exact = narrowed
        if not exact:
            left.append(filter_)
    return scan, left


def _push_one(scan: Scan, filter_: Filter) -> tuple[Scan, bool] | None:
    """Return the narrowed scan, and whether it is exactly the filter; None if the server has no such filter."""
    attribute = getattr(filter_, "attribute", None)
    if attribute is None or len(attribute) != 1:
        return None
    name, value = attribute[0].lower(), getattr(filter_, "value", None)
    if value is None:
        return None
    if name == "committed_id":
        return _push_id(scan, filter_, value)
    if name == "committed_at" and isinstance(value, datetime.datetime):
        return _push_time(scan, filter_, value)
    if name == "stream":
        return _push_stream(scan, filter_, value)
    if name == "kind" and isinstance(filter_, EqualTo):
        return _push_kind(scan, value), True
    if name == "partitions" and isinstance(filter_, EqualTo) and not scan.selection.partitions:
        return _push_partitions(scan, value)
    return None


def _push_id(scan: Scan, filter_: Filter, value: Any) -> tuple[Scan, bool] | None:
    if isinstance(filter_, In):
        values = [one for one in value if one is not None]
        if not values:
            return replace(scan, matches_nothing=True), True
        low, high, exact = min(values), max(values), len(set(values)) == 1
    elif isinstance(filter_, EqualTo):
        low, high, exact = value, value, True
    elif isinstance(filter_, GreaterThan):
        low, high, exact = value + 1, scan.until, True
    elif isinstance(filter_, GreaterThanOrEqual):
        low, high, exact = value, scan.until, True
    elif isinstance(filter_, LessThan):
        low, high, exact = 0, value - 1, True
    elif isinstance(filter_, LessThanOrEqual):
        low, high, exact = 0, value, True
    else:
        return None
    after, until = max(scan.after, low - 1), min(scan.until, high)
    return replace(scan, after=after, until=max(until, after)), exact


def _push_time(scan: Scan, filter_: Filter, value: datetime.datetime) -> tuple[Scan, bool] | None:
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
    selection = scan.selection
    since = max(since, selection.since_us or 0)
    before = min(before, limits.INTEGER_MAX if selection.before_us is None else selection.before_us)
    if since >= before:
        return replace(scan, matches_nothing=True), True
    selection = replace(
        selection, since_us=since or None, before_us=None if before == limits.INTEGER_MAX else max(before, 0)
    )
    return replace(scan, selection=selection), True


def _push_stream(scan: Scan, filter_: Filter, value: Any) -> tuple[Scan, bool] | None:
    selection = scan.selection
    if isinstance(filter_, StringStartsWith):
        if value.startswith(selection.prefix):
            return replace(scan, selection=replace(selection, prefix=value)), True
        contradicts = not selection.prefix.startswith(value)
        return replace(scan, matches_nothing=scan.matches_nothing or contradicts), True
    if isinstance(filter_, EqualTo):
        values = [value]
    elif isinstance(filter_, In):
        values = [one for one in value if one is not None]
    else:
        return None
    if sum(len(quote(one)) for one in values) > limits.PUSHED_BYTES_MAX or any("*" in one for one in values):
        return None  # too long for a URL, or the server would take it for a glob
    kept = tuple(one for one in values if _may_match(selection, one))
    if not kept:
        return replace(scan, matches_nothing=True), True
    return replace(scan, selection=replace(selection, streams=kept)), True


def _may_match(selection: Selection, stream: str) -> bool:
    return not selection.streams or any(matches(pattern, stream) for pattern in selection.streams)


def _push_kind(scan: Scan, value: str) -> Scan:
    if value not in ("stream", "event") or scan.selection.kind not in (None, value):
        return replace(scan, matches_nothing=True)
    return replace(scan, selection=replace(scan.selection, kind=value))


def _push_partitions(scan: Scan, value: Any) -> tuple[Scan, bool] | None:
    """Narrow to the first of these partitions, which every matching event has."""
    if not value or not all(isinstance(one, str) and one for one in value):
        return None
    return replace(scan, selection=replace(scan.selection, partitions=(value[0],))), False
