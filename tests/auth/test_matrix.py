"""Every endpoint with every kind of caller."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem import limits
from tests.auth.conftest import wrong_tokens
from tests.auth.endpoints import GUARDED, OPEN, ROOT, SUBSCRIPTIONS, TEXT, by_name, make_stream
from tests.support.issuers import Issuer, bearer
from tests.support.waits import eventually

WRONG = [
    "no token",
    "bad signature",
    "alg none",
    "public key as secret",
    "another RSA key",
    "HS512",
    "expired",
    "early",
    "not a token",
    "another scheme",
]


@pytest.fixture(scope="module")
def refused(guarded):
    tokens = wrong_tokens(guarded)
    assert list(tokens) == WRONG
    return {name: {} if token is None else {"authorization": token} for name, token in tokens.items()}


@pytest.fixture
def callers(guarded, path):
    """Tokens that differ only in their rights."""
    own = [path, path + "/**"]
    token = guarded.secret.token
    return {
        "other": token(client_id="c", streams=["elsewhere/**"], allowed_partitions=["elsewhere"]),
        "nothing": token(client_id="c"),
        "read": token(client_id="c", streams={"read": own}),
        "write": token(client_id="c", streams={"write": own}),
        "both": token(client_id="c", streams=own),
        "partition": token(client_id="c", allowed_partitions=[path.replace("/", "-")]),
        "prefix": token(client_id="c", allowed_partition_prefixes=[path.replace("/", "-")[:3]]),
        "admin": guarded.rsa.token(admin=True),
    }


RIGHTS = {
    "other": set(),
    "nothing": set(),
    "read": {"read"},
    "write": {"write"},
    "both": {"read", "write"},
    "partition": {"partition"},
    "prefix": {"partition"},
    "admin": {"read", "write", "partition", "admin"},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("endpoint", GUARDED, ids=by_name)
def test_without_a_valid_token_nothing_is_served(client, refused, path, endpoint, wrong):
    reply = endpoint.call(client, path, refused[wrong])
    assert reply.status_code == 401
    challenge = reply.headers["www-authenticate"]
    assert re.fullmatch(r'Bearer (error="invalid_token", )?error_description="[^"\\]+"', challenge)
    assert ("invalid_token" in challenge) == bool(refused[wrong])
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["cache-control"] == "no-store"
    if endpoint.method != "HEAD":
        assert reply.json()["code"] == "unauthorized"


@pytest.mark.parametrize("caller", RIGHTS)
@pytest.mark.parametrize("endpoint", GUARDED, ids=by_name)
def test_a_token_allows_exactly_what_its_claims_say(admin, client, callers, path, endpoint, caller):
    endpoint.prepare(admin, path)
    allowed = endpoint.needs <= RIGHTS[caller]
    replies = [endpoint.call(client, path, bearer(callers[caller]))]
    if endpoint.method == "POST":  # now the token is cached, and an append takes the fast path
        replies.append(endpoint.call(client, path, bearer(callers[caller])))
    for reply in replies:
        if allowed:
            assert reply.status_code < 300 or reply.json()["code"] == "already_claimed", reply.text
        else:
            assert reply.status_code == 403
            assert reply.headers["content-type"] == "application/problem+json"
            assert 'Bearer error="insufficient_scope", error_description="' in reply.headers["www-authenticate"]
            assert endpoint.method == "HEAD" or reply.json()["code"] == "forbidden"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("no token", "this server needs a token, and the request has none"),
        ("bad signature", "the token is not signed with a key that this server trusts"),
        ("expired", "the token has expired"),
        ("early", "the token is not valid yet"),
        ("not a token", "the token is not a signed JWT"),
        ("another scheme", "the Authorization header must be one Bearer token"),
    ],
)
def test_a_refusal_of_head_gives_its_reason_in_a_header(client, refused, path, wrong, reason):
    """A reply to HEAD has no body."""
    reply = client.head(ROOT + path, headers=refused[wrong])
    assert (reply.status_code, reply.content) == (401, b"")
    assert f'error_description="{reason}"' in reply.headers["www-authenticate"]


def test_a_forbidden_head_names_the_stream_in_a_header(client, callers):
    reply = client.head(ROOT + "a%22%5C%C3%A9" + "x" * 500, headers=bearer(callers["nothing"]))
    assert (reply.status_code, reply.content) == (403, b"")
    challenge = reply.headers["www-authenticate"]
    found = re.fullmatch(r'Bearer error="insufficient_scope", error_description="([ -!#-\[\]-~]+)"', challenge)
    assert found is not None, challenge
    assert "does not allow" in found[1]
    assert len(found[1]) == limits.ERROR_DESCRIPTION_BYTES_MAX


@pytest.mark.parametrize("caller", ["other", "nothing"])
@pytest.mark.parametrize("endpoint", [e for e in GUARDED if e.needs and "{id}/" not in e.url + "/"], ids=by_name)
def test_a_refusal_does_not_reveal_whether_the_stream_exists(admin, client, callers, path, endpoint, caller):
    """Endpoints of subscriptions have their own tests."""
    before = endpoint.call(client, path, bearer(callers[caller]))
    endpoint.prepare(admin, path)
    after = endpoint.call(client, path, bearer(callers[caller]))
    assert before.status_code == after.status_code == 403
    assert [re.sub(rb'"request_id":"[^"]+"', b"", reply.content) for reply in (before, after)] == [
        re.sub(rb'"request_id":"[^"]+"', b"", before.content)
    ] * 2


@pytest.mark.parametrize("wrong", ["no token", "bad signature", "expired"])
@pytest.mark.parametrize("endpoint", OPEN, ids=by_name)
def test_open_endpoints_need_no_token(client, refused, path, endpoint, wrong):
    assert endpoint.call(client, path, refused[wrong]).status_code in (200, 204)


@pytest.mark.parametrize("action", ["callback", "ack", "release"])
@pytest.mark.parametrize("caller", ["nothing", "admin"])
def test_a_wake_is_acknowledged_only_with_its_own_token(client, callers, path, action, caller):
    body = {"wake_id": "w", "generation": 1}
    make = {"type": "pull-wake", "pattern": path + "/**", "wake_stream": path + "/wakes"}
    url = SUBSCRIPTIONS + path.replace("/", "-")
    assert client.put(url, json=make, headers=bearer(callers["both"])).status_code == 201
    reply = client.post(f"{url}/{action}", json=body, headers=bearer(callers[caller]))
    assert (reply.status_code, reply.json()["code"]) == (401, "token_invalid")
    assert reply.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description="')


def test_a_worker_claims_with_its_own_token_and_continues_with_that_of_the_wake(admin, client, callers, path):
    url = SUBSCRIPTIONS + path.replace("/", "-")
    make = {"type": "pull-wake", "pattern": path + "/**", "wake_stream": path + "/wakes"}
    assert client.put(url, json=make, headers=bearer(callers["both"])).status_code == 201
    make_stream(admin, path + "/a")
    claimed = client.post(url + "/claim", json={"worker": "w"}, headers=bearer(callers["read"])).json()
    grip = {"wake_id": claimed["wake_id"], "generation": claimed["generation"]}
    acked = client.post(url + "/ack", json=grip, headers=bearer(claimed["token"]))
    assert acked.status_code == 200, acked.text
    assert client.post(url + "/release", json=grip, headers=bearer(claimed["token"])).status_code == 204
    # The token of the wake grants nothing else.
    assert client.get(ROOT + path + "/a", headers=bearer(claimed["token"])).status_code == 401
    assert client.get(url, headers=bearer(claimed["token"])).status_code == 401


@pytest.mark.parametrize("what", ["POST /v1/stream/__ds/keys/rotate", "PUT /v1/snapshot/p", "POST /v1/prune"])
def test_only_an_admin_may_rotate_keys_put_snapshots_and_prune(admin, client, callers, what):
    method, url = what.split()
    assert client.request(method, url, headers=bearer(callers["both"]), json={}).status_code in (403, 404)
    assert admin.request(method, url, json={}).status_code not in (401, 403)


@pytest.mark.parametrize("url", ["/", "/v1/nothing", "/v1/stream/", "/v1/stream/__ds/nothing", "/v1/stream/%zz"])
def test_even_missing_paths_need_a_token(admin, client, url):
    assert client.get(url).status_code == 401
    assert admin.get(url).status_code in (400, 404)


@pytest.mark.parametrize(
    "url",
    [
        "/v1/stream/%5F_ds/jwks.json",
        "/v1/stream/__ds/subscriptions/x%2Fcallback",
        "/v1/stream/__ds/subscriptions/x/callback/",
        "/v1/stream/__ds/subscriptions/x/y/callback",
        "/healthz/",
        "/v1/stream/a/__ds/jwks.json",
    ],
)
def test_only_exactly_the_open_paths_are_open(client, url):
    assert client.post(url, json={}).status_code == 401


def test_an_escaped_path_is_authorised_as_the_stream_that_it_names(admin, client, guarded, path):
    make_stream(admin, path)
    token = bearer(guarded.secret.token(streams=[path]))
    escaped = ROOT + path.replace("t", "%74").replace("/", "%2F")
    assert client.get(escaped, headers=token).status_code == 200
    assert client.get(escaped, headers=bearer(guarded.secret.token(streams=["x"]))).status_code == 403


@pytest.mark.parametrize("alg", ["RS256", "HS256"])
def test_both_types_of_keys_work_side_by_side(guarded, client, admin, path, alg):
    make_stream(admin, path)
    issuer: Issuer = guarded.rsa if alg == "RS256" else guarded.secret
    good = issuer.token(streams=["**"], exp=time.time() + 60, nbf=time.time() - 60)
    assert client.get(ROOT + path, headers=bearer(good)).status_code == 200


def test_two_tokens_in_one_request_are_refused(guarded, client):
    good = guarded.secret.token(admin=True)
    two = [("authorization", f"Bearer {good}"), ("authorization", f"Bearer {good}")]
    for _ in range(2):
        assert client.post(ROOT + "x", headers=[*two, ("content-type", "text/plain")], content=b"x").status_code == 401


def test_the_scheme_may_be_written_in_any_case(guarded, client, admin, path):
    make_stream(admin, path)
    token = guarded.secret.token(admin=True)
    for _ in range(2):
        headers = {"authorization": f"bEARER  {token}", **TEXT}
        assert client.post(ROOT + path, headers=headers, content=b"x").status_code == 204


@pytest.mark.parametrize("url", ["/v1/streams", "/healthz", "/v1/stream/__ds/jwks.json", "/v1/stream/a"])
@pytest.mark.parametrize("name", ["token", "access_token", "jwt", "authorization", "Access_Token", "%74oken"])
def test_a_token_in_a_url_is_refused_even_next_to_a_valid_one(admin, url, name):
    reply = admin.get(f"{url}?a=b&{name}=abc")
    assert (reply.status_code, reply.json()["code"]) == (400, "token_in_url")
    assert "abc" not in reply.text


def test_other_parameters_are_left_to_the_application(admin, path):
    make_stream(admin, path)
    assert admin.get(f"{ROOT}{path}?tokens=1&my_token=2").status_code == 200


def test_a_refused_request_changes_nothing(admin, client, callers, path):
    make_stream(admin, path)
    for method in ("PUT", "POST", "DELETE"):
        assert client.request(method, ROOT + path, headers=TEXT, content=b"x").status_code == 401
        refused = {**TEXT, **bearer(callers["read"])}
        assert client.request(method, ROOT + path, headers=refused, content=b"x").status_code == 403
    assert admin.get(ROOT + path).content == b"data"


def test_an_append_with_a_cached_token_takes_the_fast_path(guarded, client, path, monkeypatch):
    gate = guarded.server.app.gate
    ordinary = []

    async def admit(scope, *rest):
        ordinary.append(scope["method"])
        return await type(gate).admit(gate, scope, *rest)

    monkeypatch.setattr(gate, "admit", admit)
    headers = {**TEXT, **bearer(guarded.secret.token(streams=[path]))}
    assert client.put(ROOT + path, headers=headers).status_code == 201
    for _ in range(3):
        assert client.post(ROOT + path, headers=headers, content=b"x").status_code == 204
    assert ordinary == ["PUT"]


def test_a_read_with_a_cached_token_takes_the_fast_path_and_stays_private(guarded, client, path, monkeypatch):
    gate = guarded.server.app.gate
    ordinary = []

    async def admit(scope, *rest):
        ordinary.append(scope["method"])
        return await type(gate).admit(gate, scope, *rest)

    headers = bearer(guarded.secret.token(streams=[path]))
    assert client.put(ROOT + path, headers={**TEXT, **headers}, content=b"data").status_code == 201
    first = client.get(ROOT + path, headers=headers)
    monkeypatch.setattr(gate, "admit", admit)
    second = client.get(ROOT + path, headers=headers)
    assert ordinary == []
    assert (second.status_code, second.content) == (200, b"data")
    assert first.headers.pop("date")
    assert second.headers.pop("date")
    assert first.headers == second.headers
    assert second.headers["cache-control"].startswith("private")
    other = bearer(guarded.secret.token(streams=["elsewhere"]))
    for _ in range(2):  # first with an unknown token, then with a known one
        assert client.get(ROOT + path, headers=other).status_code == 403
    assert client.get(ROOT + path).status_code == 401
    assert client.get(f"{ROOT}{path}?offset=-1&token=abc", headers=headers).status_code == 400


def test_a_long_poll_that_waits_gets_a_private_reply(guarded, client, path):
    headers = bearer(guarded.secret.token(streams=[path]))
    assert client.put(ROOT + path, headers={**TEXT, **headers}).status_code == 201
    before = guarded.server.app.live.readers
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(client.get, f"{ROOT}{path}?offset=-1&live=long-poll", headers=headers)
        eventually(lambda: guarded.server.app.live.readers > before)
        client.post(ROOT + path, headers={**TEXT, **headers}, content=b"x")
        reply = poll.result()
    assert (reply.status_code, reply.content) == (200, b"x")
    assert reply.headers["cache-control"].startswith("private")
    assert "authorization" in reply.headers["vary"]
