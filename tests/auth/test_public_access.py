"""What visitors of an embedded app may do without tokens."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from mainstem.errors import SettingsError
from mainstem.server import create_app

JSON = {"content-type": "application/json"}
SUBSCRIPTION = {"type": "webhook", "streams": ["answer"], "webhook": {"url": "https://example.com"}}


def visit(log):
    transport = httpx2.ASGITransport(Starlette(routes=[Mount("/log", log)]))
    return httpx2.AsyncClient(transport=transport, base_url="http://host/log")


async def test_visitors_read_streams_whose_paths_they_know_and_nothing_else():
    log = create_app(store="memory", public="read", metrics="on")
    async with log.lifespan(), visit(log) as visitor:
        await log.client().create("answer", "application/json", body=b'["Hello"]')
        await log.client().create("_mainstem/runs", "application/json")
        assert (await visitor.get("/v1/stream/answer")).json() == ["Hello"]
        assert (await visitor.head("/v1/stream/answer")).status_code == 200
        assert (await visitor.get("/healthz")).status_code == 200
        refused = [
            await visitor.put("/v1/stream/other", headers=JSON),
            await visitor.post("/v1/stream/answer", headers=JSON, content=b"1"),
            await visitor.post("/v1/stream/answer", headers={"stream-closed": "true"}),
            await visitor.delete("/v1/stream/answer"),
            await visitor.put("/v1/stream/fork", headers={"stream-forked-from": "/log/v1/stream/answer"}),
            await visitor.get("/v1/stream/_mainstem/runs"),
            await visitor.get("/v1/streams"),
            await visitor.get("/v1/log"),
            await visitor.get("/v1/sessions"),
            await visitor.get("/metrics"),
            await visitor.put("/v1/stream/__ds/subscriptions/s", headers=JSON, json=SUBSCRIPTION),
            await visitor.post("/v1/stream/__ds/subscriptions/s/claim", headers=JSON, json={"worker": "w"}),
            await visitor.get("/v1/stream-set?stream=answer&stream=_mainstem/runs&live=sse"),
            await visitor.get("/v1/stream-offset/_mainstem/runs?time=2026-01-01T00:00:00Z"),
            await visitor.put("/v1/stream-snapshot/answer", headers=JSON, content=b"{}"),
            await visitor.get("/v1/partition/p"),
            await visitor.get("/v1/snapshot/p"),
            await visitor.put("/v1/snapshot/p", headers=JSON, content=b"{}"),
            await visitor.post("/v1/prune", headers=JSON, content=b"{}"),
            await visitor.get("/v1/jobs"),
            await visitor.post("/v1/jobs", headers=JSON, content=b"{}"),
            await visitor.get("/v1/subscriptions"),
            await visitor.post("/v1/subscriptions/s/pause"),
            await visitor.delete("/v1/sessions/1"),
        ]
        allowed = [reply for reply in refused if (reply.status_code, reply.json()["code"]) != (403, "forbidden")]
        assert [(reply.request.method, reply.request.url.path) for reply in allowed] == []
        assert (
            refused[0].json()["detail"] == "this app lets its visitors read streams, and does not allow writing 'other'"
        )
        assert refused[0].json()["hint"].endswith("with `log.client()`.")
        for reply in refused:
            if reply.request.method != "HEAD":
                assert reply.json()["detail"].startswith("this app lets its visitors read streams, and does not allow ")
        metrics = await visitor.get("/metrics")
        assert metrics.json()["detail"].endswith("and does not allow reading metrics")
        assert [info.path async for info in log.client().list()] == ["_mainstem/runs", "answer"]


async def test_an_app_that_is_not_public_serves_only_its_own_program():
    log = create_app(store="memory", public="none", max_requests_per_second=1000)
    async with log.lifespan(), visit(log) as visitor:
        await log.client().create("answer", "application/json", body=b'["Hello"]')
        hidden = await visitor.get("/v1/stream/answer")
        assert hidden.status_code == 403
        assert (
            hidden.json()["detail"]
            == "this app serves only the program that embeds it, and does not allow reading 'answer'"
        )
        assert (await visitor.put("/v1/stream/other", headers=JSON)).status_code == 403
        assert (await visitor.get("/v1/streams")).json() == {"streams": [], "next": None}
        assert await log.client().read_json("answer") == ["Hello"]


@pytest.mark.parametrize("public", ["read", "none"])
def test_visitors_do_not_use_the_sync_protocol(public):
    log = create_app(store="memory", public=public)
    app = Starlette(routes=[Mount("/log", log)], lifespan=log.lifespan)
    connect = {"type": "connect", "protocol_version": "1.0", "payload": {"token": "", "client_id": "visitor"}}
    with TestClient(app) as client, client.websocket_connect("/log/v1/sync") as socket:
        socket.send_json(connect)
        assert socket.receive_json()["payload"]["code"] == "auth_failed"
        assert socket.receive()["type"] == "websocket.close"


async def test_the_program_writes_beside_tokens_without_one(secret_file):
    file, _ = secret_file
    log = create_app(store="memory", jwt_secret_file=file)
    async with log.lifespan(), visit(log) as visitor:
        await log.client().create("answer", "application/json")
        assert (await visitor.get("/v1/stream/answer")).status_code == 401


def test_a_wrong_value_is_a_settings_error(secret_file):
    file, _ = secret_file
    with pytest.raises(SettingsError, match="public is 'yes'; it must be one of: write, read, none"):
        create_app(store="memory", public="yes")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="leave out `public`"):
        create_app(store="memory", public="read", jwt_secret_file=file)
