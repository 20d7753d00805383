"""Which web pages may change data on a server without tokens.

A browser lets any page send requests to a server on the same machine or network. Tokens protect against that, because
the page does not have one. Without tokens, the `Origin` header names the site of the page, and the `Host` header shows
whether the page has pointed a name of its own at this server (DNS rebinding).
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
    """`allowed` are origins such as https://app.example.com, which may do everything, under their host names, too."""

    def __init__(self, allowed: Iterable[str], host: str, *, guard_hosts: bool) -> None:
        self._allowed = frozenset(_parse_origin(text) for text in allowed)
        self._hosts = frozenset([host.lower(), *(urlsplit(origin).hostname or "" for origin in self._allowed)])
        self._guard_hosts = guard_hosts
        self._is_known_host = lru_cache(maxsize=256)(self._names_this_server)

    def check_host(self, host: bytes | None) -> None:
        """Refuse a request to a host name that somebody else may have pointed at this server."""
        if self._guard_hosts and host and not self._is_known_host(host):
            raise HostNotAllowed(f"this server does not serve the host name {host.decode('latin-1')!r}")

    def check_command(self, origin: bytes | None, host: bytes | None) -> None:
        """Refuse a command from a page of another site."""
        if origin is None:
            return
        text = origin.decode("latin-1").lower()
        if text not in self._allowed and not _may_command(text, host):
            raise OriginNotAllowed(f"pages of {text[:128]!r} may not send commands to this server")

    def _names_this_server(self, host: bytes) -> bool:
        """Return whether a host is allowed, an address, or a name that no stranger can own: local, or without a dot."""
        try:
            name = (urlsplit("//" + host.decode("latin-1").lower()).hostname or "").removesuffix(".")
        except ValueError:  # brackets around something that is not an address
            return False
        return "." not in name or name in self._hosts or name.endswith(".localhost") or is_address(name)


def open_origins(settings: Settings, *, guard_hosts: bool) -> Origins | None:
    """Return the rules for web pages; None if the server requires tokens."""
    if settings.authenticates:
        return None
    allowed = [text.strip() for text in (settings.allow_origin or "").split(",") if text.strip()]
    return Origins(allowed, settings.host, guard_hosts=guard_hosts)


def _parse_origin(text: str) -> str:
    parts = urlsplit(text.lower().rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        raise SettingsError(f"allow_origin: {text!r} is not an origin such as https://app.example.com")
    return f"{parts.scheme}://{parts.netloc}"


def _may_command(origin: str, host: bytes | None) -> bool:
    """Return whether a page of this origin is local, or comes from the host that the request names."""
    try:
        parts = urlsplit(origin)
    except ValueError:  # brackets that enclose no address
        return False
    same_host = host is not None and parts.netloc == host.decode("latin-1").lower()
    return parts.scheme in ("http", "https") and (same_host or _is_local(parts.hostname or ""))


def _is_local(name: str) -> bool:
    return name.endswith(".localhost") or is_loopback(name)
