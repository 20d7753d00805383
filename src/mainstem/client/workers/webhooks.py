"""Verifies webhooks in a web application, with the keys that the server publishes."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mainstem import limits
from mainstem.client.aio.streams import AsyncStreams
from mainstem.client.core.errors import ClientError
from mainstem.client.core.protocol import Request, decode_json
from mainstem.client.core.retries import Retries
from mainstem.client.workers.core.signatures import (
    WebhookRefused,
    check_age,
    check_size,
    find_key,
    read_signature,
    verify_signature,
)
from mainstem.client.workers.core.wakes import Wake

ONCE = Retries(attempts_max=1)


class WebhookRequest(Protocol):
    """The part of a Starlette or FastAPI `Request` that is needed here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def stream(self) -> AsyncIterator[bytes]: ...


async def verify_webhook(
    request: WebhookRequest,
    server: AsyncStreams | str,
    *,
    subscription: str | None = None,
    tolerance_s: float = limits.WORKER_WEBHOOK_AGE_S_MAX,
) -> Wake:
    """Return the wake that a request brings. Raise `WebhookRefused` unless the server signed it just now.

    `server` is a client of the server or its URL. The keys come from there, never from an address in the request. They
    are kept for a while per URL or client, so use one client for all calls.
    Pass `subscription`, too: a server signs the webhooks of all its subscriptions with the same key, so the receiver of
    another one could forward its calls to you.
    """
    body = await _read_body(request)
    signature = read_signature(request.headers)
    check_age(signature, time.time(), tolerance_s)  # before a request for keys, so that old calls cause none
    keys = await _find_key_set(server).fetch(server, signature.kid)
    return verify_signature(body, request.headers, keys, time.time(), tolerance_s, subscription=subscription)


async def _read_body(request: WebhookRequest) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        check_size(int(length[:20]))
    body = bytearray()
    async for piece in request.stream():
        body += piece
        check_size(len(body))
    return bytes(body)


class KeySet:
    """The published keys of one server, fetched when they are missing, old, or lack a key."""

    def __init__(self) -> None:
        self._keys: dict[str, Any] = {}
        self._fetched_s: float | None = None
        self._asked_s: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def fetch(self, server: AsyncStreams | str, kid: str) -> dict[str, Any]:
        """Return the key set, with the key `kid` if the server has it."""
        if self._is_due(kid, time.monotonic()):
            if self._fetching is None:
                self._asked_s = time.monotonic()
                self._fetching = asyncio.create_task(self._fetch(server))
                self._fetching.add_done_callback(self._forget_task)
            await asyncio.shield(self._fetching)
        if self._fetched_s is None or time.monotonic() - self._fetched_s > limits.WORKER_KEYS_S:
            raise WebhookRefused("keys_unavailable", "the keys of the server could not be fetched a moment ago")
        return self._keys

    def _is_due(self, kid: str, now_s: float) -> bool:
        is_fresh = self._fetched_s is not None and now_s - self._fetched_s <= limits.WORKER_KEYS_S
        if is_fresh and find_key(self._keys, kid) is not None:
            return False  # even during a fetch, which a forged call with an unknown key may have caused
        wait_s = limits.WORKER_KEYS_RETRY_S if self._fetched_s is None else limits.WORKER_KEYS_REFETCH_S
        return self._fetching is not None or self._asked_s is None or now_s - self._asked_s >= wait_s

    async def _fetch(self, server: AsyncStreams | str) -> None:
        try:
            async with asyncio.timeout(limits.WORKER_KEYS_FETCH_S_MAX):
                if isinstance(server, str):
                    async with AsyncStreams(server) as streams:
                        body = await _request_keys(streams)
                else:
                    body = await _request_keys(server)
            if len(body) > limits.WORKER_KEYS_BYTES_MAX:
                raise WebhookRefused("keys_unavailable", "the key set of the server is too large")
            self._keys = decode_json(body, dict[str, Any], "the key set of the server")
        except (ClientError, TimeoutError) as error:
            if isinstance(error, WebhookRefused):
                raise
            reason = error.detail if isinstance(error, ClientError) else "the server did not answer in time"
            raise WebhookRefused("keys_unavailable", f"the keys of the server cannot be fetched: {reason}") from error
        self._fetched_s = time.monotonic()

    def _forget_task(self, task: "asyncio.Task[None]") -> None:
        self._fetching = None
        if not task.cancelled():
            task.exception()  # all who waited for it have received it


async def _request_keys(streams: AsyncStreams) -> bytes:
    target = f"{streams.operations.requests.prefix}/__ds/jwks.json"
    response = await streams.run(streams.operations.send(Request("GET", target, target), retries=ONCE))
    return response.body


class KeySets:
    """The key sets that one event loop keeps."""

    def __init__(self) -> None:
        self._of_urls: OrderedDict[str, KeySet] = OrderedDict()
        self._of_clients: WeakKeyDictionary[AsyncStreams, KeySet] = WeakKeyDictionary()
        """Clients with one URL may have different servers: all embedded apps have the same URL."""

    def find(self, server: AsyncStreams | str) -> KeySet:
        if not isinstance(server, str):
            return self._of_clients.setdefault(server, KeySet())
        found = self._of_urls.setdefault(server, KeySet())
        self._of_urls.move_to_end(server)
        if len(self._of_urls) > limits.WORKER_KEY_SETS_MAX:
            self._of_urls.popitem(last=False)
        return found


_key_sets: "WeakKeyDictionary[asyncio.AbstractEventLoop, KeySets]" = WeakKeyDictionary()


def _find_key_set(server: AsyncStreams | str) -> KeySet:
    """Return the key set of a server. Each event loop has its own, because a task belongs to its loop."""
    return _key_sets.setdefault(asyncio.get_running_loop(), KeySets()).find(server)
