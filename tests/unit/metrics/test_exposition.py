"""What is encoded here must be what the parsers of Prometheus read."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.exposition import OPEN_METRICS, TEXT, choose_format, encode, format_number
from mainstem.metrics.instruments import Counter, Family, Gauge, Histogram, Kind

PARSERS = {TEXT: parse_text, OPEN_METRICS: parse_open_metrics}


def parse(families: list[Family[Any]], format_: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = encode(families, format_).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in PARSERS[format_](text)
        for sample in family.samples
    }


@pytest.mark.parametrize("format_", PARSERS)
def test_every_metric_of_the_server_is_read_by_the_parser(format_):
    metrics = Metrics()
    metrics.requests.of("/v1/stream/{path}", "GET", "200", "").add(3)
    metrics.request_seconds.of("/v1/stream/{path}", "GET").observe(0.002)
    metrics.head.read_with(lambda: 2**53)
    read = parse(metrics.families, format_)
    labels = (("code", ""), ("method", "GET"), ("route", "/v1/stream/{path}"), ("status", "200"))
    assert read["mainstem_http_requests_total", labels] == 3
    assert read["mainstem_log_head", ()] == 2**53
    route = (("method", "GET"), ("route", "/v1/stream/{path}"))
    assert read["mainstem_http_request_duration_seconds_count", route] == 1
    assert read["mainstem_http_request_duration_seconds_bucket", (("le", "0.001"), *route)] == 0
    assert read["mainstem_http_request_duration_seconds_bucket", (("le", "0.0025"), *route)] == 1
    assert read["mainstem_http_request_duration_seconds_bucket", (("le", "+Inf"), *route)] == 1


@pytest.mark.parametrize("format_", PARSERS)
@given(st.text(), st.floats(allow_nan=False))
def test_any_label_value_and_any_number_survive(format_, value, number):
    family: Family[Gauge] = Family("weight_bytes", Kind.GAUGE, 'A "weight" \\ of\nlines.', ("name",), Gauge, 10)
    family.of(value).value = number
    assert parse([family], format_) == {("weight_bytes", (("name", value),)): number}


def test_buckets_are_cumulative():
    family: Family[Histogram] = Family("t_seconds", Kind.HISTOGRAM, "T.", (), lambda: Histogram((1, 2)), 10)
    for value in (0.5, 1.5, 1.7, 9):
        family.of().observe(value)
    assert parse([family], OPEN_METRICS) == {
        ("t_seconds_bucket", (("le", "1.0"),)): 1,
        ("t_seconds_bucket", (("le", "2.0"),)): 3,
        ("t_seconds_bucket", (("le", "+Inf"),)): 4,
        ("t_seconds_count", ()): 4,
        ("t_seconds_sum", ()): pytest.approx(12.7),
    }


def test_open_metrics_names_the_unit_and_ends_with_eof():
    family: Family[Counter] = Family("sent_bytes_total", Kind.COUNTER, "Sent.", (), Counter, 10)
    family.of().add(7)
    assert encode([family], OPEN_METRICS).decode().splitlines() == [
        "# HELP sent_bytes Sent.",
        "# TYPE sent_bytes counter",
        "# UNIT sent_bytes bytes",
        "sent_bytes_total 7",
        "# EOF",
    ]


@pytest.mark.parametrize(
    ("accept", "format_"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4", OPEN_METRICS),
        ("application/openmetrics-text;q=0.2, text/plain;version=0.0.4;q=0.3", TEXT),
        ("application/openmetrics-text;q=x", TEXT),
        (";;;,,q=,", TEXT),
    ],
)
def test_the_scraper_chooses_the_format(accept, format_):
    assert choose_format(accept) == format_


def test_numbers_are_written_as_prometheus_writes_them():
    assert [format_number(number) for number in (3, 0.5, 1e-9, math.inf, -math.inf, math.nan)] == [
        "3",
        "0.5",
        "1e-09",
        "+Inf",
        "-Inf",
        "NaN",
    ]
