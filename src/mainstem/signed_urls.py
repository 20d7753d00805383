"""Signed URLs: read one stream or partition for a short time, without a header.

Browsers cannot send headers with `EventSource`, `<img>` or a link. Somebody who holds the secret of a server signs the
URL instead: the query parameter `signature` is a JWT that names what may be read, and until when.
"""

import re
import time
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from joserfc import jws
from joserfc.jwk import OctKey

from mainstem import limits
from mainstem.access import ReadUrl
from mainstem.errors import BadQuery, BadRequest, SettingsError, ValidationFailed
from mainstem.streams.rules import paths
from mainstem.sync.protocol.partitions import normalise

PARAMETER: Final = "signature"
PARTITION_ROOT: Final = b"/v1/partition/"
URL_CHARACTERS: Final = "%/:@!$&'()*+,;=~-._"
"""What a path may contain without being percent-encoded."""


# A key pair or a public key is not a secret: anybody with the public half could sign tokens.
KEY_FILE = re.compile(rb"---- ?BEGIN |ssh-(?:rsa|dss|ed25519) |ecdsa-sha2-")


def sign_url(
    url: str,
    secret: str | bytes,
    *,
    expires_in_s: float = limits.SIGNED_URL_S,
    issuer: str | None = None,
    audience: str | None = None,
    client_id: str | None = None,
    stream_prefix: str = paths.PREFIX,
) -> str:
    """Return the URL of a stream or partition with a signature, with which anybody can read it until it expires.

    `secret` is the content of the server's `--jwt-secret-file`. No server is asked: the caller decides who may read.

    The URL may have a query, such as `?offset=-1&live=sse`. It is kept, but not signed: readers choose their offsets.
    `expires_in_s` is at most an hour. Pass `issuer` and `audience` if the server has `--jwt-issuer` and
    `--jwt-audience`. With a `client_id`, the server counts the readers of this URL together, instead of by address.
    `stream_prefix` is the server's `--stream-prefix`.

    Raises `MainstemError` if the URL is not one of a stream or partition, the lifetime is too long, or the secret too
    short.
    """
    expires_at_s = int(time.time() + check_lifetime(expires_in_s))
    signer = UrlSigner(read_secret_text(secret), issuer=issuer, audience=audience)
    return signer.sign(url, find_in_url(url, paths.Mount(stream_prefix)), expires_at_s, client_id=client_id)


class UrlSigner:
    """Signs URLs with the secret of a server, for the issuer and the audience that it expects."""

    def __init__(self, secret: bytes, *, issuer: str | None = None, audience: str | None = None) -> None:
        self._secret = secret
        self._claims: dict[str, Any] = {}
        if issuer is not None:
            self._claims["iss"] = issuer
        if audience is not None:
            self._claims["aud"] = audience

    def sign(self, url: str, target: ReadUrl, expires_at_s: int, *, client_id: str | None = None) -> str:
        """Return the URL with a signature for what it names, which is `target`."""
        parts = urlsplit(url)
        if any(name == PARAMETER for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
            raise BadQuery("the URL already has a signature")
        claims = {"read_url": target, "exp": expires_at_s, **self._claims}
        if client_id is not None:
            claims["client_id"] = client_id
        signature = sign_with_secret(msgspec.json.encode(claims), self._secret)
        query = f"{parts.query}&{PARAMETER}={signature}" if parts.query else f"{PARAMETER}={signature}"
        return parts._replace(path=quote(parts.path, safe=URL_CHARACTERS), query=query).geturl()


def check_lifetime(expires_in_s: float) -> float:
    """Return a lifetime that the server accepts. Raises `BadRequest` for any other."""
    if not 1 <= expires_in_s <= limits.SIGNED_URL_S_MAX:
        raise BadRequest(f"a signed URL must expire in 1 to {limits.SIGNED_URL_S_MAX} seconds")
    return expires_in_s


def find_in_url(url: str, mount: paths.Mount) -> ReadUrl:
    """Return the stream or partition that a URL names, even if the server is mounted below a path of its own."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadRequest("this is not a URL") from None
    absolute = parts.scheme in ("http", "https") and bool(parts.hostname)
    if not (absolute or (not parts.scheme and not parts.netloc and parts.path.startswith("/"))):
        raise BadRequest("the URL must begin with http:// or https://, or be a path")
    if parts.fragment or not url.isprintable() or " " in url:
        raise BadRequest("the URL must not have a fragment (#), spaces or control characters")
    path = parts.path.encode()
    starts = [at for at in (path.find(mount.root), path.find(PARTITION_ROOT)) if at >= 0]
    # The first one is the server's: a stream may have any path, even one that looks like a URL of its own.
    target = find_target(path[min(starts) :], mount) if starts else None
    if target is None:
        raise BadRequest(
            f"only URLs of streams and partitions can be signed, such as {mount.prefix}/chat/1 and /v1/partition/room/7"
        )
    return target


def find_target(path: bytes, mount: paths.Mount) -> ReadUrl | None:
    """Return the stream or partition that a path of the server names; None if it names neither."""
    if path.startswith(mount.root):
        stream = paths.parse_path(path[len(mount.root) :])
        return None if paths.is_reserved(stream) else ReadUrl(stream=stream)
    if path.startswith(PARTITION_ROOT):
        return ReadUrl(partition=check_partition(paths.unquote_text(path[len(PARTITION_ROOT) :])))
    return None


def check_partition(name: str) -> str:
    """Return the name of a partition as it is compared. Raises `BadRequest` if it is invalid."""
    try:
        return normalise([name])[0]
    except ValidationFailed as fault:
        raise BadRequest(fault.detail) from None


def write_path(target: ReadUrl, mount: paths.Mount) -> str:
    """Return the path of the URL under which a stream or a partition is read."""
    if target.stream is not None:
        return f"{mount.prefix}/{quote(target.stream)}"
    return PARTITION_ROOT.decode() + quote(target.partition or "")


def read_secret_text(secret: str | bytes) -> bytes:
    """Return a secret without the line break at the end of its file. Raises `SettingsError` if it is no secret."""
    found = (secret.encode() if isinstance(secret, str) else secret).rstrip(b"\r\n")
    if len(found) < limits.SECRET_BYTES_MIN:
        raise SettingsError(f"the secret is shorter than {limits.SECRET_BYTES_MIN} bytes")
    if KEY_FILE.search(found):
        raise SettingsError("this is a key of a key pair, not a secret")
    return found


def sign_with_secret(payload: bytes, secret: bytes) -> str:
    """Return a token with this payload."""
    return jws.serialize_compact({"alg": "HS256", "typ": "JWT"}, payload, OctKey.import_key(secret))
