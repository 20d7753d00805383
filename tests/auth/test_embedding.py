"""The app with tokens, mounted in another app."""

import asyncio

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mainstem.errors import SettingsError
from mainstem.server.app import create_app
from tests.auth.endpoints import TEXT
from tests.support.issuers import bearer
from tests.support.waits import eventually_async


async def test_a_mounted_app_requires_tokens_too(secret_file):
    file, issuer = secret_file
    mainstem = create_app(store="memory", jwt_secret_file=file)
    host = Starlette(routes=[Mount("/streams", mainstem)])
    token = bearer(issuer.token(streams=["a/**"]))
    async with (
        mainstem.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url="http://host/streams") as client,
    ):
        assert (await client.put("/v1/stream/a/b", headers=TEXT)).status_code == 401
        assert (await client.put("/v1/stream/a/b", headers={**TEXT, **token}, content=b"x")).status_code == 201
        assert (await client.put("/v1/stream/b", headers={**TEXT, **token})).status_code == 403
        assert (await client.get("/v1/stream/a/b", headers=token)).content == b"x"
        fork = {"stream-forked-from": "/streams/v1/stream/b", **token}
        assert (await client.put("/v1/stream/a/c", headers=fork)).status_code == 403
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/v1/stream/a/b?token=x", headers=token)).status_code == 400


async def test_a_mounted_app_serves_live_reads(secret_file):
    """Another ASGI server cannot detach a reply, so each reader has a task."""
    file, issuer = secret_file
    mainstem = create_app(store="memory", jwt_secret_file=file)
    host = Starlette(routes=[Mount("/streams", mainstem)])
    token = bearer(issuer.token(streams=["a/**"]))
    async with (
        mainstem.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(host), base_url="http://host/streams") as client,
    ):
        await client.put("/v1/stream/a/b", headers={**TEXT, **token})
        polls = [
            asyncio.create_task(client.get("/v1/stream/a/b?offset=-1&live=long-poll", headers=token)) for _ in range(3)
        ]
        events = asyncio.create_task(client.get("/v1/stream/a/b?offset=-1&live=sse", headers=token))
        await eventually_async(lambda: mainstem.live.readers == 4)
        close = {"stream-closed": "true"}
        await client.post("/v1/stream/a/b", headers={**TEXT, **token, **close}, content=b"x")
        for poll in polls:
            reply = await poll
            assert (reply.status_code, reply.content) == (200, b"x")
            assert reply.headers["cache-control"].startswith("private")
        assert b"event: data\ndata:x\n" in (await events).content
        assert mainstem.live.readers == 0


def test_an_app_with_invalid_settings_is_not_created(tmp_path):
    with pytest.raises(SettingsError, match="missing"):
        create_app(store="memory", jwt_secret_file=str(tmp_path / "missing"))
