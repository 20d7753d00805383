"""`GET /v1/whoami`: who the server takes the caller for, and what the caller may do."""

from importlib.util import find_spec

from mainstem import __version__
from mainstem.access import Identity
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.responses import method_not_allowed, respond_json
from mainstem.timestamps import format_seconds


class Whoami:
    def __init__(self, *, authenticates: bool) -> None:
        """`authenticates` says whether the server asks for tokens; without them, everybody may do everything."""
        self.authenticates = authenticates
        self.arrow = find_spec("pyarrow") is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            raise method_not_allowed(scope["method"], "GET, OPTIONS")
        identity: Identity = scope["mainstem.identity"]
        body = {
            "authenticates": self.authenticates,
            "client_id": identity.client_id,
            "subject": identity.subject,
            "admin": identity.admin,
            "metrics": identity.admin or identity.metrics,
            "sign_urls": identity.admin or identity.sign_urls,
            "streams": {"read": identity.stream_reads, "write": identity.stream_writes},
            "partitions": sorted(identity.partitions),
            "partition_prefixes": identity.partition_prefixes,
            "expires_at": None if identity.expires_at_s is None else format_seconds(identity.expires_at_s),
            "arrow": self.arrow,
            "version": __version__,
        }
        await respond_json(send, body)
