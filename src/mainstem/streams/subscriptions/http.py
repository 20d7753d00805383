"""The control APIs under the reserved path `__ds`: subscriptions and webhook signing keys (protocol sections 6 and
7)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import (
    BadOffset,
    BadPath,
    BadRequest,
    InvalidOffset,
    InvalidSubscription,
    MethodNotAllowed,
    NotFound,
    TokenInvalid,
)
from mainstem.http.asgi import Headers, Receive, Scope, Send
from mainstem.http.requests import decode_json, read_body, request_origin
from mainstem.http.responses import CORS_HEADERS, JSON_CONTENT, respond, respond_json
from mainstem.shares import Share
from mainstem.streams.rules import paths
from mainstem.streams.rules.base64url import encode_base64url
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.subscriptions.core.model import (
    LINKS,
    AddStreams,
    Config,
    DeleteSubscription,
    PutSubscription,
    RemoveStream,
    Subscription,
    check_config,
    check_id,
    link_prefix,
)
from mainstem.streams.subscriptions.core.signing import jwks, read_token
from mainstem.streams.subscriptions.core.wakes import FencingToken, LinkedStream, Release
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.streams.subscriptions.link_queries import implied_starts, list_links
from mainstem.streams.subscriptions.webhook_client import check_url
from mainstem.timestamps import format_time


class WebhookTarget(msgspec.Struct):
    url: str


class SubscriptionRequest(msgspec.Struct):
    type: Literal["webhook", "pull-wake"]
    pattern: str | None = None
    streams: list[str] = []
    webhook: WebhookTarget | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = 30_000
    description: str | None = None


class StreamsRequest(msgspec.Struct):
    streams: list[str]


class ClaimRequest(msgspec.Struct):
    worker: str


class Ack(msgspec.Struct):
    stream: str
    offset: str


class WakeRequest(msgspec.Struct):
    wake_id: str
    generation: int
    acks: list[Ack] = []
    done: bool = False


class ClaimReply(msgspec.Struct):
    wake_id: str
    generation: int
    token: str
    streams: tuple[LinkedStream, ...]
    lease_ttl_ms: int


class ControlHttp:
    """Handles all requests under the reserved path. `rest` is the decoded path after `__ds/`."""

    def __init__(self, dispatcher: Dispatcher, mount: paths.Mount, *, allow_local_webhooks: bool) -> None:
        self.dispatcher = dispatcher
        self.mount = mount
        self.log = dispatcher.log
        self.allow_local_webhooks = allow_local_webhooks
        self._making: dict[str | None, Counter[str]] = {}

    async def __call__(self, rest: str, headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        if rest == "jwks.json" and method in ("GET", "HEAD"):
            await self._send_keys(send)
        elif rest == "keys/rotate" and method == "POST":
            identity: Identity = scope["mainstem.identity"]
            identity.require_admin()
            ring = await self.dispatcher.keys.ensure(rotate=True)
            await respond_json(send, {"kid": ring.active.kid})
        elif rest.startswith("subscriptions/"):
            subscription_id, _, action = rest.removeprefix("subscriptions/").partition("/")
            check_id(subscription_id)
            body = await read_body(headers, receive, limits.CONTROL_BODY_BYTES_MAX)
            await self._subscription(method, subscription_id, action, headers, body, scope, send)
        else:
            raise NotFound(f"the server has nothing at the reserved path {paths.RESERVED}/{rest[:64]}")

    async def _send_keys(self, send: Send) -> None:
        headers = [
            *CORS_HEADERS,
            (b"content-type", b"application/jwk-set+json"),
            (b"cache-control", b"public, max-age=300"),
        ]
        await respond(send, 200, headers, msgspec.json.encode(jwks(self.dispatcher.keys.ring)))

    async def _subscription(
        self, method: str, name: str, action: str, headers: Headers, body: bytes, scope: Scope, send: Send
    ) -> None:
        identity: Identity = scope["mainstem.identity"]
        if action not in ("callback", "ack", "release"):  # those carry the token of a wake
            identity.require_grants("using subscriptions")
        if not action and method == "PUT":
            base = base_url(scope, headers, self.mount)
            await self._put(name, decode_json(body, SubscriptionRequest, InvalidSubscription), base, identity, send)
        elif not action and method == "GET":
            await respond_json(send, await self._describe(name, await self._find(name, identity)))
        elif not action and method == "DELETE":
            state = await self._find(name, identity)
            await self.log.submit(DeleteSubscription(name, state.nonce))
            await respond(send, 204, CORS_HEADERS)
        elif action == "streams" and method == "POST":
            state = await self._find(name, identity)
            streams = _check_streams(decode_json(body, StreamsRequest, InvalidSubscription).streams)
            for path in streams:
                identity.require_read(path)
            starts = await implied_starts(self.log.store, state, streams)
            await self.log.submit(AddStreams(name, state.nonce, streams, starts))
            await respond(send, 204, CORS_HEADERS)
        elif action.startswith("streams/") and method == "DELETE":
            state = await self._find(name, identity)
            path = _check_streams([action.removeprefix("streams/")])[0]
            await self.log.submit(RemoveStream(name, state.nonce, path))
            await respond(send, 204, CORS_HEADERS)
        elif action == "claim" and method == "POST":
            await self._find(name, identity)
            await self._claim(name, decode_json(body, ClaimRequest, InvalidSubscription).worker, send)
        elif action in ("callback", "ack") and method == "POST":
            await self._acknowledge(name, action, headers, decode_json(body, WakeRequest, InvalidSubscription), send)
        elif action == "release" and method == "POST":
            fencing = await self._read_fencing_token(name, headers, decode_json(body, WakeRequest, InvalidSubscription))
            await self.log.submit(Release(name, fencing))
            await respond(send, 204, CORS_HEADERS)
        else:
            raise MethodNotAllowed(f"{method} is not supported at this path of a subscription")

    async def _find(self, name: str, identity: Identity) -> Subscription:
        """Return a subscription. Raise an error if it does not exist or the caller may not see it."""
        state = await self.dispatcher.find(name)
        if not await self._may_see(state, identity):
            raise identity.forbid("reading all streams of this subscription")
        return state

    async def _may_see(self, state: Subscription, identity: Identity) -> bool:
        """Return whether the caller may read all linked streams; if none is linked, whether the caller is the owner."""
        if identity.may_read_all("**"):
            return True
        if state.config.pattern is not None and not identity.may_read_all(state.config.pattern):
            return False
        linked = state.config.pattern is not None
        prefix, after = link_prefix(state.nonce), ""
        while page := await self.log.store.scan(LINKS, prefix, after, limits.SCAN_PAGE):
            explicit = [key.removeprefix(prefix) for key, link in page if link.explicit]
            if not all(map(identity.may_read, explicit)):
                return False
            linked = linked or bool(explicit)
            after = page[-1][0]
        return linked or (state.owner is not None and state.owner == identity.name)

    async def _put(self, name: str, request: SubscriptionRequest, base: str, identity: Identity, send: Send) -> None:
        if not limits.LEASE_MS_MIN <= request.lease_ttl_ms <= limits.LEASE_MS_MAX:
            raise InvalidSubscription(
                f"lease_ttl_ms must be {limits.LEASE_MS_MIN} to {limits.LEASE_MS_MAX}, not {request.lease_ttl_ms}"
            )
        if request.type == "webhook":
            if request.webhook is None:
                raise InvalidSubscription("a webhook subscription needs webhook.url")
            check_url(request.webhook.url, allow_local=self.allow_local_webhooks)
        elif request.wake_stream is None:
            raise InvalidSubscription("a pull-wake subscription needs wake_stream")
        if len((request.description or "").encode()) > limits.SUBSCRIPTION_DESCRIPTION_BYTES_MAX:
            raise InvalidSubscription(f"description must be at most {limits.SUBSCRIPTION_DESCRIPTION_BYTES_MAX} bytes")
        wake_stream = request.wake_stream if request.type == "pull-wake" else None
        config = Config(
            request.type,
            None if request.pattern is None else request.pattern.lstrip("/"),
            request.webhook.url if request.webhook is not None and request.type == "webhook" else None,
            None if wake_stream is None else _check_streams([wake_stream])[0],
            request.lease_ttl_ms,
            request.description,
        )
        streams = _check_streams(request.streams)
        try:
            check_config(config, streams)
        except BadRequest as error:
            raise InvalidSubscription(error.detail) from None
        require_all(identity, config, streams)
        nonce = encode_base64url(self.log.random.randbytes(12))
        with self._count_making(name, identity.name):
            new = await self.log.submit(PutSubscription(name, nonce, config, streams, base, identity.name))
        # An existing subscription may have been given more streams since, so the caller's rights are checked again.
        state = await self._find(name, identity)
        await respond_json(send, await self._describe(name, state), 201 if new else 200)

    @contextmanager
    def _count_making(self, name: str, owner: str | None) -> Iterator[None]:
        """Raise an error if a new subscription would exceed its owner's share, counting those being made right now."""
        making = self._making.setdefault(owner, Counter())
        making[name] += 1
        try:
            if not self.dispatcher.knows(name):
                # The dispatcher may already count a subscription whose request has not ended yet.
                uncounted = sum(not self.dispatcher.knows(other) for other in making)
                self.log.live.shares.require(Share.SUBSCRIPTIONS, self.dispatcher.count_owned(owner) + uncounted)
            yield
        finally:
            making[name] -= 1
            if not making[name]:
                del making[name]
            if not making:
                del self._making[owner]

    async def _describe(self, name: str, state: Subscription) -> dict[str, Any]:
        config = state.config
        return {
            "id": name,
            "subscription_id": name,
            "type": config.type,
            "pattern": config.pattern,
            "streams": await list_links(self.log.store, state),
            "webhook": self._describe_webhook(state),
            "wake_stream": config.wake_stream,
            "lease_ttl_ms": config.lease_ttl_ms,
            "created_at": format_time(state.created_at_us),
            "status": state.status,
            "description": config.description,
            "generation": state.generation,
        }

    def _describe_webhook(self, state: Subscription) -> dict[str, Any] | None:
        if state.config.webhook_url is None:
            return None
        signing = {
            "alg": "ed25519",
            "kid": self.dispatcher.keys.ring.active.kid,
            "jwks_url": f"{state.base_url}/{paths.RESERVED}/jwks.json",
        }
        return {"url": state.config.webhook_url, "signing": signing}

    async def _claim(self, name: str, worker: str, send: Send) -> None:
        if not worker or len(worker) > limits.SUBSCRIPTION_ID_BYTES_MAX:
            raise InvalidSubscription(f"worker must be 1 to {limits.SUBSCRIPTION_ID_BYTES_MAX} characters")
        woken, token = await self.dispatcher.claim(name, worker)
        state = woken.state
        assert state.wake_id is not None
        reply = ClaimReply(state.wake_id, state.generation, token, woken.streams, state.config.lease_ttl_ms)
        await respond_json(send, reply, headers=[*CORS_HEADERS, JSON_CONTENT])

    async def _acknowledge(self, name: str, action: str, headers: Headers, request: WakeRequest, send: Send) -> None:
        fencing = await self._read_fencing_token(name, headers, request)
        state = await self.dispatcher.find(name)
        if (action == "callback") != (state.config.type == "webhook"):
            raise InvalidSubscription("a webhook subscription uses callback, and a pull-wake subscription uses ack")
        try:
            acks = tuple((_check_streams([ack.stream])[0], Offset.parse(ack.offset)) for ack in request.acks)
        except BadOffset as error:
            raise InvalidOffset(error.detail) from None
        more = await self.dispatcher.acknowledge(name, fencing, acks, request.done)
        await respond_json(send, {"ok": True, "next_wake": more})

    async def _read_fencing_token(self, name: str, headers: Headers, request: WakeRequest) -> FencingToken:
        """Read the token before anything else, so that a caller without one cannot learn which subscriptions exist."""
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise TokenInvalid("the token of this wake is missing; send it as Authorization: Bearer")
        claims = read_token(self.dispatcher.keys.ring, token.strip(), name)
        return FencingToken(claims.nonce, claims.generation, request.generation, request.wake_id)


def require_all(identity: Identity, config: Config, streams: tuple[str, ...]) -> None:
    """Raise an error unless the caller may read all streams of a subscription and write to its wake stream."""
    if config.pattern is not None and not identity.may_read_all(config.pattern):
        raise identity.forbid(f"reading all streams that match {config.pattern!r}")
    for path in streams:
        identity.require_read(path)
    if config.wake_stream is not None:
        identity.require_write(config.wake_stream)


def base_url(scope: Scope, headers: Headers, mount: paths.Mount) -> str:
    """Return the root URL of streams as the client addressed it. Callback and key URLs begin with it."""
    return request_origin(scope, headers) + quote(scope.get("root_path", "")) + mount.prefix


def _check_streams(streams: list[str]) -> tuple[str, ...]:
    if len(streams) > limits.SUBSCRIPTION_STREAMS_MAX:
        raise InvalidSubscription(f"a request can name at most {limits.SUBSCRIPTION_STREAMS_MAX} streams")
    checked = tuple(dict.fromkeys(path.lstrip("/") for path in streams))
    try:
        for path in checked:
            paths.check_path(path)
    except BadPath as error:
        raise InvalidSubscription(error.detail) from None
    return checked
