"""The requests of a worker about its subscription, and the meaning of refusals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from mainstem.client.core.errors import ClientError, ResponseError
from mainstem.client.core.protocol import Request
from mainstem.client.workers.core.wakes import Claim

NOT_FOUND = "SUBSCRIPTION_NOT_FOUND"
INVALID_OFFSET = "INVALID_OFFSET"
NOTHING_TO_CLAIM = frozenset(["NO_PENDING_WORK", "ALREADY_CLAIMED", "SUBSCRIPTION_PAUSED"])


class SubscriptionRefused(ClientError):
    """The server refused the subscription of a worker: it exists with another configuration, for example."""

    code = "subscription_refused"
    hint = "Use the same pattern, wake_stream and lease_s in all workers, or choose another subscription id."


@dataclass(frozen=True)
class SubscriptionRequests:
    """The requests about one pull-wake subscription of a server that serves streams under `prefix`."""

    prefix: str
    subscription: str

    def put(self, pattern: str, wake_stream: str, lease_ttl_ms: int) -> Request:
        """Return a PUT. It changes nothing if the subscription exists with this configuration."""
        config = {"type": "pull-wake", "pattern": pattern, "wake_stream": wake_stream, "lease_ttl_ms": lease_ttl_ms}
        return self._request("PUT", "", config, "subscribe")

    def claim(self, worker: str) -> Request:
        return self._request("POST", "/claim", {"worker": worker}, "claim")

    def ack(self, claim: Claim, offsets: Mapping[str, str], *, done: bool) -> Request:
        """Return an acknowledgement. It extends the lease, or ends the wake if `done` is set."""
        acks = [{"stream": path, "offset": offset} for path, offset in offsets.items()]
        return self._request("POST", "/ack", {"acks": acks, "done": done}, "acknowledge", claim)

    def release(self, claim: Claim) -> Request:
        return self._request("POST", "/release", {}, "release", claim)

    def _request(
        self, method: str, action: str, body: dict[str, Any], call: str, claim: Claim | None = None
    ) -> Request:
        headers = {"content-type": "application/json"}
        if claim is not None:
            headers["authorization"] = f"Bearer {claim.token}"
            body = {"wake_id": claim.wake_id, "generation": claim.generation, **body}
        target = f"{self.prefix}/__ds/subscriptions/{quote(self.subscription, safe='')}{action}"
        # A repeated claim is refused until its lease expires, and a repeated acknowledgement changes nothing.
        return Request(method, target, self.subscription, headers, msgspec.json.encode(body), safe=True, call=call)


def refusal_code(error: ClientError) -> str:
    """Return the code of the subscription API in an error, or the code of the error itself."""
    if isinstance(error, ResponseError):
        refusal = error.facts.get("error")
        if isinstance(refusal, dict) and isinstance(refusal.get("code"), str):
            return str(refusal["code"])
    return error.code


def refusal_text(error: ClientError) -> str:
    """Return what the server says about a refusal, or else the text of the error."""
    if isinstance(error, ResponseError):
        refusal = error.facts.get("error")
        if isinstance(refusal, dict) and isinstance(refusal.get("message"), str):
            return str(refusal["message"])
    return error.detail
