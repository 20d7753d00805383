"""Verifies the signature of a webhook, without any I/O (protocol section 7.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mainstem import limits
from mainstem.client.core.errors import ClientError
from mainstem.client.workers.core.wakes import Wake
from mainstem.streams.rules.base64url import decode_base64url

HEADER = "webhook-signature"
STATUSES = {"body_too_large": 413, "body_malformed": 400, "wrong_subscription": 403, "keys_unavailable": 503}


class WebhookRefused(ClientError):
    """A request that is not a current webhook of the server. `code` says why, and `status` is the status to answer.

    Do not use any part of such a request. The codes are stable.
    """

    status: int

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.status = STATUSES.get(code, 401)
        self.retryable = code == "keys_unavailable"


@dataclass(frozen=True)
class Signature:
    """The parts of a Webhook-Signature header."""

    timestamp: str
    kid: str
    value: bytes


def verify_signature(
    body: bytes,
    headers: Mapping[str, str],
    keys: Mapping[str, Any],
    now_s: float,
    tolerance_s: float = limits.WORKER_WEBHOOK_AGE_S_MAX,
    *,
    subscription: str | None = None,
) -> Wake:
    """Return the wake in the body of a webhook. Raise `WebhookRefused` if anything about it is wrong.

    `keys` is the server's key set, as its JWKS endpoint serves it. `now_s` is the time of day: `time.time()`.
    """
    check_size(len(body))
    signature = read_signature(headers)
    check_age(signature, now_s, tolerance_s)
    public = find_key(keys, signature.kid)
    if public is None:
        raise WebhookRefused("key_unknown", f"the server has no signing key {signature.kid!r}")
    try:
        public.verify(signature.value, signature.timestamp.encode() + b"." + body)
    except InvalidSignature:
        raise WebhookRefused("signature_invalid", "the signature does not match the body and the timestamp") from None
    return read_wake(body, subscription)


def check_size(size: int) -> None:
    if size > limits.WORKER_WEBHOOK_BYTES_MAX:
        raise WebhookRefused("body_too_large", f"the body is larger than {limits.WORKER_WEBHOOK_BYTES_MAX} bytes")


def read_signature(headers: Mapping[str, str]) -> Signature:
    values = [value for name, value in headers.items() if name.lower() == HEADER]
    if not values:
        raise WebhookRefused("signature_missing", "the request has no Webhook-Signature header")
    malformed = WebhookRefused("signature_malformed", "the Webhook-Signature header is malformed")
    if len(values) > 1 or len(values[0]) > limits.WORKER_SIGNATURE_BYTES_MAX:
        raise malformed
    parts: dict[str, str] = {}
    for part in values[0].split(","):
        name, equals, text = part.strip().partition("=")
        if not equals or not text or name in parts:
            raise malformed
        parts[name] = text
    if not {"t", "kid", "ed25519"} <= parts.keys():
        raise malformed
    timestamp = parts["t"]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise malformed
    try:
        value = decode_base64url(parts["ed25519"])
    except ValueError:
        raise malformed from None
    return Signature(timestamp, parts["kid"], value)


def check_age(signature: Signature, now_s: float, tolerance_s: float) -> None:
    age_s = now_s - int(signature.timestamp)
    if abs(age_s) > tolerance_s:
        when = "ago" if age_s > 0 else "in the future"
        raise WebhookRefused("timestamp_refused", f"the request was signed {abs(age_s):.0f} s {when}")


def find_key(keys: Mapping[str, Any], kid: str) -> Ed25519PublicKey | None:
    """Return the Ed25519 key with this id from a key set; None if there is none. Malformed entries are ignored."""
    entries = keys.get("keys")
    if not isinstance(entries, list):
        return None
    for entry in entries[: limits.WORKER_KEYS_MAX]:
        if not isinstance(entry, Mapping) or entry.get("kid") != kid:
            continue
        if entry.get("kty") != "OKP" or entry.get("crv") != "Ed25519" or entry.get("use", "sig") != "sig":
            continue
        try:
            return Ed25519PublicKey.from_public_bytes(decode_base64url(str(entry.get("x"))))
        except ValueError:
            continue
    return None


def read_wake(body: bytes, subscription: str | None) -> Wake:
    try:
        wake = msgspec.json.decode(body, type=Wake)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise WebhookRefused("body_malformed", "the body is signed, but it is not a wake") from None
    if subscription is not None and wake.subscription_id != subscription:
        raise WebhookRefused("wrong_subscription", f"the wake is for the subscription {wake.subscription_id!r}")
    return wake
