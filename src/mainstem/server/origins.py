"""Which web pages may command a server that asks for no token.

A browser lets any page send requests to a server on the same machine or network. A token protects from that, because a
page does not have it. Without tokens, the `Origin` header tells whose page it is, and the `Host` header tells whether
the page's own name was pointed at this server (DNS rebinding).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from mainstem.errors import HostNotAllowed, OriginNotAllowed, SettingsError
from mainstem.server.addresses import is_address, is_loopback
from mainstem.server.settings import Settings

READ_ONLY: Final = frozenset(["GET", "HEAD", "OPTIONS"])


class Origins:
    """`allowed` are origins such as https://app.example.com, which may do everything; their hosts may name us too."""

    def __init__(self, allowed: Iterable[str], host: str, *, guard_hosts: bool) -> None:
        self._allowed = frozenset(_parse_origin(text) for text in allowed)
        self._hosts = frozenset([host.lower(), *(urlsplit(origin).hostname or "" for origin in self._allowed)])
        self._guard_hosts = guard_hosts
        self._is_known_host = lru_cache(maxsize=256)(self._names_this_server)

    def check_host(self, host: bytes | None) -> None:
        """Refuse a request whose page may have pointed a name of its own at this server."""
        if self._guard_hosts and host and not self._is_known_host(host):
            raise HostNotAllowed(f"this server is not known as {host.decode('latin-1')!r}")

    def check_command(self, origin: bytes | None, host: bytes | None) -> None:
        """Refuse a command that some other site's page sent."""
        if origin is None:
            return
        text = origin.decode("latin-1").lower()
        if text in self._allowed:
            return
        parts = urlsplit(text)
        same_host = host is not None and parts.netloc == host.decode("latin-1").lower()
        if parts.scheme not in ("http", "https") or not (same_host or _is_local(parts.hostname or "")):
            raise OriginNotAllowed(f"pages of {text[:128]!r} may not command this server")

    def _names_this_server(self, host: bytes) -> bool:
        """An address, a name of this machine or without a dot, which no stranger can own, or one that was allowed."""
        name = (urlsplit("//" + host.decode("latin-1").lower()).hostname or "").removesuffix(".")
        return "." not in name or name in self._hosts or name.endswith(".localhost") or is_address(name)


def open_origins(settings: Settings, *, guard_hosts: bool) -> Origins | None:
    """None where tokens decide."""
    if settings.authenticates:
        return None
    allowed = [text.strip() for text in (settings.allow_origin or "").split(",") if text.strip()]
    return Origins(allowed, settings.host, guard_hosts=guard_hosts)


def _parse_origin(text: str) -> str:
    parts = urlsplit(text.lower().rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        raise SettingsError(f"allow_origin: {text!r} is not an origin such as https://app.example.com")
    return f"{parts.scheme}://{parts.netloc}"


def _is_local(name: str) -> bool:
    return name.endswith(".localhost") or is_loopback(name)
