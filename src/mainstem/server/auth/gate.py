"""The gate: every HTTP request passes it once, and either gets an identity or is refused.

What the identity may do is decided where the stream is known. A request to a path that needs no token gets the identity
of nobody, so that a mistake here grants nothing.
"""

import re
from collections.abc import MutableMapping
from typing import Any, Final

from mainstem.access import EVERYBODY, Identity, name_caller
from mainstem.errors import TokenInUrl, Unauthorized
from mainstem.http.asgi import Headers, Scope, Send
from mainstem.http.requests import parse_query
from mainstem.http.responses import make_private
from mainstem.server.auth.authenticator import NO_TOKEN, Authenticator, Clock, configure_authenticator
from mainstem.server.auth.rates import RateLimits
from mainstem.server.endpoints.browser_client import is_client_file
from mainstem.server.endpoints.console import is_page
from mainstem.server.settings import Settings
from mainstem.streams.rules.paths import Mount

NOBODY: Final = Identity()
HEALTH_PATHS: Final = frozenset([b"/healthz", b"/readyz"])
DESCRIPTION_PATHS: Final = frozenset([b"/openapi.json", b"/asyncapi.json"])
JWKS_PATH: Final = b"/jwks.json"
# These carry the token of a wake, which the subscription itself checks.
WAKE_PATH = re.compile(rb"/subscriptions/[^/]+/(?:callback|ack|release)")
TOKEN_PARAMETERS: Final = frozenset(["token", "access_token", "jwt", "authorization"])


def open_gate(settings: Settings, clock_us: Clock, *, console: bool = False) -> "Gate | None":
    """Return the gate that the settings ask for; None if there are neither tokens nor a rate limit.

    `console` says whether the server has web pages, which need no token.
    """
    authenticator = configure_authenticator(settings, clock_us)
    rates = RateLimits(settings.max_requests_per_second, clock_us) if settings.max_requests_per_second else None
    if authenticator is None and rates is None:
        return None
    return Gate(authenticator, rates, Mount(settings.stream_prefix), console=console)


class Gate:
    def __init__(
        self, authenticator: Authenticator | None, rates: RateLimits | None, mount: Mount, *, console: bool = False
    ) -> None:
        self.authenticator = authenticator
        self._control = mount.control
        self._rates = rates
        self._console = console

    async def admit(self, scope: Scope, path: bytes, send: Send) -> Send:
        """Put the identity into the scope, and return the `send` to reply with. Raises an error if it refuses."""
        method: str = scope["method"]
        if method != "OPTIONS":  # a preflight carries no token, and changes nothing
            self.check_url(scope)
        if method == "OPTIONS" or path in HEALTH_PATHS:
            scope["mainstem.identity"] = NOBODY if self.authenticator else EVERYBODY
            return send
        client = scope.get("client")
        identity = await self._identify(scope, method, path, client)
        self._count(identity, client)
        scope["mainstem.identity"] = identity
        scope["mainstem.private"] = private = self.authenticator is not None and identity is not NOBODY
        return keep_private(send) if private else send

    def admit_known(self, headers: Headers, client: tuple[str, int] | None) -> Identity | None:
        """Return the identity for a token that was verified before, without waiting. None: call `admit` instead."""
        identity = self.find_known(headers)
        return None if identity is None or not self.count_known(identity, client) else identity

    def find_known(self, headers: Headers) -> Identity | None:
        """Return the identity for a token that was verified before, or None. This does not count the request."""
        if self.authenticator is None:
            return EVERYBODY
        token = read_bearer(headers.get(b"authorization", b""))
        return None if token is None else self.authenticator.known(token)

    def count_known(self, identity: Identity, client: tuple[str, int] | None) -> bool:
        """Count a request, and return whether the rate limit allows it."""
        return self._rates is None or not self._rates.take(name_caller(identity, client))

    def admit_socket(self, scope: Scope) -> None:
        """Check the handshake of a WebSocket. Its token comes later, so the rate limit counts it for its address."""
        self.check_url(scope)
        self._count(NOBODY, scope.get("client"))

    def check_url(self, scope: Scope) -> None:
        """Refuse a token in the query, even a valid one: URLs end up in logs and browser histories."""
        if self.authenticator is not None and scope["query_string"]:
            for name, _ in parse_query(scope):
                if name.lower() in TOKEN_PARAMETERS:
                    raise TokenInUrl(
                        f"the query parameter {name!r} looks like a token, and this server accepts no tokens in URLs"
                    )

    async def _identify(self, scope: Scope, method: str, path: bytes, client: Any) -> Identity:
        if self.authenticator is None:
            return EVERYBODY
        if path in DESCRIPTION_PATHS or is_client_file(path) or (self._console and is_page(scope, path)):
            return NOBODY
        if path.startswith(self._control) and needs_no_token(method, path[len(self._control) :]):
            return NOBODY
        try:
            return await self.authenticator.identify(find_bearer(scope))
        except Unauthorized:
            self._count(NOBODY, client)
            raise

    def _count(self, identity: Identity, client: Any) -> None:
        if self._rates is not None:
            self._rates.require(name_caller(identity, client))


def needs_no_token(method: str, path: bytes) -> bool:
    """Return whether a control path is open to everybody; `path` is the part after the reserved segment."""
    if path == JWKS_PATH:
        return method in ("GET", "HEAD")
    return method == "POST" and WAKE_PATH.fullmatch(path) is not None


def find_bearer(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if not values:
        raise Unauthorized(NO_TOKEN, sent=False)
    token = read_bearer(values[0])
    if token is None or len(values) > 1:
        raise Unauthorized("the Authorization header must be one Bearer token")
    return token


def read_bearer(value: bytes) -> str | None:
    scheme, _, token = value.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" and token else None


def keep_private(send: Send) -> Send:
    """Wrap `send` so that no shared cache stores the reply: it is for the holder of the token alone."""

    async def send_privately(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = make_private(message["headers"])
        await send(message)

    return send_privately
