"""The subscription APIs over HTTP: every status and every error code (protocol sections 6 and 7)."""

import pytest

from tests.support.subscribers import ROOT, Subscriber, append, create

URL = "https://worker.example/hook"


def code(reply):
    assert reply.headers["content-type"].startswith(("application/json", "application/problem+json"))
    return reply.status_code, reply.json().get("error", {}).get("code")


# Creating


def test_a_subscription_is_created_then_confirmed_and_a_different_one_is_a_conflict(subscriber, path):
    config = {
        "type": "webhook",
        "pattern": path + "/*",
        "streams": ["b", "a"],
        "webhook": {"url": URL},
        "lease_ttl_ms": 5000,
        "description": "for tests",
    }
    made = subscriber.put(**config)
    assert made.status_code == 201
    for again in (config, config | {"streams": ["a", "b", "a"]}, config | {"streams": ["/a", "/b"]}):
        assert subscriber.put(**again).status_code == 200
    changes = [
        {"pattern": path + "/**"},
        {"pattern": None},
        {"streams": ["a"]},
        {"streams": ["a", "b", "c"]},
        {"webhook": {"url": URL + "s"}},
        {"lease_ttl_ms": 5001},
        {"description": "others"},
        {"description": None},
        {"type": "pull-wake", "wake_stream": "w"},
    ]
    for change in changes:
        assert code(subscriber.put(**config | change)) == (409, "SUBSCRIPTION_ALREADY_EXISTS"), change
    assert subscriber.put(**config).json() == made.json()


def test_a_subscription_is_described_without_secrets(subscriber, client, path, server):
    subscriber.listen(URL, pattern=path + "/*", description="for tests")
    found = subscriber.describe()
    keys = client.get(ROOT + "__ds/jwks.json")
    assert keys.headers["content-type"] == "application/jwk-set+json"
    assert keys.headers["cache-control"] == "public, max-age=300"
    assert found["webhook"] == {
        "url": URL,
        "signing": {
            "alg": "ed25519",
            "kid": keys.json()["keys"][0]["kid"],
            "jwks_url": f"{server.url}{ROOT}__ds/jwks.json",
        },
    }
    expected = {
        "id": subscriber.name,
        "subscription_id": subscriber.name,
        "type": "webhook",
        "pattern": path + "/*",
        "streams": [],
        "wake_stream": None,
        "lease_ttl_ms": 30_000,
        "status": "active",
        "description": "for tests",
    }
    assert {name: found[name] for name in expected} == expected
    assert found["created_at"].endswith("Z")
    assert "token_secret" not in str(found)


WEBHOOK = {"type": "webhook", "pattern": "*", "webhook": {"url": URL}}
PULL = {"type": "pull-wake", "pattern": "*", "wake_stream": "w"}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, "INVALID_REQUEST"),
        (WEBHOOK | {"type": "carrier-pigeon"}, "INVALID_REQUEST"),
        (WEBHOOK | {"type": None}, "INVALID_REQUEST"),
        ({"type": "webhook", "webhook": {"url": URL}}, "INVALID_REQUEST"),
        ({"type": "webhook", "webhook": {"url": URL}, "streams": []}, "INVALID_REQUEST"),
        ({"type": "webhook", "pattern": "*"}, "INVALID_REQUEST"),
        (WEBHOOK | {"webhook": {}}, "INVALID_REQUEST"),
        (WEBHOOK | {"webhook": URL}, "INVALID_REQUEST"),
        ({"type": "pull-wake", "pattern": "*"}, "INVALID_REQUEST"),
        (PULL | {"wake_stream": ""}, "INVALID_REQUEST"),
        (PULL | {"wake_stream": "/"}, "INVALID_REQUEST"),
        (PULL | {"wake_stream": "a/../b"}, "INVALID_REQUEST"),
        (WEBHOOK | {"lease_ttl_ms": 999}, "INVALID_REQUEST"),
        (WEBHOOK | {"lease_ttl_ms": 600_001}, "INVALID_REQUEST"),
        (WEBHOOK | {"lease_ttl_ms": "30000"}, "INVALID_REQUEST"),
        (WEBHOOK | {"lease_ttl_ms": 1500.5}, "INVALID_REQUEST"),
        (WEBHOOK | {"pattern": ""}, "INVALID_REQUEST"),
        (WEBHOOK | {"pattern": "a**b"}, "INVALID_REQUEST"),
        (WEBHOOK | {"pattern": 7}, "INVALID_REQUEST"),
        (WEBHOOK | {"streams": "a"}, "INVALID_REQUEST"),
        (WEBHOOK | {"streams": [""]}, "INVALID_REQUEST"),
        (WEBHOOK | {"streams": ["a//b"]}, "INVALID_REQUEST"),
        (WEBHOOK | {"streams": [str(number) for number in range(1001)]}, "INVALID_REQUEST"),
        (WEBHOOK | {"webhook": {"url": "http://worker.example/"}}, "WEBHOOK_URL_REJECTED"),
        (WEBHOOK | {"webhook": {"url": "https://10.0.0.1/"}}, "WEBHOOK_URL_REJECTED"),
        (WEBHOOK | {"webhook": {"url": "https://169.254.169.254/"}}, "WEBHOOK_URL_REJECTED"),
        (WEBHOOK | {"webhook": {"url": "nonsense"}}, "WEBHOOK_URL_REJECTED"),
    ],
)
def test_an_invalid_configuration_returns_400_with_its_code(subscriber, config, wanted):
    assert code(subscriber.put(**config)) == (400, wanted)
    assert subscriber.client.get(subscriber.url).status_code == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b'{"type": "\xff"}'])
@pytest.mark.parametrize("action", ["", "/streams", "/claim", "/ack", "/callback", "/release"])
def test_an_invalid_body_returns_400_with_its_code(subscriber, path, body, action):
    if action:
        subscriber.pull(path + "/wakes", pattern=path + "/*")
    send = subscriber.client.post if action else subscriber.client.put
    assert code(send(subscriber.url + action, content=body)) == (400, "INVALID_REQUEST")


def test_a_body_over_one_megabyte_returns_413(subscriber):
    assert subscriber.client.put(subscriber.url, content=b" " * (1 << 20) + b"{}").status_code == 413


def test_local_webhooks_are_refused_unless_the_operator_allows_them(start_thread, connect_to):
    strict = Subscriber(connect_to(start_thread()), "sub")
    for url in ("http://localhost:1/", "http://127.0.0.1:1/", "https://127.0.0.1/"):
        assert code(strict.put(type="webhook", pattern="*", webhook={"url": url})) == (400, "WEBHOOK_URL_REJECTED")


# Ids and paths


def test_an_id_is_one_segment_of_up_to_256_bytes(client, path):
    assert Subscriber(client, "x" * 257).put(**PULL).status_code == 400
    assert client.put(f"{ROOT}__ds/subscriptions/", json=PULL).status_code in {400, 404}
    for name in (f"{path}?#%".replace("/", "-"), "ü-" + path.replace("/", "-"), "a b " + path.replace("/", "-")):
        url = f"{ROOT}__ds/subscriptions/" + "".join(f"%{byte:02X}" for byte in name.encode())
        assert client.put(url, json=PULL | {"pattern": path}).status_code == 201
        assert client.get(url).json()["id"] == name


def test_other_paths_under_the_reserved_prefix_are_not_streams(client):
    for rest in ("", "/", "/x", "/subscriptions", "/keys", "/jwks"):
        assert client.put(f"{ROOT}__ds{rest}", headers={"content-type": "text/plain"}).status_code in {400, 404, 405}
        assert client.get(f"{ROOT}__ds{rest}").status_code in {400, 404, 405}
    assert client.put(f"{ROOT}__ds2", headers={"content-type": "text/plain"}).status_code == 201


def test_other_methods_return_405(subscriber, path):
    subscriber.pull(path + "/wakes", pattern=path + "/*")
    client = subscriber.client
    for reply in (
        client.post(subscriber.url, json={}),
        client.patch(subscriber.url, json={}),
        client.get(subscriber.url + "/claim"),
        client.get(subscriber.url + "/streams"),
        client.put(subscriber.url + "/ack", json={}),
        client.post(subscriber.url + "/unknown", json={}),
    ):
        assert reply.status_code == 405


# Subscriptions that do not exist


def test_a_missing_subscription_returns_404_to_every_request(subscriber, client):
    for reply in (
        client.get(subscriber.url),
        subscriber.delete(),
        subscriber.claim(),
        client.post(subscriber.url + "/streams", json={"streams": ["a"]}),
        client.delete(subscriber.url + "/streams/a"),
    ):
        assert code(reply) == (404, "SUBSCRIPTION_NOT_FOUND")


@pytest.mark.parametrize("action", ["callback", "ack", "release"])
@pytest.mark.parametrize("token", [None, "x", "of another one"])
def test_without_the_token_of_a_wake_no_caller_learns_which_ids_exist(client, path, wakes, action, token):
    there, missing = (Subscriber(client, f"{path.replace('/', '-')}-{word}") for word in ("there", "missing"))
    other = Subscriber(client, path.replace("/", "-") + "-other").pull(wakes.path, pattern=path + "/e/*")
    there.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    wake = other.claimed()
    if token != "of another one":
        wake = {**wake, "token": token}
    replies = [subscription.act(action, wake) for subscription in (there, missing)]
    assert [code(reply) for reply in replies] == [(401, "TOKEN_INVALID")] * 2
    first, second = ({**reply.json(), "request_id": ""} for reply in replies)
    assert first == second


def test_a_deleted_subscription_fails_its_worker(subscriber, client, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    tail = append(client, path + "/e/1")
    wake = subscriber.claimed()
    assert subscriber.delete().status_code == 204
    for reply in (
        subscriber.ack(wake, {path + "/e/1": tail}, done=True),
        subscriber.act("release", wake),
        subscriber.claim(),
        subscriber.delete(),
    ):
        assert code(reply) == (404, "SUBSCRIPTION_NOT_FOUND")
    # A new subscription with this id starts from scratch, without the worker and the offsets of the old one.
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    assert code(subscriber.ack(wake, {path + "/e/1": tail}, done=True)) == (409, "FENCED")
    assert code(subscriber.claim()) == (409, "NO_PENDING_WORK")


# Tokens and fencing


@pytest.fixture
def held(subscriber, client, path, wakes):
    """A claimed wake that follows another one."""
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    first = subscriber.claimed()
    subscriber.act("release", first)
    return first, subscriber.claimed()


def test_a_token_of_this_server_for_this_subscription_is_required(held, subscriber, client, path, wakes):
    _, wake = held
    other = Subscriber(client, subscriber.name + "-other").pull(wakes.path, pattern=path + "/o/*")
    append(client, path + "/o/1")
    foreign = other.claimed()["token"]
    payload, _, signature = wake["token"].partition(".")
    forged = [
        None,
        "x",
        ".",
        payload,
        payload + ".",
        f"{payload}.{signature[:-2]}AA",
        f"{payload[:-2]}AA.{signature}",
        foreign,
        "é",
    ]
    for token in forged:
        for action in ("ack", "release"):
            forged_header = {} if token is None else {"authorization": f"Bearer {token}".encode()}
            body = {"wake_id": wake["wake_id"], "generation": wake["generation"]}
            reply = client.post(f"{subscriber.url}/{action}", json=body, headers=forged_header)
            assert code(reply) == (401, "TOKEN_INVALID"), (token, action)
    for scheme in ("Basic", "Token", "Bearer:", ""):
        header = {"authorization": f"{scheme} {wake['token']}".strip()}
        body = {"wake_id": wake["wake_id"], "generation": wake["generation"]}
        assert code(client.post(subscriber.url + "/ack", json=body, headers=header)) == (401, "TOKEN_INVALID")
    assert subscriber.ack(wake).status_code == 200


def test_a_stale_wake_is_fenced_by_each_of_its_parts(held, subscriber, path):
    old, wake = held
    assert wake["generation"] > old["generation"]
    acks = {path + "/e/1": wake["streams"][0]["tail_offset"]}
    before = subscriber.acked(path + "/e/1")
    for wrong in (
        {"token": old["token"]},
        {"generation": old["generation"]},
        {"generation": wake["generation"] + 1},
        {"wake_id": old["wake_id"]},
        {"wake_id": ""},
        {"token": old["token"], "generation": old["generation"]},
        {"token": old["token"], "generation": old["generation"], "wake_id": old["wake_id"]},
    ):
        assert code(subscriber.ack(wake, acks, done=True, **wrong)) == (409, "FENCED"), wrong
        assert code(subscriber.act("release", wake, **wrong)) == (409, "FENCED"), wrong
    assert subscriber.acked(path + "/e/1") == before
    assert subscriber.finish(wake) is False
    assert code(subscriber.ack(wake)) == (409, "FENCED")
    assert code(subscriber.act("release", wake)) == (409, "FENCED")


def test_a_claim_while_another_holds_the_lease_names_the_holder(held, subscriber):
    _, wake = held
    refused = subscriber.claim("bob")
    assert code(refused) == (409, "ALREADY_CLAIMED")
    assert refused.json()["error"]["current_holder"] == "ann"
    assert refused.json()["error"]["generation"] == wake["generation"]


def test_a_claim_without_new_data_is_refused(subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    assert code(subscriber.claim()) == (409, "NO_PENDING_WORK")


@pytest.mark.parametrize("worker", ["", "x" * 257, None, 7])
def test_a_worker_must_have_a_name(subscriber, path, wakes, worker):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    assert code(subscriber.claim(worker)) == (400, "INVALID_REQUEST")


def test_each_type_of_subscription_has_its_own_way_to_acknowledge(held, subscriber, client, path, receive):
    _, wake = held
    assert code(subscriber.callback(wake)) == (400, "INVALID_REQUEST")
    receiver = receive()
    listener = Subscriber(client, subscriber.name + "-webhook").listen(receiver.url, pattern=path + "/w/*")
    append(client, path + "/w/1")
    assert code(listener.ack(receiver.next().wake)) == (400, "INVALID_REQUEST")
    assert code(listener.claim()) == (400, "INVALID_REQUEST")


def test_only_offsets_up_to_the_end_of_a_linked_stream_can_be_acknowledged(held, subscriber, client, path):
    _, wake = held
    create(client, path + "/unlinked", b"data")
    tail = wake["streams"][0]["tail_offset"]
    for acks, wanted in (
        ({path + "/e/1": "x"}, "INVALID_OFFSET"),
        ({path + "/e/1": "-1"}, "INVALID_OFFSET"),
        ({path + "/e/1": "now"}, "INVALID_OFFSET"),
        ({path + "/e/1": ""}, "INVALID_OFFSET"),
        ({path + "/e/1": tail[:-1] + "9"}, "INVALID_OFFSET"),
        ({path + "/unlinked": tail}, "INVALID_OFFSET"),
        ({path + "/nowhere": tail}, "INVALID_OFFSET"),
        ({path + "/e/1": tail, path + "/nowhere": tail}, "INVALID_OFFSET"),
        ({"a//b": tail}, "INVALID_REQUEST"),
    ):
        assert code(subscriber.ack(wake, acks, done=True)) == (400, wanted), acks
    assert subscriber.acked(path + "/e/1") < tail
    assert subscriber.finish(wake) is False


# Explicit links


def test_streams_are_added_and_removed_and_both_are_idempotent(subscriber, client, path):
    subscriber.pull(path + "/wakes", pattern=path + "/e/*")
    tail = create(client, path + "/a", b"old data")
    for _ in range(2):
        added = client.post(subscriber.url + "/streams", json={"streams": [path + "/a", path + "/missing"]})
        assert added.status_code == 204
        assert subscriber.links() == {
            path + "/a": ("explicit", tail),
            path + "/missing": ("explicit", "0000000000000000_0000000000000000"),
        }
    for _ in range(2):
        for name in ("a", "missing", "never"):
            assert client.delete(f"{subscriber.url}/streams/{path}/{name}").status_code == 204
        assert subscriber.links() == {}


@pytest.mark.parametrize(
    "body",
    [{"streams": [""]}, {"streams": ["a//b"]}, {"streams": [7]}, {"streams": "a"}, {}, {"streams": ["x" * 1025]}],
)
def test_invalid_streams_are_refused(subscriber, path, body):
    subscriber.pull(path + "/wakes", pattern=path + "/e/*")
    assert code(subscriber.client.post(subscriber.url + "/streams", json=body)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("name", ["with space", "100%41", "ü", "a?b", "per%cent", "a+b"])
def test_a_stream_is_removed_by_its_name_encoded_once(subscriber, client, path, name):
    """`%2541` in a URL is the stream `%41`, as everywhere."""
    subscriber.pull(path + "/wakes", streams=[f"{path}/{name}", f"{path}/100A"])
    encoded = "".join(f"%{byte:02X}" for byte in name.encode())
    assert client.delete(f"{subscriber.url}/streams/{path}/{encoded}").status_code == 204
    assert list(subscriber.links()) == [f"{path}/100A"]
