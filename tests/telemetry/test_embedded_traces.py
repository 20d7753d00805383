"""An app that is mounted in another one exports traces, too, and continues those of the app around it."""

import httpx2
import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem.server.app import create_app
from tests.telemetry.conftest import export_to

TEXT = {"content-type": "text/plain"}


@pytest.fixture
def exporting(monkeypatch, own_collector):
    for name, value in export_to(own_collector.url).items():
        monkeypatch.setenv(name, value)
    return own_collector


async def test_a_mounted_app_exports_its_traces(exporting, caller):
    mainstem = create_app(store="memory")
    host = Starlette(routes=[Mount("/streams", mainstem)])
    async with (
        mainstem.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url="http://host/streams") as client,
    ):
        reply = await client.put("/v1/stream/a", headers={**TEXT, **caller.headers}, content=b"12345")
        assert reply.status_code == 201
        assert (await client.get("/v1/stream/a")).text == "12345"
        outer = SpanContext(int("ab" * 16, 16), int("cd" * 8, 16), False, TraceFlags(1))
        with use_span(NonRecordingSpan(outer)):
            await client.request("BREW", "/v1/stream/a", headers=caller.headers)
    spans = {span.name: span for span in exporting.spans}
    put, get, brew = (spans[f"{method} /v1/stream/{{path}}"] for method in ("PUT", "GET", "_OTHER"))
    assert (put.trace_id, put.parent_id) == (caller.trace_id, caller.span_id)
    assert put.attributes["url.path"] == "/v1/stream/a"
    assert put.attributes["http.response.status_code"] == 201
    assert put.attributes["mainstem.request_id"] == reply.headers["x-request-id"]
    assert spans["queue"].parent_id == spans["commit"].parent_id == put.span_id
    assert spans["page"].parent_id == get.span_id
    assert get.parent_id == ""
    assert (brew.trace_id, brew.parent_id) == ("ab" * 16, "cd" * 8)
    assert brew.attributes["http.request.method"] == "_OTHER"
