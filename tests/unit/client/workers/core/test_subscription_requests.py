import json

import pytest

from mainstem.client.core.errors import ConnectionFailed, OutcomeUnknown, error_of, may_repeat
from mainstem.client.workers.core.subscription_requests import SubscriptionRequests, refusal_code, refusal_text
from mainstem.client.workers.core.wakes import Claim

REQUESTS = SubscriptionRequests("/v1/stream", "my/billing")
CLAIM = Claim("w_1", 3, "token", (), 30_000)


def test_the_id_of_a_subscription_is_one_segment_of_the_path():
    assert REQUESTS.claim("ann").target == "/v1/stream/__ds/subscriptions/my%2Fbilling/claim"


def test_an_acknowledgement_names_the_wake_and_has_its_token():
    request = REQUESTS.ack(CLAIM, {"a": "5"}, done=True)
    assert json.loads(request.body) == {
        "wake_id": "w_1",
        "generation": 3,
        "acks": [{"stream": "a", "offset": "5"}],
        "done": True,
    }
    assert request.headers["authorization"] == "Bearer token"
    assert json.loads(REQUESTS.release(CLAIM).body) == {"wake_id": "w_1", "generation": 3}


def test_a_subscription_is_pull_wake():
    assert json.loads(REQUESTS.put("a/*", "wakes/x", 1000).body) == {
        "type": "pull-wake",
        "pattern": "a/*",
        "wake_stream": "wakes/x",
        "lease_ttl_ms": 1000,
    }


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b'{"error":{"code":"FENCED","message":"too late"}}', "FENCED", "too late"),
        (b'{"error":"odd"}', "conflict", "claim x: the server answered 409"),
        (b"[]", "conflict", "claim x: the server answered 409"),
    ],
)
def test_a_refusal_has_the_code_and_the_text_of_the_subscription_api(body, code, text):
    error = error_of("claim x", 409, {"content-type": "application/json"}, body)
    assert (refusal_code(error), refusal_text(error)) == (code, text)
    assert not may_repeat(error)


def test_a_request_without_a_reply_may_be_repeated():
    assert may_repeat(ConnectionFailed("no"))
    assert may_repeat(OutcomeUnknown("perhaps"))
    assert refusal_text(ConnectionFailed("no")) == "no"
