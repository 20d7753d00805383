"""Subscriptions for operators: an extension of the protocol, for administrators.

GET  /v1/subscriptions?prefix=&after=&limit=    a page of all subscriptions
GET  /v1/subscriptions/<id>                     one of them, with its cursors
POST /v1/subscriptions/<id>/pause               also resume and redeliver
"""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadOffset, BadPath, InvalidOffset, InvalidSubscription, NotFound
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import collect_headers, decode_json, parse_count, read_body, read_query
from mainstem.http.responses import CORS_HEADERS, method_not_allowed, respond, respond_json
from mainstem.streams.rules.offsets import Offset, Sentinel, parse_offset
from mainstem.streams.rules.paths import check_path, unquote_text
from mainstem.streams.subscriptions.core.controls import Pause, Resume
from mainstem.streams.subscriptions.core.model import SUBSCRIPTIONS, Subscription, check_id
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.timestamps import format_time


class RedeliverRequest(msgspec.Struct):
    stream: str | None = None
    offset: str | None = None


class SubscriptionsAdmin:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher
        self.log = dispatcher.log

    async def list(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a page of subscriptions, sorted by id."""
        _require_admin(scope)
        query = read_query(scope)
        limit = parse_count(query.get("limit", str(limits.LISTED_STREAMS)), "limit", limits.LISTED_STREAMS_MAX)
        prefix, after = query.get("prefix", ""), query.get("after", "")
        found = await self.log.store.scan(SUBSCRIPTIONS, prefix, after, limit + 1)
        body = {
            "subscriptions": [describe(name, state) for name, state in found[:limit]],
            "next": found[limit - 1][0] if len(found) > limit else None,
        }
        await respond_json(send, body)

    async def manage(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Describe or control the subscription that the path names."""
        _require_admin(scope)
        raw, slash, action = scope["mainstem.subpath"].partition(b"/")
        if (slash or not raw) and action not in (b"pause", b"resume", b"redeliver"):
            raise NotFound("nothing is served at this path of a subscription")
        method: str = scope["method"]
        if method != ("POST" if action else "GET"):
            raise method_not_allowed(method, "POST, OPTIONS" if action else "GET, OPTIONS")
        name = unquote_text(raw)
        check_id(name)
        if not action:
            await self._describe(name, send)
            return
        body = await read_body(collect_headers(scope["headers"]), receive, limits.CONTROL_BODY_BYTES_MAX)
        state = await self.dispatcher.find(name)
        if action == b"pause":
            await self.log.submit(Pause(name, state.nonce))
        elif action == b"resume":
            await self.log.submit(Resume(name, state.nonce))
        else:
            await self.dispatcher.redeliver(name, *_read_move(body))
        await respond(send, 204, CORS_HEADERS)

    async def _describe(self, name: str, send: Send) -> None:
        state = await self.dispatcher.find(name)
        streams, truncated = await self.dispatcher.list_cursors(name, state)
        await respond_json(send, describe(name, state) | {"streams": streams, "streams_truncated": truncated})


def _require_admin(scope: Scope) -> None:
    identity: Identity = scope["mainstem.identity"]
    identity.require_admin()


def _read_move(body: bytes) -> tuple[str | None, Offset | None]:
    """Return the stream whose cursor to move and the offset, or None for its beginning, from the body of a request."""
    request = decode_json(body, RedeliverRequest, InvalidSubscription) if body else RedeliverRequest()
    if request.stream is None and request.offset is None:
        return None, None
    if request.stream is None or request.offset is None:
        raise InvalidSubscription("stream and offset belong together: send both, or neither")
    path = request.stream.lstrip("/")
    try:
        check_path(path)
        offset = parse_offset(request.offset)
    except BadPath as error:
        raise InvalidSubscription(error.detail) from None
    except BadOffset as error:
        raise InvalidOffset(error.detail) from None
    if offset is Sentinel.NOW:
        raise InvalidOffset("the offset must be -1 or one that this server sent, because only a move back is possible")
    return path, offset if isinstance(offset, Offset) else None


def describe(name: str, state: Subscription) -> dict[str, Any]:
    config = state.config
    error = state.last_error
    return {
        "subscription_id": name,
        "type": config.type,
        "pattern": config.pattern,
        "webhook_url": config.webhook_url,
        "wake_stream": config.wake_stream,
        "created_at": format_time(state.created_at_us),
        "owner": state.owner,
        "status": state.status,
        "paused": state.paused,
        "generation": state.generation,
        "wake_id": state.wake_id,
        "holder": state.holder,
        # No lease runs while the next attempt is awaited.
        "lease_until": _format(state.lease_until_us if state.next_attempt_us is None else None),
        "attempts": state.attempts,
        "next_attempt_at": _format(state.next_attempt_us),
        "last_error": None if error is None else {"at": format_time(error.at_us), "reason": error.reason},
        "unacknowledged_since": _format(state.unacknowledged_since_us),
    }


def _format(time_us: int | None) -> str | None:
    return None if time_us is None else format_time(time_us)
