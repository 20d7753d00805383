"""The client with a real server: offline, online, and changing between them."""

import asyncio
import gc
import hmac
import json
import os
import time
from base64 import urlsafe_b64encode
from typing import Any

import httpx2
import pytest

from mainstem import limits
from mainstem.client.core.errors import BadArgument
from mainstem.client.core.retries import Retries
from mainstem.client.offline import (
    ClientClosed,
    Drafted,
    DraftRejected,
    EventsCommitted,
    HistoryMismatch,
    HistoryTruncated,
    IdInUse,
    InvalidDraft,
    MemoryClientStore,
    Missed,
    NotASyncEndpoint,
    NotFollowed,
    OfflineClient,
    PartitionRefused,
    Rejected,
    Reported,
    ServerRefused,
    State,
    StatusChanged,
    SyncClientError,
    UnknownView,
    ViewFailed,
)
from tests.offline_client.waiting import next_of, until, until_events, until_offline, until_state
from tests.offline_client.wires import Wire

NOWHERE = "ws://127.0.0.1:9/v1/sync"  # the port of the discard service, on which nothing listens
QUICK = Retries(attempts_max=None, delay_s=0.01, delay_s_max=0.05)
SECRET = b"an operator's secret of thirty-two bytes or more"


def total(state, event):
    return state + event.event["n"]


def sign(claims: dict) -> str:
    def part(data: bytes) -> bytes:
        return urlsafe_b64encode(data).rstrip(b"=")

    signed = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps(claims).encode())
    return (signed + b"." + part(hmac.digest(SECRET, signed, "sha256"))).decode()


async def bodies(client, partition):
    return [(event.event["n"], event.is_draft) for event in await client.events(partition)]


# Offline


async def test_a_client_without_a_server_works_on_its_drafts(tmp_path, room):
    async with OfflineClient(NOWHERE, client_id="ada", store=tmp_path / "ada.db", partitions=[room]) as client:
        client.register_view("total", total, 0)
        first = await client.submit([room], {"n": 1})
        second = await client.submit([room], {"n": 2})
        assert (first.clock, second.clock) == (1, 2)
        assert await client.view("total") == 3
        assert await bodies(client, room) == [(1, True), (2, True)]
        assert [draft.id for draft in await client.drafts()] == [first.id, second.id]
        error = await until_offline(client)
        assert error.code == "connection_lost"
        assert "reconnects automatically" in str(error)


async def test_an_outage_is_logged_once_with_what_is_retried(tmp_path, caplog):
    async with OfflineClient(NOWHERE, client_id="ada", store=tmp_path / "ada.db", retries=QUICK) as client:
        changes = client.changes()
        for _ in range(3):
            await next_of(changes, StatusChanged)
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.name.startswith("mainstem.client")
    assert f"cannot connect to {client.url}: connection refused; drafts are kept" in warning.getMessage()
    assert "retrying until the server answers" in warning.getMessage()


async def test_a_url_that_is_not_a_sync_endpoint_is_an_error_instead_of_an_endless_wait(tmp_path, shared_server):
    url = f"{shared_server.url}/nowhere"
    async with OfflineClient(url, client_id="ada", store=tmp_path / "ada.db") as client:
        with pytest.raises(NotASyncEndpoint, match="answered 403") as caught:
            await client.synced()
    assert client.url in caught.value.detail
    assert "/v1/sync" in caught.value.hint


@pytest.mark.parametrize("url", ["http://h:1/v1/stream", "ws://h:1/v1/streams/", "http://h:1/v1/stream/chat/1"])
def test_the_url_of_streams_is_refused_with_that_of_the_sync_endpoint(tmp_path, url):
    with pytest.raises(BadArgument, match="the sync endpoint is ws://h:1/v1/sync"):
        OfflineClient(url, client_id="ada", store=tmp_path / "ada.db")


async def test_drafts_survive_a_restart_and_are_committed_in_their_order(tmp_path, room, shared_server):
    ids = []
    for number in range(3):
        async with OfflineClient(NOWHERE, client_id="ada", store=tmp_path / "ada.db", partitions=[room]) as client:
            ids.append((await client.submit([room], {"n": number})).id)
    async with OfflineClient(shared_server.url, client_id="ada", store=tmp_path / "ada.db") as client:
        assert client.partitions == {room}
        await client.synced()
        events = await client.events(room)
        assert [event.id for event in events] == ids
        assert [event.committed_id for event in events] == sorted(event.committed_id or 0 for event in events)
        assert [await client.outcome(id_) for id_ in ids] == [event.committed_id for event in events]


async def test_waiting_for_a_commit_ends_when_the_client_closes_and_the_draft_is_kept(tmp_path, room):
    client = OfflineClient(NOWHERE, client_id="ada", store=tmp_path / "ada.db", partitions=[room])
    async with client:
        draft = await client.submit([room], {"n": 1})
        waiting = asyncio.create_task(draft.committed())
        syncing = asyncio.create_task(client.synced())
        await asyncio.sleep(0)
    for task in (waiting, syncing):
        with pytest.raises(ClientClosed, match="the next client that opens it sends them"):
            await task
    with pytest.raises(ClientClosed):
        await client.submit([room], {"n": 2})
    with pytest.raises(SyncClientError, match="already opened"):
        await client.open()
    async with OfflineClient(NOWHERE, client_id="ada", store=tmp_path / "ada.db") as again:
        assert [kept.id for kept in await again.drafts()] == [draft.id]


# Two clients


async def test_events_of_one_client_reach_the_other_in_the_same_order(make_client, room):
    async with make_client("ada") as ada, make_client("bob") as bob:
        await asyncio.gather(ada.synced(), bob.synced())
        for client in (ada, bob):
            client.register_view("all", lambda state, event: [*state, event.event["n"]], [])
        drafts = await asyncio.gather(*(client.submit([room], {"n": n}) for n in range(50) for client in (ada, bob)))
        ids = [await draft.committed() for draft in drafts]
        assert len(set(ids)) == 100
        seen = [await until_events(client, room, 100) for client in (ada, bob)]
        assert seen[0] == seen[1] == sorted(ids)
        assert await ada.view("all") == await bob.view("all")


async def test_a_late_client_gets_history_in_pages(make_client, room, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_PAGE", 50)
    async with make_client("ada") as ada:
        await asyncio.gather(*(ada.submit([room], {"n": n}) for n in range(180)))
        await ada.synced()
        async with make_client("bob") as bob:
            await bob.synced()
            assert await bodies(bob, room) == [(n, False) for n in range(180)]
            assert bob.cursor == (await bob.events(room))[-1].committed_id


async def test_adding_a_partition_brings_its_history_and_its_new_events(make_client, room):
    other = f"{room}-other"
    async with make_client("ada") as ada, make_client("bob") as bob:
        await asyncio.gather(ada.synced(), bob.synced())
        await ada.submit([other], {"n": 1})
        await ada.submit([room, other], {"n": 2})
        await ada.synced()
        bob.register_view("total", total, 0)
        await until_events(bob, room, 1)
        assert await bob.view("total") == 2
        with pytest.raises(NotFollowed, match="add_partition"):
            await bob.events(other)
        await bob.add_partition(other)
        await bob.synced()
        assert await bodies(bob, other) == [(1, False), (2, False)]
        assert await bob.view("total") == 3, "an older event arrived, so the view was folded again"
        await ada.submit([other], {"n": 4})
        await until_events(bob, other, 3)
        assert await bob.view("total") == 7
        await bob.remove_partition(other)
        assert await bob.view("total") == 2
        assert bob.partitions == {room}
        await ada.submit([other], {"n": 8})
        await ada.submit([room], {"n": 16})
        await until_events(bob, room, 2)
        assert await bob.view("total") == 18


async def test_a_partition_that_was_added_offline_is_fetched_later(make_client, room, tmp_path, shared_server):
    async with make_client("ada") as ada:
        await ada.submit([room], {"n": 1})
        await ada.submit(["added-" + room], {"n": 2})
        await ada.synced()
    path = tmp_path / "bob.db"
    async with make_client("bob", store=path) as bob:
        await bob.synced()
    async with make_client("bob", store=path, url=NOWHERE, partitions=[]) as bob:
        await bob.add_partition("added-" + room)
        assert await bob.events("added-" + room) == []
    async with make_client("bob", store=path, partitions=[]) as bob:
        await bob.synced()
        assert await bodies(bob, "added-" + room) == [(2, False)]


async def test_two_clients_can_use_one_store_only_one_after_the_other(make_client, tmp_path, room):
    path = tmp_path / "ada.db"
    async with make_client("ada", store=path) as ada:
        with pytest.raises(SyncClientError, match="another client is using"):
            await make_client("ada", store=path).open()
        await ada.submit([room], {"n": 1})
    async with make_client("ada", store=path) as ada:
        await ada.synced()


# Submitting


async def test_the_same_id_again_is_the_same_event(make_client, room):
    async with make_client() as client:
        first = await client.submit([room], {"n": 1}, id=f"mine-{room}")
        again = await client.submit([room], {"n": 1.0}, id=f"mine-{room}")
        assert (again.id, again.clock) == (first.id, first.clock)
        with pytest.raises(IdInUse, match="Leave out the id"):
            await client.submit([room], {"n": 2}, id=first.id)
        committed = await first.committed()
        assert await (await client.submit([room], {"n": 1}, id=first.id)).committed() == committed
        assert len(await client.events(room)) == 1


async def test_the_source_of_ids_is_an_argument(make_client, room):
    made = iter(f"{room}-{n}" for n in range(9))
    async with make_client(new_id=lambda: next(made)) as client:
        assert [(await client.submit([room], {"n": n})).id for n in range(2)] == [f"{room}-0", f"{room}-1"]


@pytest.mark.parametrize(
    ("partitions", "event", "id_", "field"),
    [
        ([], {}, None, "partitions"),
        ("room", {}, None, "partitions"),
        ([""], {}, None, "partitions"),
        ([1], {}, None, "partitions"),
        (None, {}, None, "partitions"),
        (["x" * 129], {}, None, "partitions"),
        ([f"p{n}" for n in range(65)], {}, None, "partitions"),
        (["p"], [], None, "event"),
        (["p"], {"n": [None, float("nan")]}, None, "event"),
        (["p"], {"n": float("-inf")}, None, "event"),
        (["p"], {"n": object()}, None, "event"),
        (["p"], {"n": 10**400}, None, "event"),
        (["p"], {"n": "\ud800"}, None, "event"),
        (["p"], {"n": "x" * limits.SYNC_MESSAGE_BYTES_MAX}, None, "event"),
        (["p"], {}, "", "id"),
        (["p"], {}, "x" * 257, "id"),
        (["p"], {}, "\ud800", "id"),
    ],
)
async def test_an_event_that_could_never_be_committed_is_refused_locally(partitions, event, id_, field):
    async with OfflineClient(NOWHERE, client_id="ada", store=MemoryClientStore()) as client:
        with pytest.raises(InvalidDraft) as refused:
            await client.submit(partitions, event, id=id_)
        assert refused.value.field == field
        assert "Nothing was stored" in str(refused.value)
        assert await client.drafts() == []


async def test_an_event_of_the_largest_size_is_committed(make_client, room):
    async with make_client("ada") as ada, make_client("bob") as bob:
        text = "x" * (limits.SYNC_MESSAGE_BYTES_MAX - 500)
        draft = await ada.submit([room], {"n": text})
        await draft.committed()
        await until_events(bob, room, 1)
        assert (await bob.events(room))[0].event == {"n": text}


async def test_more_submits_than_the_queue_holds_wait_for_their_turn(make_client, room, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_WAITING_MAX", 3)
    async with make_client() as client:
        await asyncio.gather(*(client.submit([room], {"n": n}) for n in range(40)))
        await client.synced()
        assert [n for n, _ in await bodies(client, room)] == list(range(40))


# Rejections


async def test_a_rejected_draft_leaves_the_views_and_is_reported(start_on_fixed_port, tmp_path):
    server = start_on_fixed_port("--sync-validation", "tree")
    good = {"type": "set", "payload": {"target": "a", "value": 1}, "n": 1}
    path = tmp_path / "ada.db"
    async with OfflineClient(server.url, client_id="ada", store=path, partitions=["p"]) as client:
        client.register_view("total", total, 0)
        changes = client.changes()
        draft = await client.submit(["p"], {"n": 5})
        accepted = await client.submit(["p"], good)
        with pytest.raises(DraftRejected) as rejected:
            await draft.committed()
        assert rejected.value.reason == "validation_failed"
        assert rejected.value.errors
        assert "The id is free" in str(rejected.value)
        await accepted.committed()
        assert await client.view("total") == 1
        told = await next_of(changes, Rejected)
        assert (told.id, told.reason) == (draft.id, "validation_failed")
        await client.synced()
    async with OfflineClient(server.url, client_id="ada", store=path) as client:
        [kept] = await client.rejections()
        assert (kept.id, kept.event) == (draft.id, {"n": 5})
        with pytest.raises(DraftRejected):
            await client.outcome(draft.id)
        assert await client.dismiss(draft.id) == 1
        assert await client.rejections() == []


async def test_a_corrected_event_may_keep_the_id_of_the_rejected_draft(start_on_fixed_port, tmp_path):
    server = start_on_fixed_port("--sync-validation", "tree")
    async with OfflineClient(server.url, client_id="ada", store=tmp_path / "ada.db", partitions=["p"]) as client:
        draft = await client.submit(["p"], {"n": 5}, id="mine")
        with pytest.raises(DraftRejected):
            await draft.committed()
        [rejection] = await client.rejections()
        corrected = rejection.event | {"type": "set", "payload": {"target": "a", "value": 1}}
        again = await client.submit(["p"], corrected, id=rejection.id)
        committed_id = await again.committed()
        [event] = await client.events("p")
        assert (event.id, event.committed_id, event.event) == ("mine", committed_id, corrected)
        assert type(event.event) is type(rejection.event)
        assert await client.rejections() == []


# Tokens


@pytest.fixture
def guarded(start_on_fixed_port, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    return start_on_fixed_port("--jwt-secret-file", str(secret))


def grant(*partitions, **more):
    return sign({"client_id": "ada", "allowed_partitions": partitions, "exp": int(time.time()) + 3600, **more})


async def test_a_fresh_token_is_requested_for_every_connection(guarded):
    tokens = ["", grant("other"), grant("p", "q")]
    asked: list[Any] = []

    async def token():
        asked.append(tokens[min(len(asked), 2)])
        return asked[-1]

    store = MemoryClientStore()
    async with OfflineClient(
        guarded.url, client_id="ada", token=token, store=store, partitions=["p"], retries=QUICK
    ) as client:
        draft = await client.submit(["p"], {"n": 1})
        error = await until_offline(client)
        assert (error.code, error.retryable) == ("auth_failed", False)
        assert "callable" in str(error)
        with pytest.raises(ServerRefused):
            await client.synced()
        client.connect_now()
        with pytest.raises(DraftRejected, match="forbidden"):
            await draft.committed()  # the second token does not allow it
        with pytest.raises(ServerRefused, match="forbidden"):
            await client.synced()
        assert isinstance(client.status.error, ServerRefused)
        assert client.status.error.code == "forbidden"


async def test_a_forbidden_partition_is_refused_and_the_others_continue(guarded):
    store = MemoryClientStore()
    async with OfflineClient(guarded.url, client_id="ada", token=grant("p"), store=store, partitions=["p"]) as client:
        await client.synced()
        changes = client.changes()
        await client.add_partition("secret")
        refused = (await next_of(changes, Reported)).error
        assert isinstance(refused, PartitionRefused)
        assert refused.partition == "secret"
        await client.synced()
        assert client.partitions == {"p"}
        draft = await client.submit(["p", "secret"], {"n": 1})
        with pytest.raises(DraftRejected, match="forbidden"):
            await draft.committed()
        await (await client.submit(["p"], {"n": 1})).committed()


async def test_an_expired_token_is_replaced(guarded):
    def token():
        lasting = client_tokens.pop(0) if client_tokens else 3600
        return grant("p", exp=int(time.time()) + lasting)

    client_tokens = [2]
    store = MemoryClientStore()
    async with OfflineClient(
        guarded.url, client_id="ada", token=token, store=store, partitions=["p"], retries=QUICK
    ) as client:
        await client.synced()
        await until_offline(client)
        draft = await client.submit(["p"], {"n": 1})
        async with asyncio.timeout(20):
            await draft.committed()


async def test_a_failing_token_source_is_retried(make_client):
    calls = []

    def token():
        calls.append(1)
        if len(calls) < 3:
            raise RuntimeError("the login service is away")
        return ""

    async with make_client(token=token, retries=QUICK) as client:
        async with asyncio.timeout(20):
            await client.synced()


# Views


async def test_views_continue_from_their_stored_checkpoint(make_client, tmp_path, room, monkeypatch):
    folded = []

    def counting(state, event):
        folded.append(event.id)
        return state + event.event["n"]

    path = tmp_path / "ada.db"
    async with make_client(store=path) as client:
        client.register_view("total", counting, 0)
        await asyncio.gather(*(client.submit([room], {"n": 1}) for _ in range(30)))
        await client.synced()
    async with make_client(store=path) as client:
        client.register_view("total", counting, 0)
        await client.synced()  # the cursor now covers the events that were received live
        assert await client.view("total") == 30
    folded.clear()
    async with make_client(store=path, url=NOWHERE) as client:
        client.register_view("total", counting, 0)
        assert await client.view("total") == 30
        assert folded == []
        client.register_view("total", counting, 100, version=2)
        assert await client.view("total") == 130
        assert len(folded) == 30


async def test_a_reducer_may_modify_its_state_and_callers_may_modify_their_copy(make_client, room):
    def collect(state, event):
        state.append(event.event["n"])
        return state

    async with make_client(url=NOWHERE) as client:
        client.register_view("all", collect, [])
        await client.submit([room], {"n": 1})
        (await client.view("all")).append("mine")
        await client.submit([room], {"n": 2})
        assert await client.view("all") == [1, 2]


async def test_a_reducer_that_fails_is_reported_and_loses_nothing(make_client, room):
    async with make_client() as client:
        client.register_view("bad", lambda state, event: 1 / 0, 0)
        client.register_view("odd", lambda state, event: object(), 0)
        client.register_view("endless", lambda state, event: float("inf"), 0)
        client.register_view("good", total, 0)
        await (await client.submit([room], {"n": 1})).committed()
        for name in ("bad", "odd", "endless"):
            with pytest.raises(ViewFailed, match="Correct the reducer"):
                await client.view(name)
        assert await client.view("good") == 1
        with pytest.raises(UnknownView):
            await client.view("none")
        with pytest.raises(BadArgument):
            client.register_view("set", total, object())


async def test_a_snapshot_of_the_server_replaces_pruned_history(make_client, room, shared_server):
    async with make_client("ada") as ada:
        ids = [await (await ada.submit([room], {"n": n})).committed() for n in range(1, 5)]
    with httpx2.Client(base_url=shared_server.url, trust_env=False) as http:
        snapshot = {"committed_id": ids[1], "state": {"sum": 3}}
        assert http.put(f"/v1/snapshot/{room}", json=snapshot).status_code == 204
        assert http.post("/v1/prune", json={"floors": {room: ids[1]}}).status_code == 202
    async with make_client("bob") as bob:
        bob.register_view("sum", lambda state, event: {"sum": state["sum"] + event.event["n"]}, {}, partitions=[room])
        bob.register_view("all", total, 0)
        bob.register_view("restored", total, 0, restore=lambda state, name, kept: state + kept["sum"])
        await bob.synced()
        assert await bob.view("sum") == {"sum": 10}
        assert await bob.view("restored") == 10
        with pytest.raises(ViewFailed, match="restore="):
            await bob.view("all")
        assert await bodies(bob, room) == [(3, False), (4, False)]
        kept = await bob.snapshot(room)
        assert (kept.committed_id, json.loads(kept.state)) == (ids[1], {"sum": 3})


async def test_a_client_that_reconnects_does_not_download_a_snapshot_again(make_client, room, shared_server):
    size = 200_000
    async with make_client("ada") as ada:
        ids = [await (await ada.submit([room], {"n": n})).committed() for n in range(2)]
    with httpx2.Client(base_url=shared_server.url, trust_env=False) as http:
        snapshot = {"committed_id": ids[1], "state": os.urandom(size // 2).hex()}  # which no compression makes small
        assert http.put(f"/v1/snapshot/{room}", json=snapshot).status_code == 204
        assert http.post("/v1/prune", json={"floors": {room: ids[1]}}).status_code == 202
    received = 0

    def count(data: bytes) -> bool:
        nonlocal received
        received += len(data)
        return False

    async with Wire(shared_server.address) as wire:
        wire.watch = count
        store = MemoryClientStore()
        for connection in range(2):
            received = 0
            async with make_client("bob", url=wire.url, store=store) as bob:
                await bob.synced()
                assert (await bob.snapshot(room)).committed_id == ids[1]
                assert bob.cursor >= ids[1]
            assert (received > size / 2) == (connection == 0)


async def test_pruned_history_is_reported(make_client, room, shared_server):
    async with make_client("ada") as ada:
        ids = [await (await ada.submit([room], {"n": n})).committed() for n in range(1, 4)]
    httpx2.post(f"{shared_server.url}/v1/prune", json={"floors": {room: ids[1]}}, trust_env=False).raise_for_status()
    async with make_client("bob") as bob:
        told = (await next_of(bob.changes(), Reported)).error
        assert isinstance(told, HistoryTruncated)
        assert told.partition == room


# Watching


async def test_changes_report_drafts_commits_and_the_connection(make_client, room):
    async with make_client() as client:
        changes = client.changes()
        draft = await client.submit([room], {"n": 1})
        committed = await draft.committed()
        await client.synced()
    told = [change async for change in changes]
    assert Drafted((draft.id,)) in told
    assert EventsCommitted(1, committed, committed, (draft.id,)) in told
    states = [change.status.state for change in told if isinstance(change, StatusChanged)]
    assert states[-1] is State.LIVE


async def test_a_slow_listener_learns_that_it_missed_something(make_client, room, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_CHANGES_MAX", 5)
    async with make_client() as client:
        changes = client.changes()
        for n in range(20):
            await (await client.submit([room], {"n": n})).committed()
    told = [change async for change in changes]
    assert len(told) <= 6
    assert isinstance(told[0], Missed)
    assert told[0].changes + len(told) - 1 >= 40


async def test_a_dropped_listener_is_forgotten(make_client):
    async with make_client() as client:
        for _ in range(3):
            client.changes()
        gc.collect()
        assert len(client._local.listeners._all) == 0


async def test_the_status_goes_from_offline_to_live(start_on_fixed_port):
    server = start_on_fixed_port()
    server.kill()
    async with OfflineClient(
        server.url, client_id="a", store=MemoryClientStore(), partitions=["p"], retries=QUICK
    ) as client:
        await until_offline(client)
        server.start()
        await until_state(client, State.LIVE)
        assert client.status.error is None
        await client.synced()


async def test_connect_now_does_not_wait_for_the_next_attempt(start_on_fixed_port):
    server = start_on_fixed_port()
    server.kill()
    never = Retries(attempts_max=None, delay_s=3600, delay_s_max=3600)
    async with OfflineClient(server.url, client_id="a", store=MemoryClientStore(), retries=never) as client:
        await until_offline(client)
        server.start()
        client.connect_now()
        async with asyncio.timeout(20):
            await client.synced()


async def test_another_log_at_the_same_address_is_noticed(start_on_fixed_port, tmp_path):
    """A server with a memory store loses everything at a restart."""
    server = start_on_fixed_port("--store", "memory")
    path = tmp_path / "ada.db"
    async with OfflineClient(server.url, client_id="ada", store=path, partitions=["p"], retries=QUICK) as client:
        client.register_view("total", total, 0)
        await asyncio.gather(*(client.submit(["p"], {"n": 1}) for _ in range(5)))
        await client.synced()
        changes = client.changes()
        server.restart()
        assert isinstance((await next_of(changes, Reported)).error, HistoryMismatch)
        await client.submit(["p"], {"n": 100})
        await client.synced()
        assert await client.view("total") == 100


@pytest.mark.parametrize("url", ["", "localhost:4437", "ftp://host", "http://"])
def test_an_invalid_address_is_refused(url):
    with pytest.raises(BadArgument, match="ws://host:port/v1/sync"):
        OfflineClient(url, client_id="a", store=MemoryClientStore())


@pytest.mark.parametrize("client_id", ["", "x" * 257])
def test_an_invalid_client_id_is_refused(client_id):
    with pytest.raises(BadArgument):
        OfflineClient(NOWHERE, client_id=client_id, store=MemoryClientStore())


async def test_live_events_of_a_busy_partition_advance_the_cursor(make_client, room, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_RENEW_EVENTS", 20)
    async with make_client("ada") as ada, make_client("bob") as bob:
        await bob.synced()
        await asyncio.gather(*(ada.submit([room], {"n": n}) for n in range(50)))
        await ada.synced()
        ids = await until_events(bob, room, 50)

        async def renewed():
            return bob.cursor >= ids[19]

        await until(bob, renewed)
        assert len(await bob.events(room)) == 50
