"""The server's keys: Ed25519 keys for webhook signatures, published as JWKS, and a secret for callback tokens.

Both are states of the log, so they survive restarts, and all nodes on a shared log have the same ones.
"""

import hashlib
import hmac

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mainstem import limits
from mainstem.errors import TokenInvalid
from mainstem.log.commands import Key, Sizeless, Space, View
from mainstem.log.spaces import SpaceNumber
from mainstem.streams.rules.base64url import decode_base64url, encode_base64url

DAY_US = 86_400 * 1_000_000


class SigningKey(msgspec.Struct, frozen=True, gc=False, array_like=True):
    kid: str
    private: bytes
    created_at_us: int
    retired_at_us: int | None = None


class Keyring(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last signing key is the active one; the others are still published for webhooks that were already sent."""

    token_secret: bytes
    signing: tuple[SigningKey, ...]

    @property
    def active(self) -> SigningKey:
        return self.signing[-1]


KEYRINGS: Space[Keyring] = Space(SpaceNumber.KEYRINGS, Keyring)
KEYRING_KEY = Key(KEYRINGS, "webhooks")


def _public(private: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def make_key(seed: bytes, now_us: int) -> SigningKey:
    """Make a key from 32 random bytes. Its id is derived from its RFC 7638 thumbprint, so it is stable and unique."""
    thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(_public(seed))}
    digest = hashlib.sha256(msgspec.json.encode(thumbprint, order="sorted")).digest()
    return SigningKey("ds_" + encode_base64url(digest)[:32], seed, now_us)


class EnsureKeys(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Return the keyring: create it if there is none, and replace the active signing key if it is old or if `rotate` is
    set."""

    secret: bytes
    seed: bytes
    max_age_us: int
    rotate: bool = False

    def needs(self) -> list[Key]:
        return [KEYRING_KEY]

    def apply(self, view: View) -> Keyring:
        old: Keyring | None = view.get(KEYRING_KEY)
        if old is None:
            ring = Keyring(self.secret, (make_key(self.seed, view.now_us),))
        else:
            kept = [key for key in old.signing[:-1] if (key.retired_at_us or 0) + DAY_US > view.now_us]
            active = old.active
            if self.rotate or active.created_at_us + self.max_age_us <= view.now_us:
                kept.append(msgspec.structs.replace(active, retired_at_us=view.now_us))
                active = make_key(self.seed, view.now_us)
            ring = Keyring(old.token_secret, (*kept[-limits.RETIRED_KEYS_MAX :], active))
            if ring == old:
                return old
        view.put(KEYRING_KEY, ring)
        return ring


def jwks(ring: Keyring) -> dict[str, list[dict[str, str]]]:
    return {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "kid": key.kid,
                "use": "sig",
                "alg": "EdDSA",
                "x": encode_base64url(_public(key.private)),
            }
            for key in reversed(ring.signing)
        ]
    }


def sign_webhook(ring: Keyring, body: bytes, now_us: int) -> str:
    """Return the Webhook-Signature header, which signs `<timestamp>.<body>` (protocol section 7.1)."""
    timestamp = now_us // 1_000_000
    signature = Ed25519PrivateKey.from_private_bytes(ring.active.private).sign(b"%d." % timestamp + body)
    return f"t={timestamp},kid={ring.active.kid},ed25519={encode_base64url(signature)}"


class TokenClaims(msgspec.Struct, frozen=True, array_like=True):
    subscription_id: str
    nonce: str
    generation: int


def make_token(ring: Keyring, claims: TokenClaims) -> str:
    payload = msgspec.json.encode(claims)
    mac = hmac.digest(ring.token_secret, payload, "sha256")
    return f"{encode_base64url(payload)}.{encode_base64url(mac)}"


def read_token(ring: Keyring, token: str, subscription_id: str) -> TokenClaims:
    """Return the claims of a token that this server made for this subscription. Fencing decides whether the token is
    still current."""
    try:
        payload_text, _, mac_text = token.partition(".")
        payload, mac = decode_base64url(payload_text), decode_base64url(mac_text)
        claims = msgspec.json.decode(payload, type=TokenClaims)
    except (ValueError, msgspec.MsgspecError):
        raise TokenInvalid("the token was not issued by this server") from None
    if not hmac.compare_digest(mac, hmac.digest(ring.token_secret, payload, "sha256")):
        raise TokenInvalid("the signature of the token is invalid")
    if claims.subscription_id != subscription_id:
        raise TokenInvalid("the token is for another subscription")
    return claims
