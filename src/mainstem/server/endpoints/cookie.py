"""`/v1/cookie`: PUT keeps the caller's token in a cookie that scripts cannot read, DELETE removes that cookie."""

from urllib.parse import quote

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import CookieTooLarge, TokensNotRequired, Unauthorized
from mainstem.http.asgi import Headers, Receive, Scope, Send
from mainstem.http.cookies import format_cookie
from mainstem.http.requests import collect_headers
from mainstem.http.responses import CORS_HEADERS, NO_STORE, method_not_allowed, respond
from mainstem.server.auth.authenticator import Clock
from mainstem.server.auth.credentials import Source, find_credential, is_secure, name_cookie
from mainstem.server.origins import PageOrigins


class CookieHttp:
    def __init__(self, pages: PageOrigins | None, clock_us: Clock) -> None:
        """`pages` is None on a server that requires no tokens."""
        self._pages = pages
        self._clock_us = clock_us

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("PUT", "DELETE"):
            raise method_not_allowed(scope["method"], "PUT, DELETE, OPTIONS")
        if self._pages is None:
            raise TokensNotRequired("this server requires no tokens, so it keeps none in a cookie")
        headers = collect_headers(scope["headers"])
        # Otherwise another site could sign its visitors in with a token of its own, or sign them out.
        self._pages.check_cookie_use(scope, headers)
        cookie = self._make(scope, headers) if scope["method"] == "PUT" else _write(scope, headers, "", 0)
        await respond(send, 204, [*CORS_HEADERS, NO_STORE, cookie])

    def _make(self, scope: Scope, headers: Headers) -> tuple[bytes, bytes]:
        source, token = find_credential(scope)
        if source is not Source.HEADER:
            raise Unauthorized("the token for the cookie must be in the Authorization header", sent=False)
        name = name_cookie(scope, headers)
        if len(name) + len(token) > limits.COOKIE_BYTES_MAX:
            raise CookieTooLarge(
                f"the token has {len(token)} bytes, and a cookie can hold {limits.COOKIE_BYTES_MAX - len(name)}"
            )
        identity: Identity = scope["mainstem.identity"]
        left_s = None
        if identity.expires_at_s is not None:
            left_s = max(int(identity.expires_at_s - self._clock_us() / 1_000_000), 0)
        return _write(scope, headers, token, left_s)


def _write(scope: Scope, headers: Headers, token: str, max_age_s: int | None) -> tuple[bytes, bytes]:
    cookie = format_cookie(
        name_cookie(scope, headers),
        token,
        path=quote(scope.get("root_path", "")) or "/",
        secure=is_secure(scope, headers),
        max_age_s=max_age_s,
    )
    return b"set-cookie", cookie
