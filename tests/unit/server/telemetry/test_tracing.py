"""Spans: which are errors, and what they leave out."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from mainstem import limits
from mainstem.errors import BadOffset, StoreFailed
from mainstem.server.proxies import Proxies
from mainstem.server.telemetry.tracing import Tracing
from mainstem.traces import Delivery, SettledCommand


@pytest.fixture
def exported():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exported):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return Tracing(provider, lambda method, path, query: "/v1/stream/{path}", Proxies(()))


def begin(tracing, path=b"/v1/stream/a"):
    scope = {"method": "GET", "headers": [], "query_string": b"", "client": ("203.0.113.9", 1)}
    span = tracing.begin_embedded(scope, path)
    assert span is not None
    return span


def settle(outcome):
    return SettledCommand(None, outcome, not isinstance(outcome, Exception), 10, 20, 30, 1, 0, 0)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (200, "", None),
        (404, "stream_not_found", None),
        (0, "", None),
        (503, "overloaded", "overloaded"),
        (500, "", "500"),
    ],
)
def test_only_an_error_of_the_server_is_one(tracing, exported, status, code, error):
    begin(tracing).end(status, code, "id")
    (span,) = exported.get_finished_spans()
    assert span.attributes.get("error.type") == error
    assert (span.status.status_code is StatusCode.ERROR) == (error is not None)
    assert span.attributes.get("http.response.status_code") == (status or None)
    assert span.attributes.get("mainstem.error_code") == (code or None)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [("done", None), (BadOffset("no"), None), (StoreFailed("no"), StoreFailed.code), (KeyError("a bug"), "KeyError")],
)
def test_a_refused_command_is_no_failed_commit(tracing, exported, outcome, error):
    span = begin(tracing)
    span.add_command(settle(outcome))
    span.end(200, "", "id")
    queue, commit, _ = exported.get_finished_spans()
    assert (queue.name, queue.start_time, queue.end_time) == ("queue", 10, 20)
    assert (commit.name, commit.start_time, commit.end_time) == ("commit", 20, 30)
    assert commit.attributes.get("error.type") == error
    assert queue.status.status_code is StatusCode.UNSET


def test_a_page_of_a_request_that_is_over_belongs_to_nobody(tracing, exported):
    span = begin(tracing)
    span.end(200, "", "id")
    span.add_page(10, 5)
    assert [span.name for span in exported.get_finished_spans()] == ["GET /v1/stream/{path}"]


def test_a_long_path_is_cut(tracing, exported):
    begin(tracing, b"/v1/stream/" + b"a" * 10_000).end(200, "", "id")
    (span,) = exported.get_finished_spans()
    assert len(span.attributes["url.path"]) == limits.ACCESS_FIELD_CHARACTERS_MAX


def test_a_call_of_a_webhook_has_no_secret_of_its_url(tracing, exported):
    delivery = Delivery("name", "w_1", "https://example.org/secret?key=secret", 0, [("a", "0", "1")])
    trace = tracing.begin_delivery(delivery)
    assert set(trace.headers) == {"traceparent"}
    trace.end(204)
    (span,) = exported.get_finished_spans()
    assert span.attributes["server.address"] == "example.org"
    assert span.attributes["server.port"] == 443
    assert "secret" not in span.to_json()
