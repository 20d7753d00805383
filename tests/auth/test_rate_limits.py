"""How many requests a caller may send per second."""

import pytest

from mainstem.testing.clock import FakeClock
from tests.auth.endpoints import ROOT, TEXT
from tests.support.issuers import bearer


@pytest.fixture
def clock():
    return FakeClock()


def test_a_client_over_the_rate_receives_retry_after(secret_file, start_thread, connect_to, clock):
    file, issuer = secret_file
    client = connect_to(start_thread(jwt_secret_file=file, max_requests_per_second=5, clock_us=clock))
    eager = {**TEXT, **bearer(issuer.token(client_id="eager", admin=True))}
    calm = {**TEXT, **bearer(issuer.token(client_id="calm", admin=True))}
    assert client.put(ROOT + "a", headers=eager).status_code == 201
    statuses = [client.post(ROOT + "a", headers=eager, content=b"x").status_code for _ in range(6)]
    assert statuses == [204] * 4 + [429] * 2
    refused = client.get(ROOT + "a", headers=eager)
    assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
    assert refused.json()["retryable"] is True
    assert refused.headers["retry-after"] == "1"
    # Another token of the same client makes no difference; another client is not affected.
    again = bearer(issuer.token(client_id="eager", admin=True, exp=2e9))
    assert client.get(ROOT + "a", headers=again).status_code == 429
    assert client.get(ROOT + "a", headers=calm).status_code == 200
    clock.advance(0.2)
    assert [client.get(ROOT + "a", headers=eager).status_code for _ in range(2)] == [200, 429]
    assert client.get("/healthz").status_code == 200


def test_without_tokens_callers_are_counted_by_address(start_thread, connect_to, clock):
    client = connect_to(start_thread(store="memory", max_requests_per_second=3, clock_us=clock))
    assert client.put(ROOT + "a", headers=TEXT).status_code == 201
    statuses = [client.post(ROOT + "a", headers=TEXT, content=b"x").status_code for _ in range(3)]
    assert statuses == [204, 204, 429]
    assert client.options(ROOT + "a").status_code == 204
    clock.advance(3600)  # at most one second's worth is saved up
    assert [client.get(ROOT + "a").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_invalid_tokens_count_for_their_address(secret_file, start_thread, connect_to, clock):
    file, issuer = secret_file
    client = connect_to(start_thread(jwt_secret_file=file, max_requests_per_second=2, clock_us=clock))
    statuses = [client.get("/v1/streams", headers=bearer("nonsense")).status_code for _ in range(3)]
    assert statuses == [401, 401, 429]
    good = bearer(issuer.token(client_id="c", admin=True))
    assert client.get("/v1/streams", headers=good).status_code == 200


def test_the_handshake_of_a_websocket_counts_for_its_address(secret_file, start_thread, connect_to, clock, shake_hands):
    file, issuer = secret_file
    for settings in ({}, {"jwt_secret_file": file}):
        server = start_thread(store="memory", max_requests_per_second=2, clock_us=clock, **settings)
        replies = [shake_hands(server, "/v1/sync", {}) for _ in range(3)]
        assert [reply.status for reply in replies] == [101, 101, 429]
        assert b'"rate_limited"' in replies[2].read()
        assert replies[2].headers["retry-after"] == "1"
        token = bearer(issuer.token(client_id="c", admin=True))
        assert connect_to(server).get("/v1/streams", headers=token).status_code == (200 if settings else 429)


def test_reads_from_memory_count_like_all_others(start_thread, connect_to, clock):
    client = connect_to(start_thread(store="memory", max_requests_per_second=5, clock_us=clock))
    client.put("/v1/stream/a", headers={"content-type": "text/plain"}, content=b"x")
    statuses = [client.get("/v1/stream/a").status_code for _ in range(6)]
    assert statuses == [200] * 4 + [429] * 2
