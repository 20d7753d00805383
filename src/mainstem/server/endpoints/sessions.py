"""The sync sessions of this node, for administrators.

GET    /v1/sessions?after=&limit=    who is connected, the oldest first
DELETE /v1/sessions/<number>         disconnects one of them
"""

from itertools import islice
from typing import Any

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import NotFound
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import parse_count, read_query
from mainstem.http.responses import CORS_HEADERS, method_not_allowed, respond, respond_json
from mainstem.server.log_api.selection import parse_number
from mainstem.sync.connection import SyncConnection
from mainstem.sync.websocket import SyncSocket
from mainstem.timestamps import format_seconds, format_time


class Sessions:
    def __init__(self, sync: SyncSocket) -> None:
        self.sync = sync

    async def list(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity: Identity = scope["mainstem.identity"]
        identity.require_admin()
        if scope["method"] != "GET":
            raise method_not_allowed(scope["method"], "GET, OPTIONS")
        query = read_query(scope)
        limit = parse_count(query.get("limit", str(limits.LISTED_SESSIONS)), "limit", limits.LISTED_SESSIONS)
        after = parse_number("after", query.get("after", "0"))
        found = [connection for connection in self.sync.connections() if connection.session.number > after]
        body = {"sessions": [describe_session(one) for one in found[:limit]], "truncated": len(found) > limit}
        await respond_json(send, body)

    async def disconnect(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity: Identity = scope["mainstem.identity"]
        identity.require_admin()
        if scope["method"] != "DELETE":
            raise method_not_allowed(scope["method"], "DELETE, OPTIONS")
        text = scope["mainstem.subpath"].decode("latin-1")
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= 16 else 0
        if not self.sync.disconnect(number):
            raise NotFound(f"there is no session {text[:16]!r} on this node: it has ended, or never existed")
        await respond(send, 204, CORS_HEADERS)


def describe_session(connection: SyncConnection) -> dict[str, Any]:
    session, identity = connection.session, connection.session.identity
    subscriptions = session.feed.subscriptions
    return {
        "session": session.number,
        # Until the server has verified the token, the client only claims to be this one.
        "client_id": session.client_id if connection.connected.is_set() else None,
        "subject": identity.subject,
        "address": connection.address,
        "connected_at": format_time(connection.connected_at_us),
        "admin": identity.admin,
        "allowed_partitions": sorted(identity.partitions)[: limits.LISTED_SESSION_NAMES],
        "allowed_partition_prefixes": identity.partition_prefixes[: limits.LISTED_SESSION_NAMES],
        "expires_at": None if identity.expires_at_s is None else format_seconds(identity.expires_at_s),
        "subscriptions": list(islice(subscriptions, limits.LISTED_SESSION_NAMES)),
        "subscription_count": len(subscriptions),
        "submitted": connection.submitted,
        "received": connection.received,
        "outbox_bytes": connection.send_queue.size,
    }
