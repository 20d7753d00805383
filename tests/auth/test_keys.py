"""Where keys come from, and how they change while the server runs."""

import json

import pytest

from mainstem.server.auth import authenticator as auth
from mainstem.testing.clock import SECOND_US, START_US, FakeClock
from tests.auth.conftest import write_jwks
from tests.auth.endpoints import ROOT, TEXT
from tests.support.issuers import ALGORITHMS, Issuer, bearer, jwks, serve_keys, sign

PUBLIC = [alg for alg in ALGORITHMS if alg != "HS256"]


def may_enter(client, token) -> bool:
    status = client.get("/v1/streams", headers=bearer(token)).status_code
    assert status in (200, 401)
    return status == 200


@pytest.fixture
def clock():
    return FakeClock()


@pytest.mark.parametrize("alg", PUBLIC)
@pytest.mark.parametrize("kid", ["k1", None])
def test_a_jwks_file_may_hold_keys_of_every_type(tmp_path, start_thread, connect_to, alg, kid):
    issuer = Issuer(alg, kid)
    other = Issuer(alg, kid)
    client = connect_to(start_thread(jwks=write_jwks(tmp_path / "jwks.json", issuer)))
    assert may_enter(client, issuer.token(admin=True))
    assert not may_enter(client, other.token(admin=True))


def test_both_names_of_the_same_signature_are_accepted(tmp_path, start_thread, connect_to):
    issuer = Issuer("EdDSA", "ed")
    for announced in ("EdDSA", "Ed25519", None):
        jwk = {**issuer.jwk, **({} if announced is None else {"alg": announced})}
        file = tmp_path / f"{announced}.json"
        file.write_text(json.dumps({"keys": [jwk]}))
        client = connect_to(start_thread(jwks=str(file)))
        for alg in ("EdDSA", "Ed25519"):
            assert may_enter(client, sign(issuer.key, alg, {"admin": True}, kid="ed"))


def test_keys_for_other_purposes_are_ignored(tmp_path, start_thread, connect_to):
    good, encrypting, wrapping, renamed = (Issuer("RS256", name) for name in ("good", "enc", "ops", "alg"))
    symmetric = Issuer("HS256", "oct")
    odd = [
        {**encrypting.jwk, "use": "enc"},
        {**wrapping.jwk, "key_ops": ["wrapKey"]},
        {**renamed.jwk, "alg": "PS512"},
        {"kty": "oct", "k": symmetric.key.as_dict(private=True)["k"], "kid": "oct"},
        {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "small"},
        {"kty": "RSA"},
        {},
    ]
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [*odd, {**good.jwk, "use": "sig", "key_ops": ["verify"]}]}))
    client = connect_to(start_thread(jwks=str(file)))
    assert may_enter(client, good.token(admin=True))
    for issuer in (encrypting, wrapping, renamed, symmetric):
        assert not may_enter(client, issuer.token(admin=True))


def test_unknown_header_fields_are_ignored_unless_they_are_critical(tmp_path, start_thread, connect_to):
    issuer = Issuer("ES256", "k")
    client = connect_to(start_thread(jwks=write_jwks(tmp_path / "jwks.json", issuer)))
    claims = {"admin": True}
    assert may_enter(client, sign(issuer.key, "ES256", claims, kid="k", nonce="n", x5c=["A" * 1000]))
    good = issuer.token(admin=True)
    header = good.partition(".")[0]
    assert not may_enter(client, good.replace(header, header + "A"))
    assert not may_enter(client, good + ".AA.AA")


def test_a_new_key_is_fetched_when_a_token_names_it(start_thread, connect_to, clock):
    old, new = Issuer("ES256", "old"), Issuer("ES256", "new")
    with serve_keys(jwks(old)) as keys:
        client = connect_to(start_thread(jwks=keys.url, clock_us=clock))
        assert may_enter(client, old.token(admin=True))
        assert not may_enter(client, new.token(admin=True))
        assert keys.asked == 2
        keys.body = jwks(old, new)
        assert not may_enter(client, new.token(admin=True))  # not fetched again so soon
        assert keys.asked == 2
        clock.advance(auth.JWKS_RETRY_S_MIN)
        assert may_enter(client, new.token(admin=True))
        assert may_enter(client, old.token(admin=True))
        assert keys.asked == 3


def test_a_withdrawn_key_invalidates_its_tokens(start_thread, connect_to, clock):
    old, new = Issuer("EdDSA", "old"), Issuer("EdDSA", "new")
    with serve_keys(jwks(old)) as keys:
        client = connect_to(start_thread(jwks=keys.url, clock_us=clock))
        token = old.token(admin=True)
        assert client.put(ROOT + "a", headers={**TEXT, **bearer(token)}).status_code == 201
        keys.body = jwks(new)
        assert may_enter(client, token)  # the server has not fetched the new keys yet
        assert may_enter(client, new.token(admin=True))
        append = client.post(ROOT + "a", headers={**TEXT, **bearer(token)}, content=b"x")
        assert append.status_code == 401


def test_keys_are_fetched_again_regularly(monkeypatch, start_thread, connect_to):
    monkeypatch.setattr(auth, "JWKS_REFRESH_S", 0.01)
    old, new = Issuer("EdDSA", "k"), Issuer("EdDSA", "k")
    with serve_keys(jwks(old)) as keys:
        client = connect_to(start_thread(jwks=keys.url))
        assert may_enter(client, old.token(admin=True))
        keys.body = jwks(new)
        # A fetch that was in progress may still have received the old keys; the second one after it cannot.
        keys.wait_until_asked(keys.asked + 3)
        assert may_enter(client, new.token(admin=True))
        assert not may_enter(client, old.token(admin=True))


def test_an_issuer_that_fails_leaves_the_keys_unchanged(start_thread, connect_to, clock):
    old, new = Issuer("ES256", "old"), Issuer("ES256", "new")
    with serve_keys(jwks(old)) as keys:
        client = connect_to(start_thread(jwks=keys.url, clock_us=clock))
        token = old.token(admin=True)
        moved = {"Location": keys.url}
        for status, body, headers in [
            (500, b"", {}),
            (302, jwks(new), moved),
            (200, b"<html>", {}),
            (200, b'{"keys": 1}', {}),
            (200, b" " * 300_000, {}),
        ]:
            keys.status, keys.body, keys.headers = status, body, headers
            clock.advance(auth.JWKS_RETRY_S_MIN)
            asked = keys.asked
            assert not may_enter(client, new.token(admin=True))
            assert keys.asked == asked + 1  # in particular, the redirect was not followed
            assert may_enter(client, token)


def test_a_server_whose_issuer_is_unreachable_reports_it_and_recovers(start_thread, connect_to, clock):
    issuer = Issuer("ES256", "k")
    with serve_keys(jwks(issuer)) as keys:
        keys.status = 503
        client = connect_to(start_thread(jwks=keys.url, clock_us=clock))
        reply = client.get("/v1/streams", headers=bearer(issuer.token(admin=True)))
        assert (reply.status_code, reply.json()["retryable"]) == (503, True)
        assert int(reply.headers["retry-after"]) > 0
        assert client.get("/v1/streams").status_code == 401
        keys.status = 200
        clock.advance(auth.JWKS_RETRY_S_MIN)
        assert may_enter(client, issuer.token(admin=True))


def test_a_cached_token_is_valid_only_within_its_time(secret_file, start_thread, connect_to, clock):
    file, issuer = secret_file
    client = connect_to(start_thread(jwt_secret_file=file, clock_us=clock))
    start_s = START_US // SECOND_US
    token = {**TEXT, **bearer(issuer.token(admin=True, nbf=start_s + 10, exp=start_s + 20))}

    def append() -> int:
        return client.post(ROOT + "a", headers=token, content=b"x").status_code

    assert append() == 401
    clock.advance(10)
    assert client.put(ROOT + "a", headers=token).status_code == 201
    assert append() == 204  # the fast path
    assert may_enter(client, token["authorization"].removeprefix("Bearer "))
    clock.advance(9.999)
    assert append() == 204
    clock.advance(us=1000)
    assert append() == 401
    assert client.get(ROOT + "a", headers=token).status_code == 401
    assert client.get(ROOT + "a", headers=token).json()["detail"] == "the token has expired"
    clock.now_us = START_US  # clocks are sometimes set back, and the token is then too early again
    assert append() == 401


@pytest.mark.parametrize(
    ("claims", "allowed"),
    [
        ({"iss": "me", "aud": "us"}, True),
        ({"iss": "me", "aud": ["them", "us"]}, True),
        ({"iss": "you", "aud": "us"}, False),
        ({"iss": "me", "aud": "them"}, False),
        ({"iss": "me"}, False),
        ({"aud": "us"}, False),
        ({"iss": ["me"], "aud": "us"}, False),
        ({"iss": "me", "aud": []}, False),
        ({}, False),
    ],
)
def test_the_issuer_and_audience_must_match_if_they_are_configured(
    secret_file, start_thread, connect_to, claims, allowed
):
    file, issuer = secret_file
    client = connect_to(start_thread(jwt_secret_file=file, jwt_issuer="me", jwt_audience="us", store="memory"))
    assert may_enter(client, issuer.token(admin=True, **claims)) is allowed
