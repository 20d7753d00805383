"""The URL of a server's sync endpoint."""

import re
from urllib.parse import urlsplit, urlunsplit

from mainstem.client.core.errors import BadArgument

PATH = "/v1/sync"
STREAMS = re.compile(r"/v1/streams?(/.*)?$")
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def endpoint_url(server_url: str) -> str:
    """Return the WebSocket URL of the sync endpoint of the server at an http(s) address."""
    parts = urlsplit(server_url)
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


def resolve_url(url: str) -> str:
    """Return the URL of the endpoint for a URL from a user: that of a server, or of the endpoint itself."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadArgument(f"{url!r} is not the URL of a server: use ws://host:port/v1/sync or http://host:port")
    if STREAMS.search(parts.path):
        better = urlunsplit((SCHEMES[parts.scheme], parts.netloc, STREAMS.sub(PATH, parts.path), "", ""))
        raise BadArgument(f"{url!r} is the URL of streams: the sync endpoint is {better}")
    path = parts.path if parts.path not in ("", "/") else PATH
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, parts.query, ""))
