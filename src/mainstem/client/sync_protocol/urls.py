"""Where a server has its sync endpoint."""

from urllib.parse import urlsplit, urlunsplit

from mainstem.client.core.errors import BadArgument

PATH = "/v1/sync"
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def endpoint_url(server_url: str) -> str:
    """The WebSocket URL of the sync endpoint of the server at an http address."""
    parts = urlsplit(server_url)
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


def resolve_url(url: str) -> str:
    """The same for a URL given by a user, which may already be that of the endpoint: a path is kept as it is."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadArgument(f"{url!r} is not a URL of a server: use ws://host:port/v1/sync or http://host:port")
    path = parts.path if parts.path not in ("", "/") else PATH
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))
