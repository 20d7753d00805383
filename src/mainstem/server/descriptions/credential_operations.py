"""The operations that turn a token into something that a web page can use: a signed URL, or a cookie."""

from typing import Final

from mainstem import errors, limits
from mainstem.server.descriptions import bodies, headers
from mainstem.server.descriptions.model import JSON, Access, Body, Operation, Path, Reply
from mainstem.server.endpoints.signed_urls import SignedUrlRequest

_COOKIE_ERRORS: Final = (errors.RepeatedHeader, errors.ForgedRequest, errors.TokensNotRequired)
_ORIGIN: Final = (
    " It must come from a page of the server's own origin or of one in `allow_origin`: with that `Origin`, or without"
    " one and with `Sec-Fetch-Site: same-origin`."
)

COOKIE: Final = Path(
    "/v1/cookie",
    {
        "put": Operation(
            "setCookie",
            "Server",
            "Keep the caller's token in a cookie",
            "The browser then sends the token with each request of a page of the same site, and no script can read it."
            + _ORIGIN,
            (headers.FORWARDED_PROTO, headers.FORWARDED_HOST),
            None,
            (Reply(204, "The reply sets the cookie.", ("Set-Cookie",)),),
            (*_COOKIE_ERRORS, errors.CookieTooLarge),
            access=Access.ANY,
        ),
        "delete": Operation(
            "deleteCookie",
            "Server",
            "Delete the cookie",
            "It needs no token, so that it works when the token has expired." + _ORIGIN,
            (headers.FORWARDED_PROTO, headers.FORWARDED_HOST),
            None,
            (Reply(204, "The reply deletes the cookie.", ("Set-Cookie",)),),
            _COOKIE_ERRORS,
            access=Access.PUBLIC,
        ),
    },
)

SIGNED_URLS: Final = Path(
    "/v1/signed-urls",
    {
        "post": Operation(
            "signUrl",
            "Server",
            "Sign the URL of a stream or partition",
            "Anybody who has the URL can read that stream or partition with GET and HEAD until it expires, without a"
            " token. The caller needs the claim `sign_urls` or `admin`, and the right to read it.",
            (headers.FORWARDED_PROTO, headers.FORWARDED_HOST),
            Body(f"What to sign: up to {limits.CONTROL_BODY_BYTES_MAX // limits.MIB} MiB.", {JSON: SignedUrlRequest}),
            (Reply(201, "The signed URL.", (), {JSON: bodies.SignedUrl}),),
            (
                errors.RepeatedHeader,
                errors.BadPath,
                errors.BadQuery,
                errors.BadRequest,
                errors.TokensNotRequired,
                errors.NoSigningSecret,
                errors.BodyTooLarge,
            ),
        )
    },
)
