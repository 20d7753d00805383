import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec.structs import replace

from mainstem import limits
from mainstem.errors import TokenInvalid
from mainstem.streams.subscriptions.core.signing import (
    DAY_US,
    KEYRING_KEY,
    EnsureKeys,
    Keyring,
    TokenClaims,
    jwks,
    make_key,
    make_token,
    read_token,
    sign_webhook,
)

MAX_AGE_US = limits.SIGNING_KEY_US_MAX


def ensure(ledger, *, rotate=False):
    """Ensure the keys with new random bytes, as a server does when it starts or rotates them."""
    return ledger.run(EnsureKeys(os.urandom(32), os.urandom(32), MAX_AGE_US, rotate))


def decode(text):
    assert "=" not in text
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def published(ring):
    return [key["kid"] for key in jwks(ring)["keys"]]


# Keys


def test_keys_are_created_once_and_then_kept(ledger):
    ring = ensure(ledger)
    assert ensure(ledger) == ring == ledger.states[KEYRING_KEY]
    assert ring.active.kid.startswith("ds_")


def test_a_key_id_depends_on_the_key_alone():
    seed = bytes(range(32))
    assert make_key(seed, 0).kid == make_key(seed, 99).kid
    assert make_key(seed, 0).kid != make_key(seed[::-1], 0).kid


def test_the_published_keys_are_a_jwk_set_without_private_parts(ledger):
    ring = ensure(ledger)
    (key,) = jwks(ring)["keys"]
    assert {name: key[name] for name in key if name != "x"} == {
        "kty": "OKP",
        "crv": "Ed25519",
        "kid": ring.active.kid,
        "use": "sig",
        "alg": "EdDSA",
    }
    assert len(decode(key["x"])) == 32
    assert decode(key["x"]) != ring.active.private


def verify(ring, header, body):
    """Verify a signature as a receiver does: with only the header, the body and the published keys."""
    fields = dict(field.split("=", 1) for field in header.split(","))
    (key,) = [key for key in jwks(ring)["keys"] if key["kid"] == fields["kid"]]
    public = Ed25519PublicKey.from_public_bytes(decode(key["x"]))
    public.verify(decode(fields["ed25519"]), fields["t"].encode() + b"." + body)
    return int(fields["t"])


def test_a_receiver_verifies_a_signature_with_the_published_key(ledger):
    ring = ensure(ledger)
    body = json.dumps({"wake": "ü"}).encode()
    header = sign_webhook(ring, body, 1_700_000_000_999_999)
    assert verify(ring, header, body) == 1_700_000_000
    for wrong in (header.replace("t=17", "t=18"), sign_webhook(ring, body + b" ", 1_700_000_000_000_000)):
        with pytest.raises(InvalidSignature):
            verify(ring, wrong, body)


def test_after_a_rotation_old_signatures_still_verify_and_new_ones_use_the_new_key(ledger):
    before = ensure(ledger)
    old = sign_webhook(before, b"body", ledger.now_us)
    ring = ensure(ledger, rotate=True)
    assert published(ring) == [ring.active.kid, before.active.kid]
    assert ring.active.kid != before.active.kid
    verify(ring, old, b"body")
    new = sign_webhook(ring, b"body", ledger.now_us)
    verify(ring, new, b"body")
    assert f"kid={ring.active.kid}," in new
    assert make_token(ring, TokenClaims("s", "n", 1)) == make_token(before, TokenClaims("s", "n", 1))


def test_an_old_key_is_published_for_a_day_after_it_was_replaced(ledger):
    first = ensure(ledger).active.kid
    ledger.advance(1000)
    second = ensure(ledger, rotate=True).active.kid
    ledger.now_us += DAY_US - 1
    ring = ensure(ledger, rotate=True)
    assert published(ring)[1:] == [second, first]
    ledger.now_us += 1
    ring = ensure(ledger, rotate=True)
    assert second in published(ring)
    assert first not in published(ring)


def test_an_old_key_is_removed_after_a_day_without_another_rotation(ledger):
    first = ensure(ledger).active.kid
    second = ensure(ledger, rotate=True).active.kid
    ledger.now_us += DAY_US - 1
    assert published(ensure(ledger)) == [second, first]
    ledger.now_us += 1
    assert published(ensure(ledger)) == [second]


def test_a_key_is_replaced_when_it_is_too_old(ledger):
    first = ensure(ledger)
    ledger.now_us += MAX_AGE_US - 1
    assert ensure(ledger) == first
    ledger.now_us += 1
    ring = ensure(ledger)
    assert published(ring) == [ring.active.kid, first.active.kid]


def test_many_rotations_publish_a_limited_number_of_keys(ledger):
    for _ in range(limits.RETIRED_KEYS_MAX + 5):
        ring = ensure(ledger, rotate=True)
    assert len(set(published(ring))) == limits.RETIRED_KEYS_MAX + 1


# Tokens


@pytest.fixture
def ring(ledger) -> Keyring:
    return ensure(ledger)


CLAIMS = TokenClaims("sub", "nonce", 7)


def test_a_token_returns_its_claims(ring):
    assert read_token(ring, make_token(ring, CLAIMS), "sub") == CLAIMS


def test_a_token_is_valid_for_one_subscription(ring):
    with pytest.raises(TokenInvalid):
        read_token(ring, make_token(ring, CLAIMS), "sub2")


def test_a_token_of_another_server_is_refused(ring):
    other = replace(ring, token_secret=bytes(32))
    with pytest.raises(TokenInvalid):
        read_token(ring, make_token(other, CLAIMS), "sub")


@pytest.mark.parametrize("claims", [TokenClaims("sub", "nonce", 8), TokenClaims("sub", "other", 7)])
def test_a_token_with_other_claims_under_an_old_signature_is_refused(ring, claims):
    _, _, signature = make_token(ring, CLAIMS).partition(".")
    payload, _, _ = make_token(replace(ring, token_secret=bytes(32)), claims).partition(".")
    with pytest.raises(TokenInvalid):
        read_token(ring, f"{payload}.{signature}", "sub")


def test_a_token_with_any_bit_of_its_signature_flipped_is_refused(ring):
    payload, _, signature = make_token(ring, CLAIMS).partition(".")
    mac = decode(signature)
    for bit in range(0, len(mac) * 8, 7):
        forged = bytearray(mac)
        forged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(TokenInvalid):
            read_token(ring, f"{payload}.{urlsafe_b64encode(forged).decode().rstrip('=')}", "sub")
    for short in (b"", mac[:-1], mac + b"\0"):
        with pytest.raises(TokenInvalid):
            read_token(ring, f"{payload}.{urlsafe_b64encode(short).decode().rstrip('=')}", "sub")


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        ".",
        "..",
        "x",
        "x.y",
        "ünï.cödé",
        "\0",
        "a" * 10_000,
        "bnVsbA.bnVsbA",  # null
        "e30.e30",  # {}
        "WzEsMiwzXQ.AA",  # claims of the wrong types
        "WyJzdWIiLCJub25jZSIsN10",  # claims without a signature
        "WyJzdWIiLCJub25jZSIsN10.",
        "W1tb.AA",
        "_w.AA",  # not UTF-8
    ],
)
def test_garbage_is_refused_as_a_token(ring, garbage):
    with pytest.raises(TokenInvalid):
        read_token(ring, garbage, "sub")
