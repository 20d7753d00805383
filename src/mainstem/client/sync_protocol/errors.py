"""Errors of the sync protocol, as a client raises them, with the server's codes."""

from typing import Any

from mainstem.client.core.errors import ClientError


class SyncClientError(ClientError):
    """The base class of all errors of the offline client."""

    code = "sync_client_error"


class ProtocolFault(SyncClientError):
    """A message breaks the protocol: it was damaged on the way, or it is from another kind of server."""

    code = "protocol_fault"
    retryable = True
    hint = "The client applied none of it, and reconnects. If this happens again, check the proxies in between."


HINTS = {
    "auth_failed": "Pass a valid token for this client_id; a callable as token= can return one per connection.",
    "forbidden": "Use a token that allows this partition, or remove the partition from this client.",
    "protocol_version_unsupported": "Client and server speak different protocol versions: upgrade the older one.",
    "rate_limited": "The client slows down and retries automatically.",
    "server_error": "The client reconnects automatically; the server's log has the reason.",
}


class ServerRefused(SyncClientError):
    """An error that the server sent; `code` is the server's."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(f"the server answered {code}: {message}", hint=HINTS.get(code, ""))
        self.code = code
        self.message = message
        self.details = details or {}
        self.retryable = code in ("rate_limited", "server_error")

    @property
    def retry_after_s(self) -> float | None:
        """How many seconds the server asks the client to wait, if it does."""
        wait_ms = self.details.get("retry_after_ms")
        return wait_ms / 1000 if isinstance(wait_ms, int | float) else None
