"""`verify_webhook` in a real Starlette app, with webhooks of a real server and with forged ones."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mainstem import limits
from mainstem.client import AsyncStreams, Streams
from mainstem.client.workers import Wake, WebhookRefused, verify_webhook
from mainstem.server import create_app
from tests.support.http_gates import HttpGate
from tests.support.waits import eventually
from tests.support.webhook_receivers import Call


class App:
    """An app with a webhook. It records the genuine calls as they came, and the wakes in them."""

    def __init__(self, server: str, *, over_client: bool = False) -> None:
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.wakes: list[Wake] = []
        self.refusals: list[str] = []
        self.url = ""
        self._server = server
        self._over_client = over_client

    async def hook(self, request: Request) -> Response:
        body, stream = bytearray(), request.stream()

        class Recorded:
            headers = request.headers

            @staticmethod
            async def stream() -> Any:
                async for piece in stream:
                    body.extend(piece)
                    yield piece

        try:
            if self._over_client:
                async with AsyncStreams(self._server) as streams:
                    wake = await verify_webhook(Recorded(), streams, subscription="mailer")
            else:
                wake = await verify_webhook(Recorded(), self._server, subscription="mailer")
        except WebhookRefused as error:
            self.refusals.append(error.code)
            return JSONResponse({"code": error.code}, error.status)
        self.calls.append((dict(request.headers), bytes(body)))
        self.wakes.append(wake)
        return JSONResponse({"done": True})


@contextmanager
def serving(app: App) -> Iterator[App]:
    routes = [Route("/hook", app.hook, methods=["POST"])]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        app.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/hook"
        yield app
    finally:
        server.should_exit = True
        thread.join()


def subscribe(server: str, url: str, name: str = "mailer") -> None:
    config = {"type": "webhook", "pattern": "orders/*", "webhook": {"url": url}, "lease_ttl_ms": 30_000}
    target = f"{server}/v1/stream/__ds/subscriptions/{name}"
    httpx2.put(target, json=config, trust_env=False).raise_for_status()


def append(server: str) -> None:
    with Streams(server) as streams:
        streams.create("orders/1", "application/json")
        streams.append("orders/1", {"n": 1})


@pytest.mark.parametrize("over_client", [False, True], ids=["url", "client"])
def test_a_webhook_of_the_server_is_verified(own_server, over_client, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_KEYS_REFETCH_S", 0.1)
    with serving(App(own_server.url, over_client=over_client)) as app:
        subscribe(own_server.url, app.url)
        append(own_server.url)
        eventually(lambda: app.wakes)
        wake = app.wakes[0]
        assert (wake.subscription_id, [stream.path for stream in wake.streams]) == ("mailer", ["orders/1"])
        assert wake.callback_token not in repr(wake)
        assert app.refusals == []
        rotated = httpx2.post(f"{own_server.url}/v1/stream/__ds/keys/rotate", trust_env=False)
        assert rotated.status_code < 300
        # The next call has a key that the app does not know yet: it fetches the keys again.
        append(own_server.url)
        eventually(lambda: len(app.wakes) == 2)


def test_forged_altered_old_and_misdirected_calls_are_refused(own_server, monkeypatch):
    with serving(App(own_server.url)) as app:
        subscribe(own_server.url, app.url)
        append(own_server.url)
        eventually(lambda: app.calls)
        headers, body = app.calls[0]
        signature = headers["webhook-signature"]
        timestamp, kid, proof = signature.split(",")
        wake = json.loads(body)

        def post(content: bytes, header: str | None) -> tuple[int, str]:
            sent = {} if header is None else {"webhook-signature": header}
            reply = httpx2.post(app.url, content=content, headers=sent, trust_env=False)
            return reply.status_code, reply.json().get("code", "")

        assert post(body, signature) == (200, "")  # within the tolerance, a call may come twice
        other = json.dumps(wake | {"generation": 2}).encode()
        assert post(other, signature) == (401, "signature_invalid")
        assert post(body, f"t={int(timestamp.removeprefix('t=')) - 1},{kid},{proof}") == (401, "signature_invalid")
        assert post(body, f"{timestamp},{kid},ed25519={'A' * 86}") == (401, "signature_invalid")
        assert post(body, f"{timestamp},{kid},ed25519=AAAA") == (401, "signature_invalid")
        assert post(body, f"t=1,{kid},{proof}") == (401, "timestamp_refused")
        assert post(body, f"t={int(time.time()) + 3600},{kid},{proof}") == (401, "timestamp_refused")
        assert post(body, f"{timestamp},kid=ds_forged,{proof}") == (401, "key_unknown")
        assert post(body, None) == (401, "signature_missing")
        assert post(body, "nonsense") == (401, "signature_malformed")
        assert post(body, f"{signature},{signature}") == (401, "signature_malformed")
        monkeypatch.setattr(limits, "WORKER_WEBHOOK_BYTES_MAX", len(body) - 1)
        assert post(body, signature) == (413, "body_too_large")
        assert len(app.wakes) == 2


def test_a_call_for_another_subscription_is_refused(own_server):
    with serving(App(own_server.url)) as app:
        subscribe(own_server.url, app.url, "somebody-else")
        append(own_server.url)
        eventually(lambda: app.refusals)
        assert app.refusals[0] == "wrong_subscription"
        assert app.wakes == []


def test_a_body_without_a_length_is_read_no_further_than_the_limit(own_server, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_WEBHOOK_BYTES_MAX", 1000)
    with serving(App(own_server.url)) as app:
        pieces = iter([b"x" * 600] * 3)
        reply = httpx2.post(app.url, content=pieces, trust_env=False)
        assert (reply.status_code, reply.json()) == (413, {"code": "body_too_large"})


def test_without_the_keys_a_call_may_come_again(own_server):
    """The receiver answers 503, so the server tries again later."""
    with serving(App("http://127.0.0.1:9")) as app:
        subscribe(own_server.url, app.url)
        append(own_server.url)
        eventually(lambda: app.refusals)
        assert set(app.refusals) == {"keys_unavailable"}
        app._server = own_server.url
        eventually(lambda: app.wakes)


def test_a_forged_call_that_waits_for_keys_does_not_hold_up_genuine_ones(own_server, monkeypatch):
    monkeypatch.setattr(limits, "WORKER_KEYS_REFETCH_S", 0.0)
    fetches = []

    def holds(method: str, path: str) -> bool:
        fetches.append(path)
        return len(fetches) > 1

    with closing(HttpGate(own_server.url, holds)) as gate, serving(App(gate.url)) as app, ThreadPoolExecutor(1) as pool:
        subscribe(own_server.url, app.url)
        append(own_server.url)
        eventually(lambda: app.calls)
        monkeypatch.setattr(limits, "WORKER_KEYS_FETCH_S_MAX", 1.0)
        headers, body = app.calls[0]
        genuine = headers["webhook-signature"]
        timestamp, _, proof = genuine.split(",")

        def post(signature: str) -> int:
            sent = {"webhook-signature": signature}
            return httpx2.post(app.url, content=body, headers=sent, timeout=60, trust_env=False).status_code

        forged = pool.submit(post, f"{timestamp},kid=ds_forged,{proof}")
        eventually(gate.reached)
        assert post(genuine) == 200
        assert forged.result() == 503


async def test_two_embedded_servers_have_keys_of_their_own(receive):
    """Both have the same URL. Each refuses what the other one has signed."""
    servers = [create_app(store="memory", allow_local_webhooks=True) for _ in range(2)]
    async with servers[0].lifespan(), servers[1].lifespan():
        calls = []
        for server in servers:
            receiver = receive()
            config = {"type": "webhook", "pattern": "orders/*", "webhook": {"url": receiver.url}}
            target = "/v1/stream/__ds/subscriptions/mailer"
            headers = {"content-type": "application/json"}
            await server.client().request("PUT", target, body=json.dumps(config).encode(), headers=headers)
            await server.client().create("orders/1", "application/json", body={"n": 1})
            calls.append(await asyncio.to_thread(receiver.next))
        for call, server, other in zip(calls, servers, reversed(servers), strict=True):
            wake = await verify_webhook(Received(call), server.client(), subscription="mailer")
            assert wake.subscription_id == "mailer"
            with pytest.raises(WebhookRefused) as caught:
                await verify_webhook(Received(call), other.client())
            assert caught.value.code == "key_unknown"


class Received:
    """A call that a receiver has received, as a request of a web application."""

    def __init__(self, call: Call) -> None:
        self.headers = call.headers
        self._body = call.body

    async def stream(self) -> AsyncIterator[bytes]:
        yield self._body


async def test_calls_cause_few_requests_for_keys_while_the_server_has_none(own_server, monkeypatch):
    """Anybody can send a call with a key that nobody knows."""
    monkeypatch.setattr(limits, "WORKER_KEYS_RETRY_S", 600.0)
    asked: list[str] = []

    def holds(method: str, path: str) -> bool:
        asked.append(path)
        return False

    with closing(HttpGate(own_server.url, holds)) as gate:
        server = f"{gate.url}/elsewhere"
        for number in range(5):
            signature = f"t={int(time.time())},kid=key-{number},ed25519=AAAA"
            with pytest.raises(WebhookRefused) as caught:
                await verify_webhook(Received(Call({"webhook-signature": signature}, b"{}")), server)
            assert caught.value.code == "keys_unavailable"
    assert len(asked) == 1
