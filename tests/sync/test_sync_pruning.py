"""Snapshots and pruning: an event is erased only when all its partitions allow it, and its id is never forgotten."""

import httpx2
import pytest

from mainstem.testing.plugin import StartServer
from tests.support.sync_peers import Peers, draft, fresh, ids_of


@pytest.fixture
def http(sync_server, connect_to) -> httpx2.Client:
    return connect_to(sync_server)


def raise_floors(http: httpx2.Client, floors: dict[str, int]) -> None:
    assert http.post("/v1/prune", json={"floors": floors}).status_code == 202


async def read_until(peer, room: str, wanted: list[int]) -> list[int]:
    """Read a partition until it holds the wanted events. Erasing runs in the background."""
    held: list[int] = []
    for _ in range(2_000):
        held = ids_of((await peer.sync([room], limit=1000))["events"])
        if held == wanted:
            break
    return held


async def test_an_event_is_erased_only_when_the_floors_of_all_its_partitions_have_passed_it(
    sync_server, http, room, other_room
):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        only, both, late, tail = await peer.commit(
            draft(room), draft([room, other_room]), draft([room, other_room]), draft(room)
        )
        raise_floors(http, {room: late})
        assert await read_until(peer, room, [both, late, tail]) == [both, late, tail]
        assert ids_of((await peer.sync([other_room]))["events"]) == [both, late]
        raise_floors(http, {other_room: both})
        assert await read_until(peer, other_room, [late]) == [late]
        assert await read_until(peer, room, [late, tail]) == [late, tail]
        assert only < both


async def test_dedupe_survives_pruning(sync_server, http, room):
    """After a prune, the same id returns the original commit, and different content is still refused."""
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        item = draft(room, {"n": 1})
        first = await peer.submit(item)
        raise_floors(http, {room: first[0]["committed_id"]})
        assert await read_until(peer, room, []) == []
        await watcher.next_broadcasts(1)
        assert await peer.submit(item) == first
        [other] = await peer.submit({**item, "event": {"n": 2}})
        assert (other["status"], other["reason"]) == ("rejected", "validation_failed")
        assert await watcher.flush() == []


async def test_ids_are_not_reused_after_pruning(start_server: StartServer, room):
    server = start_server()
    async with Peers(server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(*[draft(room) for _ in range(5)])
        with httpx2.Client(base_url=server.url, trust_env=False) as http:
            raise_floors(http, {room: ids[-1]})
        assert await read_until(peer, room, []) == []
    server.kill()
    server.restart()
    async with Peers(server.address) as peers:
        assert (await (await peers.join()).commit(draft(room)))[0] > ids[-1]


async def test_snapshots_and_truncation_are_reported_on_the_first_page_only(sync_server, http, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        floor = (await writer.commit(draft(room), draft(other_room)))[-1]
        history = await writer.commit_many(room, 60)
        snapshot = {"committed_id": floor, "state": {"any": ["thing", 1]}}
        assert http.put(f"/v1/snapshot/{room}", json=snapshot).status_code == 204
        raise_floors(http, {room: floor, other_room: floor})
        untouched = fresh("room")
        first = await reader.sync([room, other_room, untouched], limit=50)
        assert first["snapshots"] == [{"partition": room, **snapshot}]
        assert first["history_truncated"] == [other_room]
        assert first["has_more"]
        rest = await reader.sync([room, other_room, untouched], first["next_since_committed_id"], limit=50)
        assert not {"snapshots", "history_truncated"} & rest.keys()
        ids = ids_of(first["events"]) + ids_of(rest["events"])
        assert [number for number in ids if number > floor] == history


async def test_a_cursor_at_the_floor_needs_no_snapshot(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room), draft(room))
        raise_floors(http, {room: ids[1]})
        page = await peer.sync([room], ids[1])
        assert ids_of(page["events"]) == ids[2:]
        assert not {"snapshots", "history_truncated"} & page.keys()
        assert (await peer.sync([room], ids[0]))["history_truncated"] == [room]


async def test_a_snapshot_that_ends_below_the_floor_does_not_hide_the_gap(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room), draft(room))
        assert http.put(f"/v1/snapshot/{room}", json={"committed_id": ids[0], "state": {}}).status_code == 204
        raise_floors(http, {room: ids[1]})
        page = await peer.sync([room])
        assert page["history_truncated"] == [room]
        assert "snapshots" not in page


async def test_history_that_is_pruned_within_a_cycle_is_reported(sync_server, http, room):
    """If the cursor is below a floor, the page says so: it must not skip events silently."""
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        history = await writer.commit_many(room, 120)
        first = await reader.sync([room], limit=50)
        raise_floors(http, {room: history[99]})
        assert await read_until(writer, room, history[100:]) == history[100:]
        rest = await reader.sync([room], first["next_since_committed_id"], limit=100)
        complete = ids_of(rest["events"]) == history[50:]
        assert complete or {"snapshots", "history_truncated"} & rest.keys()


# The cursor after pruned history


def store_snapshot(http: httpx2.Client, room: str, committed_id: int) -> None:
    body = {"committed_id": committed_id, "state": {"at": committed_id}}
    assert http.put(f"/v1/snapshot/{room}", json=body).status_code == 204


async def test_a_cursor_moves_past_a_snapshot_so_that_it_is_not_sent_again(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room), draft(room))
        store_snapshot(http, room, ids[-1])
        raise_floors(http, {room: ids[-1]})
        assert await read_until(peer, room, []) == []
        page = await peer.sync([room])
        assert [snapshot["committed_id"] for snapshot in page["snapshots"]] == ids[-1:]
        assert (page["next_since_committed_id"], page["has_more"]) == (ids[-1], False)
        again = await peer.sync([room], page["next_since_committed_id"])
        assert "snapshots" not in again
        assert again["next_since_committed_id"] == ids[-1]
        later = await peer.commit(draft(room))
        assert ids_of((await peer.sync([room], again["next_since_committed_id"]))["events"]) == later


async def test_a_cursor_moves_past_truncated_history_so_that_it_is_reported_once(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room))
        raise_floors(http, {room: ids[-1]})
        assert await read_until(peer, room, []) == []
        page = await peer.sync([room])
        assert (page["history_truncated"], page["next_since_committed_id"]) == ([room], ids[-1])
        assert "history_truncated" not in await peer.sync([room], ids[-1])


async def test_a_cursor_moves_to_the_snapshot_even_if_it_is_newer_than_the_floor(sync_server, http, room):
    """Otherwise the client would download the same snapshot again as soon as the floor reaches it."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        [first] = await peer.commit(draft(room))
        [second] = await peer.commit(draft(fresh("room")))
        store_snapshot(http, room, second)
        raise_floors(http, {room: first})
        page = await peer.sync([room])
        assert page["next_since_committed_id"] == second
        raise_floors(http, {room: second})
        assert "snapshots" not in await peer.sync([room], second)


async def test_a_snapshot_of_one_partition_hides_no_event_of_another(sync_server, http, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        before = await writer.commit_many(other_room, 60)
        [pruned] = await writer.commit(draft(room))
        store_snapshot(http, room, pruned)
        raise_floors(http, {room: pruned})
        assert await read_until(writer, room, []) == []
        first = await reader.sync([room, other_room], limit=50)
        assert [snapshot["committed_id"] for snapshot in first["snapshots"]] == [pruned]
        assert (first["next_since_committed_id"], first["has_more"]) == (before[49], True), "more events follow"
        last = await reader.sync([room, other_room], before[49], limit=50)
        assert ids_of(last["events"]) == before[50:]
        assert (last["next_since_committed_id"], last["has_more"]) == (pruned, False)
        after = await writer.commit(draft(other_room))
        assert ids_of((await reader.sync([room, other_room], pruned))["events"]) == after


async def test_a_cursor_stays_within_the_end_of_its_cycle_if_the_snapshot_is_newer(sync_server, http, room, other_room):
    """The snapshot says nothing about the events of the other partition between the end of the cycle and itself."""
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        await writer.commit(draft(room))
        await writer.commit_many(other_room, 60)
        first = await reader.sync([room, other_room], limit=50, subscription_partitions=[other_room])
        [meanwhile] = await writer.commit(draft(other_room))
        [pruned] = await writer.commit(draft(room))
        store_snapshot(http, room, pruned)
        raise_floors(http, {room: pruned})
        last = await reader.sync([room, other_room], first["next_since_committed_id"], limit=50)
        assert [snapshot["committed_id"] for snapshot in last["snapshots"]] == [pruned]
        assert not last["has_more"]
        end = last["sync_to_committed_id"]
        assert last["next_since_committed_id"] == end < meanwhile
        assert ids_of(await reader.next_broadcasts(1)) == [meanwhile], "what was committed meanwhile follows the cycle"
        following = await reader.sync([room, other_room], end)
        assert meanwhile in ids_of(following["events"])
        assert following["next_since_committed_id"] >= pruned
        assert "snapshots" not in await reader.sync([room, other_room], following["next_since_committed_id"])


async def test_a_floor_that_rises_within_a_cycle_moves_the_cursor_of_its_last_page(sync_server, http, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        before = await writer.commit_many(other_room, 120)
        [pruned] = await writer.commit(draft(room))
        first = await reader.sync([room, other_room], limit=50)
        assert "history_truncated" not in first
        raise_floors(http, {room: pruned})
        assert await read_until(writer, room, []) == []
        second = await reader.sync([room, other_room], before[49], limit=50)
        assert (second["history_truncated"], second["next_since_committed_id"]) == ([room], before[99])
        last = await reader.sync([room, other_room], before[99], limit=50)
        assert "history_truncated" not in last, "an earlier page has reported it"
        assert ids_of(last["events"]) == before[100:]
        assert last["next_since_committed_id"] == pruned


async def test_a_subscriber_receives_each_event_once_after_a_cycle_that_moved_past_a_snapshot(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        ids = await writer.commit(draft(room), draft(room))
        store_snapshot(http, room, ids[-1])
        raise_floors(http, {room: ids[-1]})
        assert await read_until(writer, room, []) == []
        page = await reader.sync([room], subscription_partitions=[room])
        later = await writer.commit(draft(room), draft(room))
        assert ids_of(await reader.next_broadcasts(2)) == later
        assert ids_of((await reader.sync([room], page["next_since_committed_id"]))["events"]) == later
        assert await reader.flush() == []


async def test_a_snapshot_is_returned_as_it_was_stored(http, room):
    body = '{"committed_id": 0, "state": {"z": 1.0, "a": [12345678901234567890, "☃"]}}'
    assert http.put(f"/v1/snapshot/{room}", content=body.encode()).status_code == 204
    reply = http.get(f"/v1/snapshot/{room}")
    assert reply.status_code == 200
    assert '{"z": 1.0, "a": [12345678901234567890, "☃"]}' in reply.text
    assert (reply.json()["partition"], reply.json()["committed_id"]) == (room, 0)
    assert http.get(f"/v1/snapshot/{room}-other").status_code == 404


async def test_a_snapshot_is_neither_older_than_the_current_one_nor_in_the_future(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        ids = await (await peers.join()).commit(draft(room), draft(room))

    def put(committed_id: object) -> int:
        return http.put(f"/v1/snapshot/{room}", json={"committed_id": committed_id, "state": {}}).status_code

    assert put(ids[1] + 1_000) == 400
    assert put(ids[1]) == 204
    assert put(ids[0]) == 400
    assert put(ids[1]) == 204
    assert put(-1) == 400
    assert put("1") == 400
    assert http.get(f"/v1/snapshot/{room}").json()["committed_id"] == ids[1]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"floors": {}}', b'{"floors": {"a": "1"}}', b'{"floors": {"": 1}}', b"\xff"]
)
async def test_a_malformed_prune_returns_400(http, body):
    reply = http.post("/v1/prune", content=body)
    assert reply.status_code == 400
    assert reply.json()["code"] == "bad_request"


async def test_nothing_can_be_pruned_beyond_the_end_of_the_log(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room))
        reply = http.post("/v1/prune", json={"floors": {room: ids[0], "other": ids[0] + 10_000}})
        assert reply.status_code == 400
        page = await peer.sync([room])
        assert ids_of(page["events"]) == ids
        assert "history_truncated" not in page


async def test_floors_do_not_go_back(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room))
        raise_floors(http, {room: ids[1]})
        raise_floors(http, {room: ids[0]})
        assert (await peer.sync([room], ids[0]))["history_truncated"] == [room]


# Over HTTP


def offset(committed_id: int) -> str:
    return f"{0:016d}_{committed_id:016d}"


async def test_an_offset_below_the_floor_returns_410_with_the_earliest_offset(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        ids = await (await peers.join()).commit(draft(room), draft(room), draft(room))
    raise_floors(http, {room: ids[1]})
    for live in ({}, {"live": "long-poll"}, {"live": "sse"}):
        reply = http.get(f"/v1/partition/{room}", params={"offset": offset(ids[0]), **live})
        assert reply.status_code == 410
        assert reply.json()["code"] == "offset_gone"
        assert reply.headers["stream-earliest-offset"] == offset(ids[1])
    for start in ("-1", offset(ids[1])):
        reply = http.get(f"/v1/partition/{room}", params={"offset": start})
        assert ids_of(reply.json()) == ids[2:]


async def test_the_end_that_head_returns_can_be_read_from_even_if_everything_was_pruned(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room))
        raise_floors(http, {room: ids[-1]})
        assert await read_until(peer, room, []) == []
        end = http.head(f"/v1/partition/{room}").headers["stream-next-offset"]
        reply = http.get(f"/v1/partition/{room}", params={"offset": end})
        assert (reply.status_code, reply.content) == (200, b"[]")
        more = await peer.commit(draft(room))
        assert ids_of(http.get(f"/v1/partition/{room}", params={"offset": end}).json()) == more


# Kills during pruning


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0, 1, 3])
async def test_a_kill_during_pruning_loses_no_kept_event_and_pruning_continues(
    start_server: StartServer, room, other_room, moment
):
    server = start_server()
    async with Peers(server.address) as peers:
        peer = await peers.join()
        gone = await peer.commit_many(room, 3_000)
        item = draft([room, other_room], {"kept": True})
        kept = await peer.commit(item)
        also_gone = await peer.commit_many(room, 1_000)
        tail = await peer.commit(draft(room))
        with httpx2.Client(base_url=server.url, trust_env=False) as http:
            raise_floors(http, {room: also_gone[-1]})
        for _ in range(moment):
            await peer.sync([room])
        server.kill()
    server.restart()
    async with Peers(server.address) as peers:
        peer = await peers.join()
        page = await peer.sync([room])
        assert page["history_truncated"] == [room]
        held: list[int] = []
        for _ in range(5_000):
            page = await peer.sync([room], limit=1000)
            held = ids_of(page["events"])
            if held == kept + tail:
                break
        assert held == kept + tail
        assert ids_of((await peer.sync([other_room]))["events"]) == kept
        assert await peer.commit(item) == kept
        assert (await peer.commit(draft(room)))[0] > tail[0] > gone[0]
