"""`POST /v1/signed-urls`: sign the URL of a stream or partition that the caller may read."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mainstem import limits
from mainstem.access import Identity, ReadUrl
from mainstem.errors import BadRequest, Forbidden, NoSigningSecret, TokensNotRequired
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import collect_headers, decode_json, read_body, request_origin
from mainstem.http.responses import method_not_allowed, respond_json
from mainstem.server.auth.authenticator import Authenticator, Clock
from mainstem.signed_urls import check_partition, find_in_url, write_path
from mainstem.streams.rules.paths import Mount, check_path, is_reserved
from mainstem.timestamps import format_seconds


class SignedUrlRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one of the first three."""

    url: str | UnsetType = UNSET
    stream: str | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    expires_in_s: Annotated[int, Meta(ge=1, le=limits.SIGNED_URL_S_MAX)] = limits.SIGNED_URL_S


class SignedUrls:
    def __init__(self, authenticator: Authenticator | None, mount: Mount, clock_us: Clock) -> None:
        """`authenticator` is None on a server that requires no tokens."""
        self._authenticator = authenticator
        self._mount = mount
        self._clock_us = clock_us

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            raise method_not_allowed(scope["method"], "POST, OPTIONS")
        if self._authenticator is None:
            raise TokensNotRequired("this server requires no tokens, so its URLs need no signature")
        identity: Identity = scope["mainstem.identity"]
        if not (identity.admin or identity.sign_urls):
            raise Forbidden("this token does not allow signing URLs: it lacks the claim sign_urls")
        headers = collect_headers(scope["headers"])
        request = decode_json(await read_body(headers, receive, limits.CONTROL_BODY_BYTES_MAX), SignedUrlRequest)
        target = self._find_target(request)
        if not identity.may_read_target(target):
            raise Forbidden(f"this token does not allow reading {target.stream or target.partition!r}")
        signer = self._authenticator.signer
        if signer is None:
            raise NoSigningSecret("this server has no secret (--jwt-secret-file), and public keys cannot sign")
        url = request.url
        if url is UNSET:
            url = request_origin(scope, headers) + scope.get("root_path", "") + write_path(target, self._mount)
        expires_at_s = self._clock_us() / 1_000_000 + request.expires_in_s
        if identity.expires_at_s is not None:  # the right to read ends with the token
            expires_at_s = min(expires_at_s, identity.expires_at_s)
        signed = signer.sign(url, target, int(expires_at_s))
        await respond_json(send, {"url": signed, "expires_at": format_seconds(int(expires_at_s))}, 201)

    def _find_target(self, request: SignedUrlRequest) -> ReadUrl:
        if [request.url, request.stream, request.partition].count(UNSET) != 2:
            raise BadRequest("the body must have exactly one of url, stream and partition")
        if request.url is not UNSET:
            return find_in_url(request.url, self._mount)
        if request.partition is not UNSET:
            return ReadUrl(partition=check_partition(request.partition))
        assert request.stream is not UNSET
        check_path(request.stream)
        if is_reserved(request.stream):
            raise BadRequest(f"{request.stream!r} is not a stream, but a part of the API")
        return ReadUrl(stream=request.stream)
