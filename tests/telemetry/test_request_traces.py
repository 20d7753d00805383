"""A request is a span in the trace of its caller, with children for the queue, the commit and pages."""

import json
import socket

import pytest

from tests.support.collectors import ERROR
from tests.support.sync_peers import Peers, draft
from tests.telemetry.conftest import export_to

SERVER, INTERNAL = 2, 1
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
ROOT = "/v1/stream/"


def test_an_append_continues_the_trace_of_its_caller(traced, collector, caller, path):
    traced.put(ROOT + path, headers=TEXT)
    headers = {**TEXT, **caller.headers, "tracestate": "vendor=a", "x-request-id": "my-request"}
    reply = traced.post(f"{ROOT}{path}", headers=headers, content=b"hello")
    assert (reply.status_code, reply.headers["x-request-id"]) == (204, "my-request")
    span = collector.wait_for("POST /v1/stream/{path}", url__path=ROOT + path)
    assert (span.trace_id, span.parent_id, span.kind) == (caller.trace_id, caller.span_id, SERVER)
    assert span.trace_state == "vendor=a"
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/stream/{path}",
        "http.response.status_code": 204,
        "url.path": ROOT + path,
        "url.scheme": "http",
        "client.address": "127.0.0.1",
        "mainstem.request_id": "my-request",
    }
    queue, commit = collector.children(span, "queue", "commit")
    assert [queue.name, commit.name] == ["queue", "commit"]
    assert queue.trace_id == commit.trace_id == caller.trace_id
    assert span.began_ns <= queue.began_ns <= queue.ended_ns == commit.began_ns <= commit.ended_ns <= span.ended_ns
    assert commit.attributes["mainstem.batch_commands"] == 1
    first, last = (commit.attributes[f"mainstem.{end}_committed_id"] for end in ("first", "last"))
    assert first == last
    assert f'"committed_id":{first}' in traced.get("/v1/log", params={"stream": path}).text.replace(" ", "")


def test_an_append_in_a_task_has_the_same_spans(traced, collector, caller, path):
    """A query keeps an append from the fast path."""
    traced.put(ROOT + path, headers=TEXT)
    reply = traced.post(ROOT + path + "?x=1", headers={**TEXT, **caller.headers}, content=b"hello")
    assert reply.status_code == 204, reply.text
    span = collector.wait_for("POST /v1/stream/{path}", url__path=ROOT + path)
    assert span.trace_id == caller.trace_id
    assert [child.name for child in collector.children(span, "queue", "commit")] == ["queue", "commit"]


def test_a_page_that_is_read_from_the_store_is_a_span(traced, collector, caller, path):
    traced.put(ROOT + path, headers=TEXT, content=b"12345")
    assert traced.get(ROOT + path, headers=caller.headers).text == "12345"
    span = collector.wait_for("GET /v1/stream/{path}", url__path=ROOT + path)
    (page,) = collector.children(span, "page")
    assert page.attributes == {"mainstem.page_bytes": 5}
    assert (page.kind, page.trace_id) == (INTERNAL, caller.trace_id)
    assert span.began_ns <= page.began_ns <= page.ended_ns <= span.ended_ns
    again = {"x-request-id": "again", **caller.headers}
    assert traced.get(ROOT + path, headers=again).text == "12345"
    assert traced.get(ROOT + path, params={"tail": 1}, headers={"x-request-id": "tail"}).text == "12345"
    second = collector.wait_for(span.name, mainstem__request_id="again")
    third = collector.wait_for(span.name, mainstem__request_id="tail")  # so all spans of the second have arrived
    assert collector.children(second) == []
    assert [child.name for child in collector.children(third, "page")] == ["page"]


def test_pages_of_the_log_and_of_partitions_are_spans(traced, collector, caller, room):
    for target, route in ((f"/v1/partition/{room}", "/v1/partition/{name}"), ("/v1/log", "/v1/log")):
        assert traced.get(target, headers={"x-request-id": room}).status_code == 200
        span = collector.wait_for(f"GET {route}", mainstem__request_id=room)
        assert [child.name for child in collector.children(span, "page")] == ["page"]


def test_a_request_without_a_caller_begins_a_trace(traced, collector, path):
    traced.put(ROOT + path, headers=TEXT)
    span = collector.wait_for("PUT /v1/stream/{path}", url__path=ROOT + path)
    assert span.parent_id == ""
    assert int(span.trace_id, 16)
    assert {child.trace_id for child in collector.children(span, "queue", "commit")} == {span.trace_id}


@pytest.mark.parametrize(
    "value",
    [
        "00-{trace}-{span}",
        "00-{trace}-{span}-01-extra",
        "ff-{trace}-{span}-01",
        "00-" + "0" * 32 + "-{span}-01",
        "00-{trace}-" + "0" * 16 + "-01",
        "00-{trace}-{span}-0g",
        "{trace}",
        "\xe9" * 55,
        "1",
        "",
        "0" * 5000,
    ],
)
def test_a_malformed_traceparent_is_ignored(traced, collector, caller, path, value):
    header = value.format(trace=caller.trace_id, span=caller.span_id).encode("latin-1")
    assert traced.put(ROOT + path, headers={**TEXT, "traceparent": header}).status_code == 201
    span = collector.wait_for("PUT /v1/stream/{path}", url__path=ROOT + path)
    assert span.parent_id == ""
    assert span.trace_id != caller.trace_id


def test_two_callers_are_none(traced, collector, caller, path):
    headers = [("traceparent", caller.traceparent), ("traceparent", f"00-{'ab' * 16}-{'cd' * 8}-01")]
    assert traced.get(ROOT + path, headers=headers).status_code == 404
    span = collector.wait_for("GET /v1/stream/{path}", url__path=ROOT + path)
    assert span.parent_id == ""


def test_a_huge_tracestate_is_not_kept(traced, collector, caller, path):
    state = ",".join(f"v{number}={'x' * 100}" for number in range(30))
    traced.put(ROOT + path, headers={**TEXT, **caller.headers, "tracestate": state})
    span = collector.wait_for("PUT /v1/stream/{path}", url__path=ROOT + path)
    assert (span.trace_id, span.trace_state) == (caller.trace_id, "")


def test_each_request_of_a_connection_has_its_own_caller(traced, collector, path):
    """Heads that differ only in this header are remembered as one."""
    traced.put(ROOT + path, headers=TEXT)
    for number in range(5):
        header = f"00-{'ab' * 15}{number:02x}-{'cd' * 8}-01"
        headers = {**TEXT, "traceparent": header, "x-request-id": f"{path}-{number}"}
        assert traced.post(ROOT + path, headers=headers, content=b"x").status_code == 204
    for number in range(5):
        span = collector.wait_for("POST /v1/stream/{path}", mainstem__request_id=f"{path}-{number}")
        assert span.trace_id == f"{'ab' * 15}{number:02x}"


def test_no_span_has_a_query_a_token_or_a_payload(traced, collector, path):
    traced.put(ROOT + path, headers=TEXT)
    secret = "the-secret-of-this-test"
    headers = {**TEXT, "authorization": f"Bearer {secret}", "x-request-id": path, "user-agent": secret}
    traced.post(f"{ROOT}{path}?token={secret}", headers=headers, content=secret.encode())
    traced.get(f"{ROOT}{path}?offset={secret}", headers={"x-request-id": path + "-read", "cookie": secret})
    assert collector.wait_for("POST /v1/stream/{path}", mainstem__request_id=path)
    collector.wait_for("GET /v1/stream/{path}", mainstem__request_id=path + "-read")
    assert secret not in repr(collector.spans)


def test_an_error_of_the_client_is_no_error_of_the_server(traced, collector, path):
    assert traced.get(ROOT + path).status_code == 404
    span = collector.wait_for("GET /v1/stream/{path}", url__path=ROOT + path)
    assert span.attributes["mainstem.error_code"] == "stream_not_found"
    assert "error.type" not in span.attributes
    assert span.status != ERROR
    assert traced.get("/nothing/here").status_code == 404
    unmatched = collector.wait_for("GET", url__path="/nothing/here")
    assert "http.route" not in unmatched.attributes


def test_a_live_read_ends_with_its_client(traced, traced_server, collector, path):
    traced.put(ROOT + path, headers=TEXT)
    with socket.create_connection(traced_server.address) as connection:
        connection.sendall(f"GET {ROOT}{path}?offset=-1&live=sse HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    span = collector.wait_for("GET /v1/stream/{path}?live=sse", url__path=ROOT + path)
    assert span.attributes["http.route"] == "/v1/stream/{path}"
    assert span.attributes["http.response.status_code"] == 200
    assert span.status != ERROR


def test_probes_are_not_traced(traced, collector, path):
    for probe in ("/healthz", "/readyz", "/metrics"):
        assert traced.get(probe, headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}).status_code == 200
    traced.put(ROOT + path, headers=TEXT)
    collector.wait_for("PUT /v1/stream/{path}", url__path=ROOT + path)
    assert not [span for span in collector.spans if span.attributes.get("url.path") in ("/healthz", "/metrics")]


async def test_a_submit_is_a_span(traced_server, collector, room):
    async with Peers(traced_server.address) as peers:
        peer = await peers.join()
        results = await peer.submit(draft(room), draft(room))
        assert [result["status"] for result in results] == ["committed"] * 2
    span = collector.wait_for("submit", mainstem__drafts=2)
    assert [child.name for child in collector.children(span, "queue", "commit")] == ["queue", "commit"]


# Sampling


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_TRACES_SAMPLER": "always_off"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_no_span_is_exported_if_the_variables_say_so(start_server, connect_to, own_collector, caller, path, variables):
    server = start_server(environment=export_to(own_collector.url, **variables))
    client = connect_to(server)
    assert client.put(ROOT + path, headers={**TEXT, **caller.headers}).status_code == 201
    assert server.terminate() == 0  # which would export what is left
    assert own_collector.spans == []


def test_the_caller_decides_whether_a_trace_is_sampled(traced, collector, caller, path):
    unsampled = caller.traceparent.removesuffix("01") + "00"
    traced.put(ROOT + path, headers={**TEXT, "traceparent": unsampled})
    traced.post(ROOT + path, headers={**TEXT, **caller.headers}, content=b"x")
    collector.wait_for("POST /v1/stream/{path}", url__path=ROOT + path)
    names = [span.name for span in collector.spans if span.trace_id == caller.trace_id]
    assert "PUT /v1/stream/{path}" not in names


def test_the_variables_describe_the_server(start_server, connect_to, own_collector, path):
    server = start_server(
        environment=export_to(
            own_collector.url,
            OTEL_SERVICE_NAME="orders-log",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
            OTEL_EXPORTER_OTLP_HEADERS="x-api-key=abc",
        )
    )
    connect_to(server).put(ROOT + path, headers=TEXT)
    span = own_collector.wait_for("PUT /v1/stream/{path}")
    assert span.resource["service.name"] == "orders-log"
    assert span.resource["deployment.environment.name"] == "test"
    assert span.resource["service.version"]
    assert own_collector.headers.get(timeout=10)["x-api-key"] == "abc"


def test_the_last_spans_are_exported_when_the_server_stops(start_server, connect_to, own_collector, path):
    server = start_server(environment=export_to(own_collector.url, OTEL_BSP_SCHEDULE_DELAY="600000"))
    connect_to(server).put(ROOT + path, headers=JSON, content=json.dumps([1]).encode())
    assert server.terminate() == 0
    assert [span.name for span in own_collector.spans] == ["queue", "commit", "PUT /v1/stream/{path}"]
