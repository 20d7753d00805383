"""`GET /v1/whoami`: the claims of the caller's token, as the server has understood them."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from mainstem import __version__
from tests.support.issuers import bearer

NOTHING: dict[str, Any] = {
    "authenticates": True,
    "client_id": None,
    "subject": None,
    "admin": False,
    "metrics": False,
    "sign_urls": False,
    "streams": {"read": [], "write": []},
    "partitions": [],
    "partition_prefixes": [],
    "expires_at": None,
    "arrow": True,
    "version": __version__,
}


def ask(client, token):
    reply = client.get("/v1/whoami", headers=bearer(token))
    assert reply.status_code == 200, reply.text
    assert reply.headers["cache-control"] == "no-store"
    return reply.json()


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"client_id": "c", "sub": "ann"}, {"client_id": "c", "subject": "ann"}),
        ({"admin": True}, {"admin": True, "metrics": True, "sign_urls": True}),
        ({"metrics": True}, {"metrics": True}),
        ({"sign_urls": True}, {"sign_urls": True}),
        ({"streams": ["a/*", "<b>"]}, {"streams": {"read": ["a/*", "<b>"], "write": ["a/*", "<b>"]}}),
        ({"streams": {"read": ["**"]}}, {"streams": {"read": ["**"], "write": []}}),
        (
            {"allowed_partitions": ["b", "e\u0301", "a"], "allowed_partition_prefixes": ["x/", "\U0001f600"]},
            {"partitions": ["a", "b", "\u00e9"], "partition_prefixes": ["x/", "\U0001f600"]},
        ),
        ({"exp": 1e300}, {"expires_at": "9999-12-31T23:59:59.000Z"}),
    ],
)
def test_the_claims_of_the_token_are_shown(guarded, client, claims, expected):
    assert ask(client, guarded.secret.token(**claims)) == NOTHING | expected


def test_the_expiry_of_the_token_is_shown(guarded, client):
    expires_s = int(time.time()) + 600
    shown = ask(client, guarded.secret.token(exp=expires_s))["expires_at"]
    assert datetime.fromisoformat(shown) == datetime.fromtimestamp(expires_s, UTC)


def test_a_server_without_tokens_allows_everything(start_thread, connect_to):
    reply = connect_to(start_thread(store="memory")).get("/v1/whoami")
    assert reply.json() == NOTHING | {
        "authenticates": False,
        "admin": True,
        "metrics": True,
        "sign_urls": True,
    }


def test_a_rate_limit_alone_asks_for_no_tokens(start_thread, connect_to):
    reply = connect_to(start_thread(store="memory", max_requests_per_second=100)).get("/v1/whoami")
    assert reply.json()["authenticates"] is False


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods_are_refused(admin, method):
    assert admin.request(method, "/v1/whoami").status_code == 405
