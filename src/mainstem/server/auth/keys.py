"""The keys that tokens are verified with: a shared secret, and the public keys of a JWKS.

The type of a key decides its algorithms. The algorithm that a token names only selects among the keys that the server
has, so neither `none` nor a public key used as a secret is accepted.
"""

import logging
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from mainstem import limits
from mainstem.errors import SettingsError
from mainstem.json_errors import explain_json_error
from mainstem.server.addresses import is_loopback
from mainstem.signed_urls import KEY_FILE
from mainstem.streams.rules.base64url import decode_base64url

logger = logging.getLogger(__name__)

SECRET_BYTES_MIN: Final = limits.SECRET_BYTES_MIN
JWKS_BYTES_MAX: Final = limits.JWKS_BYTES_MAX
JWKS_KEYS_MAX: Final = limits.JWKS_KEYS_MAX
JWKS_WAIT_S_MAX: Final = limits.JWKS_WAIT_S_MAX
RSA_BITS_MIN: Final = 2048  # RFC 7518 3.3

SECRET_ALGORITHMS: Final = frozenset(["HS256"])
# RFC 9864 names by curve what RFC 8037 called EdDSA; issuers send both names.
PUBLIC_ALGORITHMS: Final = {
    ("RSA", None): frozenset(["RS256"]),
    ("EC", "P-256"): frozenset(["ES256"]),
    ("OKP", "Ed25519"): frozenset(["EdDSA", "Ed25519"]),
}
# All other members of a JWK are dropped, above all the private ones.
PUBLIC_MEMBERS: Final = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}
ANY_PUBLIC_ALGORITHM: Final = frozenset[str]().union(*PUBLIC_ALGORITHMS.values())


class JwksUnreadable(Exception):
    """The JWKS could not be loaded or parsed; the message says why."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    key: Key
    algorithms: frozenset[str]
    kid: str | None = None


class TokenHeader(msgspec.Struct, frozen=True):
    """The header of a token, which names its algorithm and key. Nothing in it is trusted yet."""

    alg: str
    kid: str | None = None


class Signatures(jws.JWSRegistry):
    """The rules of joserfc, without its warning about the name EdDSA, and with unknown header fields allowed."""

    max_header_length = 4096  # some issuers include their certificates

    def __init__(self, algorithms: frozenset[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"{name} is not for this key")
        return self.algorithms[name]


def verify_signature(token: str, keys: Iterable[VerificationKey], header: TokenHeader) -> bytes | None:
    """Return the payload of a token that one of these keys has signed; None if none has."""
    for key in keys:
        if header.alg in key.algorithms and (key.kid == header.kid or key.kid is None or header.kid is None):
            try:
                return jws.deserialize_compact(token, key.key, registry=Signatures(key.algorithms)).payload
            except (JoseError, ValueError):
                continue
    return None


# The shared secret


def read_secret(path: str) -> bytes:
    """Return the content of a secret file, without the line break that editors leave at its end."""
    try:
        secret = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SettingsError(f"cannot read the secret file {path}: {error.strerror}") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise SettingsError(
            f"the secret in {path} is shorter than {SECRET_BYTES_MIN} bytes; `mainstem token --new-secret` makes one"
        )
    if KEY_FILE.search(secret):
        raise SettingsError(f"{path} holds a key of a key pair, not a secret; pass public keys with --jwks")
    return secret


def import_secret(secret: bytes) -> VerificationKey:
    try:
        return VerificationKey(OctKey.import_key(secret), SECRET_ALGORITHMS)
    except ValueError:
        raise SettingsError(
            "the secret cannot be used as an HS256 key; make one with `mainstem token --new-secret FILE`"
        ) from None


# Public keys


class JwkSet(msgspec.Struct):
    keys: list[dict[str, Any]]


def parse_jwks(data: bytes) -> tuple[VerificationKey, ...]:
    """Return the keys of a set that can verify tokens. Other keys, such as those for encryption, are skipped."""
    try:
        found = msgspec.json.decode(data, type=JwkSet).keys
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JwksUnreadable(f"it is not a JSON Web Key Set: {explain_json_error(error, 'the document')}") from None
    if len(found) > JWKS_KEYS_MAX:
        raise JwksUnreadable(f"it has more than {JWKS_KEYS_MAX} keys")
    return tuple(key for key in map(_import_public, found) if key is not None)


def _import_public(jwk: dict[str, Any]) -> VerificationKey | None:
    kind, kid = jwk.get("kty"), jwk.get("kid")
    algorithms = PUBLIC_ALGORITHMS.get((str(kind), None if kind == "RSA" else str(jwk.get("crv"))))
    try:
        if not algorithms or jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
            return None
        if jwk.get("alg") not in (None, *algorithms) or not isinstance(kid, str | None):
            return None
        public = {name: jwk[name] for name in PUBLIC_MEMBERS[str(kind)]}
        if kind == "RSA":
            if int.from_bytes(decode_base64url(public["n"])).bit_length() < RSA_BITS_MIN:
                logger.warning("skipped a key of the JWKS: RSA keys need at least %d bits", RSA_BITS_MIN)
                return None
            return VerificationKey(RSAKey.import_key(public), algorithms, kid)
        family = ECKey if kind == "EC" else OKPKey
        return VerificationKey(family.import_key(public), algorithms, kid)
    except (KeyError, TypeError, ValueError, JoseError):
        logger.warning("skipped a key of the JWKS: its members do not form a valid %s key", kind)
        return None


# Locations


def is_url(location: str) -> bool:
    return location.lower().startswith(("http://", "https://"))


def check_location(url: str) -> None:
    """Raise `SettingsError` unless keys come over a channel that nobody can tamper with: https, or this machine."""
    try:
        parts = urlsplit(url)
        local = is_loopback(parts.hostname or "")
        bad = not parts.hostname or parts.port == 0
    except ValueError:
        raise SettingsError(f"jwks: {url!r} is not a URL") from None
    if bad or parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
        raise SettingsError(f"jwks: {url!r} is not the URL of a web server")
    if parts.scheme != "https" and not local:
        raise SettingsError("jwks: fetch the keys over https; http is allowed for this machine only")


def load_jwks(location: str) -> bytes:
    """Return the bytes of a key set, from a file or a URL. This blocks, for a bounded time."""
    return _fetch(location) if is_url(location) else _read(location)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(JWKS_BYTES_MAX + 1)
    except OSError as error:
        raise JwksUnreadable(str(error.strerror)) from None
    _check_size(len(data))
    return data


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Refuse the redirect: the operator trusts one location, and not those that it names."""


def _fetch(url: str) -> bytes:
    deadline_s = time.monotonic() + JWKS_WAIT_S_MAX
    local = is_loopback(urlsplit(url).hostname or "")
    opener = build_opener(_NoRedirect, ProxyHandler({} if local else None))
    request = Request(url, headers={"Accept": "application/jwk-set+json, application/json", "User-Agent": "mainstem"})
    data = bytearray()
    try:
        with opener.open(request, timeout=JWKS_WAIT_S_MAX) as response:
            while part := response.read1(64 * 1024):
                data += part
                _check_size(len(data))
                if time.monotonic() > deadline_s:
                    raise JwksUnreadable(f"it took more than {JWKS_WAIT_S_MAX:g} s")
    except HTTPError as error:
        with error:
            raise JwksUnreadable(f"the server replied with status {error.code}") from None
    except URLError as error:
        raise JwksUnreadable(_describe_failure(error.reason)) from None
    except (OSError, HTTPException) as error:
        raise JwksUnreadable(_describe_failure(error)) from None
    return bytes(data)


def _describe_failure(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"the certificate of the server was not accepted: {reason.verify_message}"
    if isinstance(reason, TimeoutError):
        return f"the server did not reply within {JWKS_WAIT_S_MAX:g} s"
    if isinstance(reason, OSError) and reason.strerror:
        return f"the server cannot be reached: {reason.strerror}"
    return "the server did not send a valid HTTP reply"


def _check_size(size: int) -> None:
    if size > JWKS_BYTES_MAX:
        raise JwksUnreadable(f"it is larger than {JWKS_BYTES_MAX} bytes")
