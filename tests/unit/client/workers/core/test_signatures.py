import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mainstem import limits
from mainstem.client.workers.core.signatures import WebhookRefused, verify_signature
from mainstem.streams.subscriptions.core.signing import Keyring, jwks, make_key, sign_webhook

NOW_S = 1_800_000_000
RING = Keyring(b"secret", (make_key(b"a" * 32, 0), make_key(b"b" * 32, 0)))
OTHER = Keyring(b"secret", (make_key(b"c" * 32, 0),))
KEYS = jwks(RING)
WAKE = {
    "subscription_id": "mailer",
    "wake_id": "w_1",
    "generation": 1,
    "streams": [
        {"path": "a", "link_type": "glob", "acked_offset": "0", "tail_offset": "1", "has_pending": True},
    ],
    "callback_url": "https://streams.example.com/callback",
    "callback_token": "token",
}
BODY = json.dumps(WAKE).encode()


def sign(body=BODY, ring=RING, at_s=NOW_S):
    return {"Webhook-Signature": sign_webhook(ring, body, at_s * 1_000_000)}


def refusal(body=BODY, headers=None, keys=KEYS, **options):
    with pytest.raises(WebhookRefused) as caught:
        verify_signature(body, sign(body) if headers is None else headers, keys, NOW_S, **options)
    return caught.value.code


def test_a_signed_wake_is_returned():
    wake = verify_signature(BODY, sign(), KEYS, NOW_S, subscription="mailer")
    assert (wake.subscription_id, wake.generation, wake.streams[0].path) == ("mailer", 1, "a")


def test_the_name_of_the_header_may_have_any_case():
    headers = {name.upper(): value for name, value in sign().items()}
    assert verify_signature(BODY, headers, KEYS, NOW_S).wake_id == "w_1"


def test_a_retired_key_that_is_still_published_is_accepted():
    old = Keyring(b"secret", RING.signing[:1])
    assert verify_signature(BODY, sign(ring=old), KEYS, NOW_S).wake_id == "w_1"


@pytest.mark.parametrize("age_s", [-300, 0, 300])
def test_a_timestamp_within_the_tolerance_is_accepted(age_s):
    assert verify_signature(BODY, sign(at_s=NOW_S - age_s), KEYS, NOW_S)


@pytest.mark.parametrize("age_s", [-301, 301, 10**6])
def test_a_timestamp_outside_the_tolerance_is_refused(age_s):
    assert refusal(headers=sign(at_s=NOW_S - age_s)) == "timestamp_refused"


def test_an_altered_body_is_refused():
    assert refusal(BODY.replace(b"mailer", b"Mailer"), sign()) == "signature_invalid"


def test_an_altered_timestamp_is_refused():
    header = sign()["Webhook-Signature"].replace(f"t={NOW_S}", f"t={NOW_S + 1}")
    assert refusal(headers={"webhook-signature": header}) == "signature_invalid"


def test_the_key_of_another_server_is_refused():
    assert refusal(headers=sign(ring=OTHER)) == "key_unknown"
    forged = sign(ring=OTHER)["Webhook-Signature"].replace(OTHER.active.kid, RING.active.kid)
    assert refusal(headers={"webhook-signature": forged}) == "signature_invalid"


@pytest.mark.parametrize("keys", [{}, {"keys": {}}, {"keys": ["x", None, {"kid": RING.active.kid}]}])
def test_a_malformed_key_set_has_no_keys(keys):
    assert refusal(keys=keys) == "key_unknown"


@pytest.mark.parametrize("change", [{"kty": "RSA"}, {"crv": "X25519"}, {"use": "enc"}, {"x": "AAAA"}, {"x": 5}])
def test_a_key_of_another_kind_is_not_used(change):
    assert refusal(keys={"keys": [{**KEYS["keys"][0], **change}]}) == "key_unknown"


def test_a_request_without_a_signature_is_refused():
    assert refusal(headers={"content-type": "application/json"}) == "signature_missing"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        "nonsense",
        "t=1,kid=a,ed25519=",
        "t=1,t=2,kid=a,ed25519=AA",
        "t=-1,kid=a,ed25519=AA",
        "t=١,kid=a,ed25519=AA",
        "t=1e9,kid=a,ed25519=AA",
        f"t={'9' * 13},kid=a,ed25519=AA",
        "t=1,kid=a,ed25519=A",
        "t=1,kid=a,ed25519=é",
        f"t=1,kid={'a' * 600},ed25519=AA",
    ],
)
def test_a_malformed_signature_is_refused(header):
    assert refusal(headers={"webhook-signature": header}) == "signature_malformed"


def test_two_signatures_are_refused():
    assert refusal(headers={**sign(), "webhook-signature": "t=1,kid=a,ed25519=AA"}) == "signature_malformed"


@pytest.mark.parametrize("length", [0, 1, 63, 65])
def test_a_signature_of_another_length_is_refused(length):
    value = "A" * length
    header = f"t={NOW_S},kid={RING.active.kid},ed25519={value}"
    assert refusal(headers={"webhook-signature": header}) in {"signature_invalid", "signature_malformed"}


def test_an_oversized_body_is_refused_before_its_signature_is_checked():
    assert refusal(b"x" * (limits.WORKER_WEBHOOK_BYTES_MAX + 1), {}) == "body_too_large"


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b'{"subscription_id": 5}'])
def test_a_signed_body_that_is_no_wake_is_refused(body):
    assert refusal(body) == "body_malformed"


def test_a_wake_of_another_subscription_is_refused():
    assert refusal(subscription="billing") == "wrong_subscription"


def test_a_refusal_has_the_status_to_answer():
    assert WebhookRefused("signature_invalid", "").status == 401
    assert WebhookRefused("body_too_large", "").status == 413
    assert (WebhookRefused("keys_unavailable", "").status, WebhookRefused("keys_unavailable", "").retryable) == (
        503,
        True,
    )


@given(some.text(), some.binary())
def test_random_headers_are_refused_and_never_crash(header, body):
    assert refusal(body, {"webhook-signature": header})
