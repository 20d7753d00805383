"""Where a request has its token: in the Authorization header, in a cookie, or as the signature of its URL."""

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from mainstem.errors import BadQuery, TwoCredentials, Unauthorized
from mainstem.http.asgi import Headers, Scope
from mainstem.http.cookies import find_cookies
from mainstem.http.reply_policies import ReplyPolicy
from mainstem.http.requests import collect_headers, parse_query, request_origin
from mainstem.server.auth.authenticator import NO_TOKEN
from mainstem.signed_urls import PARAMETER

COOKIE_NAME: Final = "mainstem"


class Source(Enum):
    HEADER = "header"
    COOKIE = "cookie"
    URL = "url"


class Credential(NamedTuple):
    source: Source
    token: str


@lru_cache(1024)  # more than there are listed origins, three times
def restrict(policy: ReplyPolicy, source: Source) -> ReplyPolicy:
    """Return the policy for replies to a caller that has authenticated in this way."""
    if source is Source.HEADER:
        return msgspec.structs.replace(policy, private=b"authorization")
    if source is Source.COOKIE:
        # A request with a token may have a cookie as well, and then the token counts.
        return msgspec.structs.replace(policy, private=b"authorization, cookie", by_cookie=True)
    return msgspec.structs.replace(policy, private=b"authorization", by_url=True)


def find_credential(scope: Scope) -> Credential:
    """Return the credential of a request. A signature excludes a token, and the cookie counts only without both.

    Raises `Unauthorized` if there is none, and an error if it is unclear which one counts.
    """
    signature = find_signature(scope)
    bearers = [value for name, value in scope["headers"] if name == b"authorization"]
    if signature is not None:
        if bearers:
            raise TwoCredentials("the URL has a signature, and the request has an Authorization header, too")
        return Credential(Source.URL, signature)
    if bearers:
        token = read_bearer(bearers[0])
        if token is None or len(bearers) > 1:
            raise Unauthorized("the Authorization header must be one Bearer token")
        return Credential(Source.HEADER, token)
    name = name_cookie(scope, collect_headers(scope["headers"]))
    cookies = find_cookies(scope["headers"], name.encode())
    if len(cookies) > 1:
        raise Unauthorized(f"the request has {len(cookies)} cookies for this server; delete the cookies of this site")
    if not cookies:
        raise Unauthorized(NO_TOKEN, sent=False)
    return Credential(Source.COOKIE, cookies[0].decode("latin-1"))


def find_signature(scope: Scope) -> str | None:
    signatures = [value for name, value in parse_query(scope) if name == PARAMETER]
    if len(signatures) > 1:
        raise BadQuery(f"the query parameter {PARAMETER} appears more than once")
    return signatures[0] if signatures else None


def read_bearer(value: bytes) -> str | None:
    scheme, _, token = value.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" and token else None


def is_secure(scope: Scope, headers: Headers) -> bool:
    """Return whether the client uses https, perhaps to a trusted proxy."""
    return request_origin(scope, headers).startswith("https:")


def name_cookie(scope: Scope, headers: Headers) -> str:
    """Return the name of the cookie that counts. Its prefix makes browsers refuse one that another host has set.

    `__Host-` needs the path /, so an app that is mounted below another path has the second best.
    """
    if not is_secure(scope, headers):
        return COOKIE_NAME
    return ("__Secure-" if scope.get("root_path") else "__Host-") + COOKIE_NAME
