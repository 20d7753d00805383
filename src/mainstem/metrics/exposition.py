"""The formats in which a monitoring system reads metrics: Prometheus text, and OpenMetrics 1.0."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mainstem.metrics.instruments import Family, Histogram, Kind, Labels

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
UNITS: Final = ("seconds", "bytes")
TOTAL: Final = "_total"


def choose_format(accept: str) -> str:
    """Return the content type that an Accept header prefers. Prometheus text is for everybody who does not ask."""
    preferred, best = TEXT, 0.0
    for item in accept.split(","):
        media, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = _quality(parameters)
        format_ = OPEN_METRICS if media == "application/openmetrics-text" else TEXT
        if quality > best:
            preferred, best = format_, quality
    return preferred


def _quality(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def encode(families: Iterable[Family[Any]], format_: str) -> bytes:
    """Return the current values of all families."""
    open_metrics = format_ == OPEN_METRICS
    lines: list[str] = []
    for family in families:
        lines += _describe(family, open_metrics)
        lines += _list_samples(family)
    if open_metrics:
        lines.append("# EOF")
    return ("\n".join(lines) + "\n").encode()


def _describe(family: Family[Any], open_metrics: bool) -> Iterator[str]:
    name = family.name.removesuffix(TOTAL) if open_metrics else family.name
    meaning = family.meaning.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {family.kind}"
    unit = name.rpartition("_")[2]
    if open_metrics and unit in UNITS:
        yield f"# UNIT {name} {unit}"


def _list_samples(family: Family[Any]) -> Iterator[str]:
    if family.read is not None:
        for values, number in family.read():
            yield f"{family.name}{_format_labels(family.labels, values)} {format_number(number)}"
        return
    for values, child in list(family.children.items()):
        if family.kind is Kind.HISTOGRAM:
            yield from _list_buckets(family, values, child)
        else:
            yield f"{family.name}{_format_labels(family.labels, values)} {format_number(child.value)}"


def _list_buckets(family: Family[Histogram], values: Labels, child: Histogram) -> Iterator[str]:
    names = (*family.labels, "le")
    count = 0
    for bound, number in zip((*child.bounds, math.inf), child.counts, strict=True):
        count += number
        yield f"{family.name}_bucket{_format_labels(names, (*values, format_number(float(bound))))} {count}"
    labels = _format_labels(family.labels, values)
    yield f"{family.name}_count{labels} {count}"
    yield f"{family.name}_sum{labels} {format_number(child.sum)}"


def _format_labels(names: Sequence[str], values: Sequence[str]) -> str:
    if not names:
        return ""
    pairs = [f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True)]
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def format_number(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return "NaN" if math.isnan(number) else repr(number)
