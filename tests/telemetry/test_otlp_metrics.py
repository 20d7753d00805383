"""The metrics of `/metrics` arrive at a collector, too: the same names, labels and values."""

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from prometheus_client.parser import text_string_to_metric_families

from mainstem import __version__
from tests.telemetry.conftest import export_to

TEXT = {"content-type": "text/plain"}
WAIT_S_MAX = 20


def export_metrics(url, **more):
    return export_to(
        url,
        OTEL_TRACES_EXPORTER="none",
        **{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "100", **more},
    )


def labels(point):
    return {attribute.key: attribute.value.string_value for attribute in point.attributes}


def wait_until(collector, condition):
    """Return the first export for which a condition is true."""
    while True:
        metrics = collector.metrics.get(timeout=WAIT_S_MAX)
        if condition(metrics):
            return metrics


def count_commits(metrics):
    (point,) = metrics["mainstem_log_commits_total"].sum.data_points
    return point.as_int


def test_the_collector_gets_what_a_scrape_gets(start_server, connect_to, own_collector):
    server = start_server(environment=export_metrics(own_collector.url))
    client = connect_to(server)
    before = count_commits(own_collector.metrics.get(timeout=WAIT_S_MAX))
    client.put("/v1/stream/a", headers=TEXT)
    for _ in range(9):
        assert client.post("/v1/stream/a", headers=TEXT, content=b"12345").status_code == 204
    metrics = wait_until(own_collector, lambda metrics: count_commits(metrics) == before + 10)
    scraped = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(client.get("/metrics").text)
        if family.samples
    }
    assert set(metrics) == set(scraped)
    for name, metric in metrics.items():
        kind = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[scraped[name].type]
        assert metric.WhichOneof("data") == kind
        assert metric.description == scraped[name].documentation

    commits = metrics["mainstem_log_commits_total"].sum
    assert commits.is_monotonic
    assert commits.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    assert 0 < commits.data_points[0].start_time_unix_nano < commits.data_points[0].time_unix_nano

    seconds = metrics["mainstem_http_request_duration_seconds"]
    assert seconds.unit == "s"
    point = next(point for point in seconds.histogram.data_points if labels(point)["method"] == "POST")
    assert labels(point) == {"route": "/v1/stream/{path}", "method": "POST"}
    assert point.count == sum(point.bucket_counts) == 9
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert point.sum > 0
    assert not point.HasField("min")
    assert metrics["mainstem_store_bytes"].unit == "By"
    assert metrics["mainstem_store_bytes"].gauge.data_points
    assert own_collector.metric_resources[0]["service.name"] == "mainstem"
    assert own_collector.metric_resources[0]["service.version"] == __version__
    assert own_collector.spans == []


def test_metrics_are_exported_even_if_nobody_may_scrape_them(start_server, connect_to, own_collector):
    server = start_server("--metrics", "off", environment=export_metrics(own_collector.url))
    client = connect_to(server)
    assert client.get("/metrics").status_code == 404
    metrics = wait_until(own_collector, lambda metrics: "mainstem_http_requests_total" in metrics)
    (point,) = metrics["mainstem_http_requests_total"].sum.data_points
    assert labels(point) == {"route": "/metrics", "method": "GET", "status": "404", "code": "not_found"}
    assert metrics["process_cpu_seconds_total"].sum.data_points[0].as_double > 0


def test_the_last_values_are_exported_when_the_server_stops(start_server, connect_to, own_collector):
    variables = export_metrics(own_collector.url, OTEL_METRIC_EXPORT_INTERVAL="600000")
    server = start_server(environment=variables)
    connect_to(server).put("/v1/stream/a", headers=TEXT)
    assert server.terminate() == 0
    metrics = own_collector.metrics.get(timeout=WAIT_S_MAX)
    (point,) = metrics["mainstem_http_requests_total"].sum.data_points
    assert labels(point)["route"] == "/v1/stream/{path}"
    assert own_collector.metrics.empty()


@pytest.mark.parametrize("value", ["soon", "-1", "0", "99"])
def test_an_invalid_interval_is_reported(start_server, own_collector, value):
    server = start_server(environment=export_metrics(own_collector.url, OTEL_METRIC_EXPORT_INTERVAL=value))
    assert f"OTEL_METRIC_EXPORT_INTERVAL is '{value}'; it must be a number of milliseconds" in server.stderr
