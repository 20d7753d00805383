"""Authentication: turning a token into an identity, after checking its signature and its validity period.

Verified tokens are cached, so that the next request with one costs a dict lookup. Their validity period is checked at
each use, and a change of the keys empties the cache.
"""

import asyncio
import logging
from base64 import urlsafe_b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import SettingsError, SignatureInvalid, Unauthorized, Unavailable
from mainstem.server.auth import keys
from mainstem.server.auth.claims import Claims, check_addressee, grant, grant_url, parse_claims
from mainstem.server.auth.keys import JwksUnreadable, TokenHeader, VerificationKey
from mainstem.server.settings import Settings
from mainstem.signed_urls import UrlSigner

logger = logging.getLogger(__name__)

TOKEN_BYTES_MAX: Final = limits.TOKEN_BYTES_MAX
TOKENS_KNOWN_MAX: Final = limits.TOKENS_KNOWN_MAX
JWKS_REFRESH_S: Final = limits.JWKS_REFRESH_S
JWKS_RETRY_S_MIN: Final = limits.JWKS_RETRY_S_MIN

NO_TOKEN: Final = "this server needs a token, and the request has none"

Clock = Callable[[], int]


class KnownToken(NamedTuple):
    identity: Identity
    valid_from_us: float


def configure_authenticator(settings: Settings, clock_us: Clock) -> "Authenticator | None":
    """Return the authenticator that the settings ask for; None if the server needs no tokens."""
    if not settings.authenticates:
        if settings.jwt_issuer is not None or settings.jwt_audience is not None:
            raise SettingsError(
                "jwt_issuer and jwt_audience have no effect without jwt_secret_file or jwks: set one of these, too"
            )
        return None
    return Authenticator(settings, clock_us)


class Authenticator:
    """Turns tokens into identities. Between `start` and `stop` it reloads its JWKS periodically."""

    def __init__(self, settings: Settings, clock_us: Clock) -> None:
        self._clock_us = clock_us
        self._issuer = settings.jwt_issuer
        self._audience = settings.jwt_audience
        self._secret: tuple[VerificationKey, ...] = ()
        self.signer: UrlSigner | None = None
        """Signs URLs; None if the server only has public keys."""
        if settings.jwt_secret_file is not None:
            secret = keys.read_secret(settings.jwt_secret_file)
            self._secret = (keys.import_secret(secret),)
            self.signer = UrlSigner(secret, issuer=settings.jwt_issuer, audience=settings.jwt_audience)
        self._known: dict[str, KnownToken] = {}
        # The signatures of URLs have a cache of their own, so that no signature is ever taken for a token.
        self._known_signatures: dict[str, KnownToken] = {}
        self._jwks = settings.jwks
        self._jwks_data: bytes | None = None
        self._public: tuple[VerificationKey, ...] = ()
        self._asked_us: int | None = None
        self._refreshing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        if self._jwks is not None:
            self._prepare_jwks(self._jwks)

    def _prepare_jwks(self, location: str) -> None:
        """Load a JWKS file, which must be valid now; a web server may start later than we do."""
        if keys.is_url(location):
            keys.check_location(location)
            return
        try:
            self._use_jwks(keys.load_jwks(location))
        except JwksUnreadable as error:
            raise SettingsError(f"cannot use the JWKS {location}: {error}") from None
        if not self._public:
            raise SettingsError(
                f"the JWKS {location} has no key that can verify tokens; it needs one for EdDSA, RS256 or ES256"
            )

    async def start(self) -> None:
        if self._jwks is not None:
            if self._jwks_data is None:
                await self.refresh()
            self._task = asyncio.create_task(self._follow_jwks())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    # Tokens

    def known(self, token: str) -> Identity | None:
        """Return the identity of a cached token that is still valid. None is no verdict: call `identify`."""
        return self._find(self._known, token)

    async def identify(self, token: str) -> Identity:
        """Return the identity of a token. Raises `Unauthorized`, with the reason as far as its sender may know it."""
        identity = self.known(token)
        if identity is not None:
            return identity
        claims = await self._read(token)
        if claims.read_url is not UNSET:
            raise Unauthorized("the token is the signature of a URL, and is only valid there")
        identity = grant(claims)
        self._keep(self._known, token, identity, claims)
        return identity

    async def identify_signature(self, signature: str) -> Identity:
        """Return the identity of the signature of a URL. Raises `SignatureInvalid`, with the reason."""
        identity = self._find(self._known_signatures, signature)
        if identity is not None:
            return identity
        try:
            claims = await self._read(signature)
            identity = grant_url(claims, self._clock_us())
            self._keep(self._known_signatures, signature, identity, claims)
        except Unauthorized as error:
            raise SignatureInvalid(f"the signature of this URL is not accepted: {error.detail}") from None
        return identity

    async def _read(self, token: str) -> Claims:
        """Return the claims of a token that a trusted key has signed for this server."""
        claims = parse_claims(await self._verify(token))
        check_addressee(claims, self._issuer, self._audience)
        return claims

    def _find(self, cache: dict[str, KnownToken], token: str) -> Identity | None:
        known = cache.get(token)
        if known is None:
            return None
        now_us = self._clock_us()
        if known.identity.has_expired(now_us) or now_us < known.valid_from_us:
            del cache[token]
            return None
        return known.identity

    def _keep(self, cache: dict[str, KnownToken], token: str, identity: Identity, claims: Claims) -> None:
        """Remember a token. Raises `Unauthorized` if it is not valid now."""
        valid_from_us = self._check_time(claims, identity)
        if len(cache) >= TOKENS_KNOWN_MAX:
            del cache[next(iter(cache))]
        cache[token] = KnownToken(identity, valid_from_us)

    def _check_time(self, claims: Claims, identity: Identity) -> float:
        """Return when the token became valid. Raises `Unauthorized` if it is not valid now."""
        now_us = self._clock_us()
        valid_from_us = 0.0 if claims.nbf is UNSET else claims.nbf * 1_000_000
        if identity.has_expired(now_us):
            raise Unauthorized("the token has expired")
        if now_us < valid_from_us:
            raise Unauthorized("the token is not valid yet")
        return valid_from_us

    async def _verify(self, token: str) -> bytes:
        header = read_header(token)
        payload = keys.verify_signature(token, self._secret + self._public, header)
        if payload is None and await self._look_for_new_keys(header):
            payload = keys.verify_signature(token, self._public, header)
        if payload is None:
            raise Unauthorized("the token is not signed with a key that this server trusts")
        return payload

    # Keys

    async def _look_for_new_keys(self, header: TokenHeader) -> bool:
        """Reload the JWKS if the token may be signed with a new key, and return whether it is worth trying again."""
        if self._jwks is None or header.alg not in keys.ANY_PUBLIC_ALGORITHM:
            return False
        if header.kid is not None and any(key.kid == header.kid for key in self._public):
            return False
        before = self._public
        async with self._refreshing:
            if self._public is before and self._may_ask():
                self._asked_us = self._clock_us()
                await self.refresh()
        if self._jwks_data is None:
            raise Unavailable(
                "the server has not been able to load the keys of the token issuer yet",
                headers={"Retry-After": str(int(JWKS_RETRY_S_MIN))},
            )
        return self._public is not before

    def _may_ask(self) -> bool:
        # If the clock was set back, new keys must still be accepted.
        return self._asked_us is None or not 0 <= self._clock_us() - self._asked_us < JWKS_RETRY_S_MIN * 1_000_000

    async def _follow_jwks(self) -> None:
        while True:
            await asyncio.sleep(JWKS_REFRESH_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Load the JWKS again. If that fails, the current keys stay in use."""
        assert self._jwks is not None
        try:
            async with asyncio.timeout(keys.JWKS_WAIT_S_MAX):
                data = await asyncio.to_thread(keys.load_jwks, self._jwks)
            self._use_jwks(data)
        except TimeoutError:
            logger.warning("the JWKS was not loaded within %g s; the current keys stay in use", keys.JWKS_WAIT_S_MAX)
        except JwksUnreadable as error:
            logger.warning("the JWKS could not be loaded, and the current keys stay in use: %s", error)

    def _use_jwks(self, data: bytes) -> None:
        if data == self._jwks_data:
            return
        self._public = keys.parse_jwks(data)
        self._jwks_data = data
        self._known.clear()  # tokens that a withdrawn key has signed must not stay valid
        self._known_signatures.clear()
        if not self._public:
            logger.warning("the JWKS has no key that can verify tokens; all tokens of this issuer are refused")


def read_header(token: str) -> TokenHeader:
    """Return the header of a token. Raises `Unauthorized` for anything that is not a signed JWT."""
    if not token:  # a sync client that connects without one
        raise Unauthorized(NO_TOKEN, sent=False)
    if len(token) > TOKEN_BYTES_MAX:
        raise Unauthorized(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
    if not token.isascii() or token.count(".") != 2:
        raise Unauthorized("the token is not a signed JWT")
    encoded = token.partition(".")[0]
    try:
        return msgspec.json.decode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=TokenHeader)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise Unauthorized("the token is not a signed JWT") from None
