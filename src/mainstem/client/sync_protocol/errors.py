"""Errors of the sync protocol as a client sees them, with the server's codes."""

from typing import Any

from mainstem.client.core.errors import ClientError


class SyncClientError(ClientError):
    """The base of all errors of the offline client."""

    code = "sync_client_error"


class ProtocolFault(SyncClientError):
    """The server sent what it must not send: cut or corrupt on its way, or from something that is no such server."""

    code = "protocol_fault"
    retryable = True
    hint = "Nothing of it was applied, and the client connects again. If it stays so, look at what is in between."


HINTS = {
    "auth_failed": "Give a valid token for this client_id; a callable as token= is asked again at each connection.",
    "forbidden": "Use a token with this partition, or remove the partition from this client.",
    "protocol_version_unsupported": "Client and server speak different versions: upgrade the older one.",
    "rate_limited": "The client slows down and tries again by itself.",
    "server_error": "The client connects again by itself; the server's log has the reason.",
}


class ServerRefused(SyncClientError):
    """An error message of the server; `code` is the server's."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(f"the server said {code}: {message}", hint=HINTS.get(code, ""))
        self.code = code
        self.message = message
        self.details = details or {}
        self.retryable = code in ("rate_limited", "server_error")

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asks the client to wait, if it does."""
        wait_ms = self.details.get("retry_after_ms")
        return wait_ms / 1000 if isinstance(wait_ms, int | float) else None
