"""Which web pages may use the server.

A browser lets any page send requests to a server on the same machine or network, and the `Origin` header names the site
of the page. Without tokens, `Origins` decides which pages may change data, and the `Host` header shows whether a page
has pointed a name of its own at this server (DNS rebinding). With tokens, `PageOrigins` decides which pages may read
replies and open WebSockets, and which may use the cookie of their visitor.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from mainstem import limits
from mainstem.errors import ForgedRequest, HostNotAllowed, OriginNotAllowed, SettingsError
from mainstem.http.asgi import Headers, Scope
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.requests import request_origin
from mainstem.server.addresses import is_address, is_loopback
from mainstem.server.settings import Settings

READ_ONLY: Final = frozenset(["GET", "HEAD", "OPTIONS"])
EVERY_ORIGIN: Final = "*"
OWN_SITES: Final = frozenset([b"same-origin", b"same-site", b"none"])
"""What browsers send as Sec-Fetch-Site, except `cross-site`; `none` is what a person has typed or bookmarked."""
DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
PUBLIC: Final = ReplyPolicy(open_to=b"*")
"""For files that everybody may read, even on a server with tokens."""


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


class PageOrigins:
    """The rules for pages on a server with tokens: only its own pages, unless `allowed` lists others.

    A listed origin may also use the cookie. `*` lists every origin, without the cookie.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        listed = set(allowed)
        self._allowed = frozenset(_parse_origin(text) for text in listed - {EVERY_ORIGIN})
        everybody = EVERY_ORIGIN in listed
        varies = bool(self._allowed)
        self._others = ReplyPolicy(b"*" if everybody else None, varies_by_origin=varies)
        self._policies = {
            origin.encode("latin-1"): ReplyPolicy(origin.encode("latin-1"), True, varies) for origin in self._allowed
        }
        self._everybody = everybody

    def choose_policy(self, origin: bytes | None) -> ReplyPolicy:
        """Return what a page of this origin may see of a reply; None stands for a request that is from no page."""
        return self._others if origin is None else self._policies.get(origin.lower(), self._others)

    def check_handshake(self, scope: Scope, headers: Headers) -> None:
        """Refuse the WebSocket of a page of another site. The token comes later, so only the page's origin counts."""
        origin = headers.get(b"origin")
        if origin is None or self._everybody:
            return
        text = _normalise(origin)
        # Only the hosts are compared: a proxy that ends TLS may not say so.
        own_host = request_origin(scope, headers).lower().partition("://")[2]
        if text not in self._allowed and text.partition("://")[2] != _strip_port(text, own_host):
            raise OriginNotAllowed(f"pages of {text[:128]!r} may not open WebSockets of this server")

    def check_cookie_use(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request that the page of another site may have made a browser send, with the cookie of its visitor.

        SameSite=Strict already keeps browsers from that, but a site includes all subdomains and ports of a name.
        """
        site = headers.get(b"sec-fetch-site")
        if scope["method"] in READ_ONLY:
            if site is not None and site not in OWN_SITES:
                raise ForgedRequest("this request comes from a page of another site, which may not use the cookie")
            return
        origin = headers.get(b"origin")
        if origin is None:
            if site != b"same-origin":
                raise ForgedRequest("this request has neither an Origin nor Sec-Fetch-Site: same-origin")
            return
        text = _normalise(origin)
        if text not in self._allowed and text != _normalise(request_origin(scope, headers).encode("latin-1")):
            raise ForgedRequest(f"pages of {text[:128]!r} may not use the cookie to change anything")


def open_origins(settings: Settings, *, guard_hosts: bool) -> Origins | None:
    """Return the rules for web pages; None if the server requires tokens."""
    if settings.authenticates:
        return None
    return Origins(_list_allowed(settings), settings.host, guard_hosts=guard_hosts)


def open_page_origins(settings: Settings) -> PageOrigins | None:
    """Return the rules for web pages; None if the server requires no tokens."""
    return PageOrigins(_list_allowed(settings)) if settings.authenticates else None


def _list_allowed(settings: Settings) -> list[str]:
    allowed = [text.strip() for text in (settings.allow_origin or "").split(",") if text.strip()]
    if len(allowed) > limits.ORIGINS_ALLOWED_MAX:
        raise SettingsError(f"allow_origin lists more than {limits.ORIGINS_ALLOWED_MAX} origins")
    return allowed


def _parse_origin(text: str) -> str:
    if text == EVERY_ORIGIN:
        raise SettingsError("allow_origin: * needs tokens; without them, every page could change everything")
    parts = urlsplit(text.lower().rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path or parts.query or parts.fragment:
        raise SettingsError(f"allow_origin: {text!r} is not an origin such as https://app.example.com")
    return _strip_port(parts.scheme, f"{parts.scheme}://{parts.netloc}")


def _normalise(origin: bytes) -> str:
    text = origin.decode("latin-1").lower()
    return _strip_port(text, text)


def _strip_port(scheme: str, text: str) -> str:
    """Return an origin or a host without the port that its scheme implies; browsers leave it out."""
    return text.removesuffix(DEFAULT_PORTS.get(scheme.partition(":")[0], ""))


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
