"""Tokens in the sync protocol: which clients may connect, which partitions they may use, and expiry."""

import hmac
import json
import time
from base64 import urlsafe_b64encode

import pytest

from mainstem import limits
from mainstem.testing.clock import START_US, FakeClock
from tests.support.sync_peers import Peers, draft, fresh, ids_of

SECRET = b"an operator's secret of thirty-two bytes or more"
START_S = START_US // 1_000_000


def encode_part(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


def sign(claims: dict, secret: bytes = SECRET, alg: str = "HS256") -> str:
    """Return a JWT built by hand, so that it can be wrong in any way."""
    head = encode_part(json.dumps({"alg": alg, "typ": "JWT"}).encode())
    signed = head + b"." + encode_part(json.dumps(claims).encode())
    return (signed + b"." + encode_part(hmac.digest(secret, signed, "sha256"))).decode()


def grant(client_id: str, *partitions: str, **more) -> str:
    return sign({"client_id": client_id, "allowed_partitions": partitions, "exp": START_S + 3600, **more})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def guarded(start_thread, tmp_path, clock):
    """A server that requires tokens."""
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    return start_thread(jwt_secret_file=str(secret), clock_us=clock, store="memory")


BAD_TOKENS = {
    "none": "",
    "not a token": "abc",
    "three parts of nothing": "..",
    "another secret": sign({"client_id": "c"}, secret=b"x" * 40),
    "algorithm none": sign({"client_id": "c"}, alg="none"),
    "algorithm that was not agreed on": sign({"client_id": "c"}, alg="HS512"),
    "cut short": sign({"client_id": "c"})[:-3],
    "expired": sign({"client_id": "c", "exp": START_S - 1}),
    "expires now": sign({"client_id": "c", "exp": START_S}),
    "not valid yet": sign({"client_id": "c", "nbf": START_S + 60}),
    "of another client": sign({"client_id": "somebody-else", "exp": START_S + 60}),
    "of no client": sign({"exp": START_S + 60}),
    "claims of a wrong type": sign({"client_id": "c", "allowed_partitions": "all"}),
    "a lone surrogate": "\ud800",
    "huge": "x" * 100_000,
}


@pytest.mark.parametrize("name", BAD_TOKENS)
async def test_18_a_bad_token_is_auth_failed_and_closes(guarded, name):
    async with Peers(guarded.address) as peers:
        peer = await peers.dial()
        await peer.send("connect", {"token": BAD_TOKENS[name], "client_id": "c"})
        error = await peer.next_error()
        assert error["code"] == "auth_failed"
        assert await peer.close_code() == 1008


async def test_a_connect_without_a_token_is_auth_failed_and_closes(guarded):
    async with Peers(guarded.address) as peers:
        peer = await peers.dial()
        await peer.send("connect", {"client_id": "c"})
        error = await peer.next_error()
        assert (error["code"], error["message"]) == (
            "auth_failed",
            "this server needs a token, and the request has none",
        )
        assert await peer.close_code() == 1008


async def test_18_a_sync_with_any_forbidden_partition_returns_no_events_and_changes_nothing(guarded):
    """After `forbidden`, the connection, the current cycle and the subscriptions are unchanged."""
    async with Peers(guarded.address) as peers:
        writer = await peers.join(client_id="w", token=grant("w", "a", "b"))
        reader = await peers.join("a", client_id="r", token=grant("r", "a"))
        history = await writer.commit_many("a", 60)
        await reader.next_broadcasts(60)
        first = await reader.sync(["a"], limit=50)
        [meanwhile] = await writer.commit(draft("a"))
        for partitions, more in [
            (["b"], {}),
            (["a", "b"], {}),
            (["a"], {"subscription_partitions": ["b"]}),
            (["a"], {"subscription_partitions": ["a", "b"]}),
            ([], {"subscription_partitions": ["A"]}),
        ]:
            await reader.ask_sync(partitions, 0, **more)
            error = await reader.next_of("error")
            assert error["code"] == "forbidden"
            assert "events" not in error
            assert await reader.flush() == []
        rest = await reader.sync(["a"], first["next_since_committed_id"], limit=50)
        assert ids_of(first["events"]) + ids_of(rest["events"]) == history
        assert rest["sync_to_committed_id"] == first["sync_to_committed_id"]
        assert rest["effective_subscriptions"] == ["a"]
        assert ids_of(await reader.next_broadcasts(1)) == [meanwhile]


async def test_an_event_needs_authorisation_for_each_of_its_partitions(guarded):
    async with Peers(guarded.address) as peers:
        watcher = await peers.join("a", "b", client_id="w", token=grant("w", "a", "b"))
        peer = await peers.join(client_id="p", token=grant("p", "a"))
        results = await peer.submit(draft("a"), draft(["a", "b"]), draft("b"), draft("a"))
        assert [result["status"] for result in results] == ["committed", "rejected", "rejected", "committed"]
        assert [result.get("reason") for result in results] == [None, "forbidden", "forbidden", None]
        assert results[1]["errors"][0]["field"] == "partitions"
        assert results[3]["committed_id"] == results[0]["committed_id"] + 1
        assert ids_of(await watcher.next_broadcasts(2)) == [results[0]["committed_id"], results[3]["committed_id"]]
        assert await watcher.flush() == []


async def test_authorisation_is_checked_before_deduplication(guarded):
    """A client that may not read a partition cannot learn which ids are in it."""
    async with Peers(guarded.address) as peers:
        owner = await peers.join(client_id="o", token=grant("o", "secret"))
        stranger = await peers.join(client_id="s", token=grant("s", "a"))
        item = draft("secret")
        await owner.commit(item)
        [result] = await stranger.submit(item)
        assert (result["status"], result["reason"]) == ("rejected", "forbidden")
        assert "committed_id" not in result


async def test_normalisation_precedes_authorisation(guarded):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    async with Peers(guarded.address) as peers:
        for name, granted in ((composed, decomposed), (decomposed, composed)):
            client = fresh("client")
            peer = await peers.join(client_id=client, token=grant(client, granted))
            await peer.commit(draft(name))
            assert (await peer.sync([name]))["partitions"] == [composed]
        [result] = await peer.submit(draft(["x" * 129]))
        assert result["reason"] == "validation_failed", "an invalid name is reported before the token is checked"


async def test_a_prefix_grants_the_partitions_that_begin_with_it_and_nothing_else(guarded):
    async with Peers(guarded.address) as peers:
        token = sign({"client_id": "p", "allowed_partition_prefixes": ["team/"], "exp": START_S + 60})
        peer = await peers.join(client_id="p", token=token)
        results = await peer.submit(draft("team/"), draft("team/a/b"), draft("team"), draft("Team/a"), draft("x/team/"))
        assert [result.get("reason") for result in results] == [None, None, "forbidden", "forbidden", "forbidden"]


async def test_a_token_without_partitions_allows_none(guarded):
    async with Peers(guarded.address) as peers:
        peer = await peers.join(client_id="p", token=sign({"client_id": "p"}))
        [result] = await peer.submit(draft("a"))
        assert result["reason"] == "forbidden"
        await peer.ask_sync(["a"])
        assert (await peer.next_error())["code"] == "forbidden"


async def test_a_subscription_is_not_a_grant_for_submitting(guarded):
    async with Peers(guarded.address) as peers:
        peer = await peers.join("a", client_id="p", token=grant("p", "a"))
        assert (await peer.submit(draft(["a", "b"])))[0]["reason"] == "forbidden"


async def test_a_token_that_expires_while_connected_ends_the_connection_at_the_next_message(guarded, clock, room):
    async with Peers(guarded.address) as peers:
        token = sign({"client_id": "p", "allowed_partitions": [room], "exp": START_S + 10})
        peer = await peers.join(room, client_id="p", token=token)
        clock.advance(9.9)
        await peer.commit(draft(room))
        clock.advance(0.1)
        await peer.send("submit_events", {"events": [draft(room)]}, msg_id="late")
        reply = await peer.next()
        assert (reply["type"], reply["payload"]["code"]) == ("error", "auth_failed")
        assert await peer.close_code() == 1008
        other = await peers.join(client_id="o", token=grant("o", room))
        assert len((await other.sync([room]))["events"]) == 1


async def test_a_token_that_expires_while_connected_ends_a_silent_connection_too(
    start_thread, tmp_path, monkeypatch, room
):
    """Sessions check expiry with a timer, so a reader that only listens is not served forever."""
    monkeypatch.setattr(limits, "CONNECT_WAIT_S_MAX", 0.05)
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    clock = FakeClock()
    server = start_thread(jwt_secret_file=str(secret), clock_us=clock, store="memory")
    async with Peers(server.address) as peers:
        token = sign({"client_id": "p", "allowed_partitions": [room], "exp": START_S + 0.2})
        peer = await peers.join(room, client_id="p", token=token)
        clock.advance(0.2)
        assert (await peer.next_error())["code"] == "auth_failed"
        assert await peer.close_code() == 1008


async def test_the_timer_ends_a_token_that_expires_before_the_connect_deadline(
    start_thread, tmp_path, monkeypatch, room
):
    """The time limit for `connect` does not depend on the lifetime of the token."""
    monkeypatch.setattr(limits, "CONNECT_WAIT_S_MAX", 3600)
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    server = start_thread(jwt_secret_file=str(secret), store="memory")
    async with Peers(server.address) as peers:
        token = sign({"client_id": "p", "allowed_partitions": [room], "exp": time.time() + 1})
        peer = await peers.join(room, client_id="p", token=token)
        assert (await peer.next_error())["code"] == "auth_failed"
        assert await peer.close_code() == 1008


async def test_a_partition_over_http_has_the_same_authorisation(guarded, connect_to):
    http = connect_to(guarded)
    async with Peers(guarded.address) as peers:
        ids = await (await peers.join(client_id="p", token=grant("p", "a", "b"))).commit(draft("a"), draft("b"))

    def read(name: str, token: str | None) -> int:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return http.get(f"/v1/partition/{name}", headers=headers).status_code

    assert (read("a", grant("r", "a")), read("b", grant("r", "a")), read("a", None)) == (200, 403, 401)
    only_a = {"authorization": f"Bearer {grant('r', 'a')}"}
    assert ids_of(http.get("/v1/partition/a", headers=only_a).json()) == ids[:1]
    for live in ("long-poll", "sse"):
        reply = http.get("/v1/partition/b", params={"offset": "-1", "live": live}, headers=only_a)
        assert reply.status_code == 403


async def test_snapshots_and_pruning_are_for_administrators(guarded, connect_to):
    http = connect_to(guarded)
    plain = {"authorization": f"Bearer {grant('r', 'a')}"}
    admin = {"authorization": f"Bearer {grant('r', admin=True)}"}
    for headers, put, prune in ((plain, 403, 403), (admin, 204, 202)):
        snapshot = {"committed_id": 0, "state": {}}
        assert http.put("/v1/snapshot/a", json=snapshot, headers=headers).status_code == put
        assert http.post("/v1/prune", json={"floors": {"a": 0}}, headers=headers).status_code == prune


async def test_a_second_connect_does_not_change_the_identity(guarded):
    async with Peers(guarded.address) as peers:
        peer = await peers.join(client_id="p", token=grant("p", "a"))
        await peer.send("connect", {"token": grant("q", "b"), "client_id": "q"})
        assert (await peer.next_error())["code"] == "bad_request"
        assert (await peer.submit(draft("b")))[0]["reason"] == "forbidden"


async def test_a_taken_id_reveals_nothing_about_its_event(guarded, room, other_room):
    """All partitions share one space of ids: a client that may not read an event learns only that its id is taken."""
    async with Peers(guarded.address) as peers:
        owner = await peers.join(client_id="owner", token=grant("owner", room))
        stranger = await peers.join(client_id="stranger", token=grant("stranger", other_room))
        taken = draft(room, {"secret": "in the stored event"})
        [committed_id] = await owner.commit(taken)
        [mine] = await stranger.commit(kept := draft(other_room, {"mine": 1}))
        [theirs, own] = await stranger.submit(
            {**taken, "partitions": [other_room]}, {**kept, "event": {"mine": 2}, "partitions": [other_room]}
        )
        assert mine != committed_id
        for result in (theirs, own):
            assert set(result) == {"id", "status", "reason", "errors", "status_updated_at"}
        assert theirs["errors"] == own["errors"]
        assert theirs["status_updated_at"] == own["status_updated_at"]
