"""The gate: every HTTP request passes it once, and either gets an identity or is refused.

What the identity may do is decided where the stream is known. A request to a path that needs no token gets the identity
of nobody, so that a mistake here grants nothing. Only signed URLs are checked here completely: they are for one path.
"""

import re
from typing import Any, Final

from mainstem.access import EVERYBODY, NOBODY, Identity, name_caller
from mainstem.errors import Forbidden, TokenInUrl, Unauthorized
from mainstem.http.asgi import Headers, Scope
from mainstem.http.requests import collect_headers, parse_query
from mainstem.server.auth.authenticator import Authenticator, Clock, configure_authenticator
from mainstem.server.auth.credentials import Source, find_credential, read_bearer, restrict
from mainstem.server.auth.rates import RateLimits
from mainstem.server.endpoints.browser_client import is_client_file
from mainstem.server.endpoints.console import is_page
from mainstem.server.origins import PageOrigins
from mainstem.server.settings import Settings
from mainstem.signed_urls import PARAMETER, find_target
from mainstem.streams.rules.paths import Mount

HEALTH_PATHS: Final = frozenset([b"/healthz", b"/readyz"])
DESCRIPTION_PATHS: Final = frozenset([b"/openapi.json", b"/asyncapi.json"])
JWKS_PATH: Final = b"/jwks.json"
COOKIE_PATH: Final = b"/v1/cookie"
# These carry the token of a wake, which the subscription itself checks.
WAKE_PATH = re.compile(rb"/subscriptions/[^/]+/(?:callback|ack|release)")
TOKEN_PARAMETERS: Final = frozenset(["token", "access_token", "jwt", "authorization"])


def open_gate(
    settings: Settings,
    clock_us: Clock,
    pages: PageOrigins | None,
    *,
    console: bool = False,
    visitor: Identity = EVERYBODY,
) -> "Gate | None":
    """Return the gate that the settings ask for; None if there are neither tokens nor a rate limit.

    `console` says whether the server has web pages, which need no token. `visitor` is the caller of every request to
    a server without tokens.
    """
    authenticator = configure_authenticator(settings, clock_us)
    rates = RateLimits(settings.max_requests_per_second, clock_us) if settings.max_requests_per_second else None
    if authenticator is None and rates is None:
        return None
    return Gate(authenticator, rates, Mount(settings.stream_prefix), pages, console=console, visitor=visitor)


class Gate:
    def __init__(
        self,
        authenticator: Authenticator | None,
        rates: RateLimits | None,
        mount: Mount,
        pages: PageOrigins | None,
        *,
        console: bool = False,
        visitor: Identity = EVERYBODY,
    ) -> None:
        self._visitor = visitor
        self.authenticator = authenticator
        self._mount = mount
        self._pages = pages
        self._rates = rates
        self._console = console

    async def admit(self, scope: Scope, path: bytes) -> None:
        """Put the identity and the policy for the reply into the scope. Raises an error if it refuses the request."""
        method: str = scope["method"]
        if method != "OPTIONS":  # a preflight carries no token, and changes nothing
            self.check_url(scope)
        if method == "OPTIONS" or path in HEALTH_PATHS:
            scope["mainstem.identity"] = NOBODY if self.authenticator else self._visitor
            return
        client = scope.get("client")
        identity = await self._identify(scope, method, path, client)
        self._count(identity, client)
        scope["mainstem.identity"] = identity

    def admit_known(self, headers: Headers, client: tuple[str, int] | None) -> Identity | None:
        """Return the identity for a token that was verified before, without waiting. None: call `admit` instead."""
        identity = self.find_known(headers)
        return None if identity is None or not self.count_known(identity, client) else identity

    def find_known(self, headers: Headers) -> Identity | None:
        """Return the identity for a token that was verified before, or None. This does not count the request.

        Cookies and signatures are left to `admit`, which also checks where the request comes from.
        """
        if self.authenticator is None:
            return self._visitor
        token = read_bearer(headers.get(b"authorization", b""))
        return None if token is None else self.authenticator.known(token)

    def count_known(self, identity: Identity, client: tuple[str, int] | None) -> bool:
        """Count a request, and return whether the rate limit allows it."""
        return self._rates is None or not self._rates.take(name_caller(identity, client))

    def admit_socket(self, scope: Scope) -> None:
        """Check the handshake of a WebSocket. Its token comes later, so the rate limit counts it for its address."""
        self.check_url(scope, PARAMETER)
        if self._pages is not None:
            self._pages.check_handshake(scope, collect_headers(scope["headers"]))
        self._count(NOBODY, scope.get("client"))

    def check_url(self, scope: Scope, *others: str) -> None:
        """Refuse a token in the query, even a valid one: URLs end up in logs and browser histories."""
        if self.authenticator is not None and scope["query_string"]:
            for name, _ in parse_query(scope):
                if name.lower() in TOKEN_PARAMETERS or name in others:
                    raise TokenInUrl(
                        f"the query parameter {name!r} looks like a token, and this server accepts no tokens in URLs"
                    )

    async def _identify(self, scope: Scope, method: str, path: bytes, client: Any) -> Identity:
        if self.authenticator is None:
            return self._visitor
        if path in DESCRIPTION_PATHS or is_client_file(path) or (self._console and is_page(scope, path)):
            return NOBODY
        control = self._mount.control
        if path.startswith(control) and needs_no_token(method, path[len(control) :]):
            return NOBODY
        if path == COOKIE_PATH and method == "DELETE":
            return NOBODY  # a browser whose token has expired must be able to delete its cookie
        try:
            return await self._authenticate(self.authenticator, scope, method, path)
        except Unauthorized:
            self._count(NOBODY, client)
            raise

    async def _authenticate(self, authenticator: Authenticator, scope: Scope, method: str, path: bytes) -> Identity:
        source, token = find_credential(scope)
        policy = scope.get("mainstem.policy")
        if policy is not None:
            scope["mainstem.policy"] = restrict(policy, source)
        if source is Source.URL:
            identity = await authenticator.identify_signature(token)
            self._check_signed(identity, method, path)
            return identity
        if source is Source.COOKIE and self._pages is not None:
            self._pages.check_cookie_use(scope, collect_headers(scope["headers"]))
        return await authenticator.identify(token)

    def _check_signed(self, identity: Identity, method: str, path: bytes) -> None:
        """Refuse everything but reading what the URL was signed for."""
        if method not in ("GET", "HEAD"):
            raise Forbidden(f"a signed URL is for reading, and does not allow {method}")
        if identity.read_url is None or find_target(path, self._mount) != identity.read_url:
            raise Forbidden("this signature is for the URL of another stream or partition")

    def _count(self, identity: Identity, client: Any) -> None:
        if self._rates is not None:
            self._rates.require(name_caller(identity, client))


def needs_no_token(method: str, path: bytes) -> bool:
    """Return whether a control path is open to everybody; `path` is the part after the reserved segment."""
    if path == JWKS_PATH:
        return method in ("GET", "HEAD")
    return method == "POST" and WAKE_PATH.fullmatch(path) is not None
