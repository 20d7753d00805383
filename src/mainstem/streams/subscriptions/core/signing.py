"""The server's own keys: Ed25519 for webhook signatures, published as JWKS, and a secret for callback tokens.

Both are kept in the log's states, so they survive restarts and every node of a server has the same ones.
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
    """The active signing key is the last one; the others are still published for receivers that are behind."""

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
    """A key out of 32 random bytes. Its id is the thumbprint of RFC 7638, so it is stable and unique."""
    thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(_public(seed))}
    digest = hashlib.sha256(msgspec.json.encode(thumbprint, order="sorted")).digest()
    return SigningKey("ds_" + encode_base64url(digest)[:32], seed, now_us)


class EnsureKeys(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """The keyring; made at the first start, and with a new signing key when the active one is old or `rotate` asks."""

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
    """The Webhook-Signature header over `<timestamp>.<body>` (protocol section 7.1)."""
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
    """The claims of a token that this server made for this subscription. Whether it is still good is fencing."""
    try:
        payload_text, _, mac_text = token.partition(".")
        payload, mac = decode_base64url(payload_text), decode_base64url(mac_text)
        claims = msgspec.json.decode(payload, type=TokenClaims)
    except (ValueError, msgspec.MsgspecError):
        raise TokenInvalid("this is not a token of this server") from None
    if not hmac.compare_digest(mac, hmac.digest(ring.token_secret, payload, "sha256")):
        raise TokenInvalid("the token's signature is wrong")
    if claims.subscription_id != subscription_id:
        raise TokenInvalid("the token is for another subscription")
    return claims
