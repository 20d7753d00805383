"""The keys that tokens are verified with: a shared secret, and the public keys of a JWKS.

A key fixes its algorithms by its own type. What a token says of its algorithm only picks among keys that are there, so
neither `none` nor a public key used as a secret can pass.
"""

import logging
import re
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
from mainstem.server.addresses import is_loopback
from mainstem.streams.rules.base64url import decode_base64url

logger = logging.getLogger(__name__)

SECRET_BYTES_MIN: Final = limits.SECRET_BYTES_MIN
JWKS_BYTES_MAX: Final = limits.JWKS_BYTES_MAX
JWKS_KEYS_MAX: Final = limits.JWKS_KEYS_MAX
JWKS_WAIT_S_MAX: Final = limits.JWKS_WAIT_S_MAX
RSA_BITS_MIN: Final = 2048  # RFC 7518 3.3

SECRET_ALGORITHMS: Final = frozenset(["HS256"])
# RFC 9864 calls by their curve what RFC 8037 called EdDSA; issuers send both.
PUBLIC_ALGORITHMS: Final = {
    ("RSA", None): frozenset(["RS256"]),
    ("EC", "P-256"): frozenset(["ES256"]),
    ("OKP", "Ed25519"): frozenset(["EdDSA", "Ed25519"]),
}
# Everything else of a JWK stays out: private parts above all.
PUBLIC_MEMBERS: Final = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}
ANY_PUBLIC_ALGORITHM: Final = frozenset[str]().union(*PUBLIC_ALGORITHMS.values())

# A file with a key pair or a public key is no secret: whoever has the public half could sign tokens.
KEY_FILE = re.compile(rb"---- ?BEGIN |ssh-(?:rsa|dss|ed25519) |ecdsa-sha2-")


class JwksUnreadable(Exception):
    """The keys could not be had; the message says why."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    key: Key
    algorithms: frozenset[str]
    kid: str | None = None


class TokenHeader(msgspec.Struct, frozen=True):
    """What a token says of its own signature, before anything of it is believed."""

    alg: str
    kid: str | None = None


class Signatures(jws.JWSRegistry):
    """joserfc's rules, with its warning about the name EdDSA left out and other people's header fields let through."""

    max_header_length = 4096  # some issuers send their certificates along

    def __init__(self, algorithms: frozenset[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)

    def get_alg(self, name: str) -> Any:
        if name not in (self.allowed or ()):
            raise UnsupportedAlgorithmError(f"{name} is not for this key")
        return self.algorithms[name]


def verify_signature(token: str, keys: Iterable[VerificationKey], header: TokenHeader) -> bytes | None:
    """The claims of a token, if one of these keys has signed it."""
    for key in keys:
        if header.alg in key.algorithms and (key.kid == header.kid or key.kid is None or header.kid is None):
            try:
                return jws.deserialize_compact(token, key.key, registry=Signatures(key.algorithms)).payload
            except (JoseError, ValueError):
                continue
    return None


# The shared secret


def read_secret(path: str) -> bytes:
    """The content of a secret file, without the line break that editors leave at its end."""
    try:
        secret = Path(path).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SettingsError(f"cannot read the secret file {path}: {error.strerror}") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise SettingsError(f"the secret in {path} is shorter than {SECRET_BYTES_MIN} bytes")
    if KEY_FILE.search(secret):
        raise SettingsError(f"{path} holds a key of a key pair, not a secret; give public keys as --jwks")
    return secret


def import_secret(secret: bytes) -> VerificationKey:
    try:
        return VerificationKey(OctKey.import_key(secret), SECRET_ALGORITHMS)
    except ValueError as error:
        raise SettingsError(f"the secret cannot be used: {error}") from None


def sign_with_secret(payload: bytes, secret: bytes) -> str:
    """A token with these claims, for development and tests."""
    return jws.serialize_compact({"alg": "HS256", "typ": "JWT"}, payload, OctKey.import_key(secret))


# Public keys


class JwkSet(msgspec.Struct):
    keys: list[dict[str, Any]]


def parse_jwks(data: bytes) -> tuple[VerificationKey, ...]:
    """The keys of a set that can verify tokens. Others, as for encryption, are left out."""
    try:
        found = msgspec.json.decode(data, type=JwkSet).keys
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise JwksUnreadable(f"it is not a JSON Web Key Set: {error}") from None
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
                logger.warning("a key of the JWKS is left out: RSA with less than %d bits", RSA_BITS_MIN)
                return None
            return VerificationKey(RSAKey.import_key(public), algorithms, kid)
        family = ECKey if kind == "EC" else OKPKey
        return VerificationKey(family.import_key(public), algorithms, kid)
    except (KeyError, TypeError, ValueError, JoseError) as error:
        logger.warning("a key of the JWKS is left out: %s", error)
        return None


# Where they come from


def is_url(location: str) -> bool:
    return location.lower().startswith(("http://", "https://"))


def check_location(url: str) -> None:
    """Keys must come over a channel that nobody can change: https, or this very machine."""
    try:
        parts = urlsplit(url)
        local = is_loopback(parts.hostname or "")
        bad = not parts.hostname or parts.port == 0
    except ValueError:
        raise SettingsError(f"{url!r} is not a URL") from None
    if bad or parts.username is not None or not url.isascii() or not url.isprintable() or " " in url:
        raise SettingsError(f"{url!r} is not a URL of a web server")
    if parts.scheme != "https" and not local:
        raise SettingsError("a JWKS is fetched over https; http is only for this machine")


def load_jwks(location: str) -> bytes:
    """The bytes of a key set, out of a file or from a URL. This blocks, for a bounded time."""
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
        """The operator named one place; another one must not take over its word."""


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
            raise JwksUnreadable(f"the server answered {error.code}") from None
    except URLError as error:
        raise JwksUnreadable(str(error.reason)) from None
    except (OSError, HTTPException) as error:
        raise JwksUnreadable(str(error) or type(error).__name__) from None
    return bytes(data)


def _check_size(size: int) -> None:
    if size > JWKS_BYTES_MAX:
        raise JwksUnreadable(f"it is larger than {JWKS_BYTES_MAX} bytes")
