"""The nineteen scenarios of the sync contract, each over real sockets."""

import asyncio
import json
import random

import httpx2
import pytest

from mainstem.testing.plugin import StartServer
from tests.support.sync_peers import Peer, Peers, draft, envelope, fresh, ids_of


async def test_00_connect_and_empty_sync(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.dial()
        welcome = await peer.connect("client-00")
        assert welcome["client_id"] == "client-00"
        assert welcome["server_last_committed_id"] == welcome["global_last_committed_id"]
        assert welcome["server_time"].endswith("Z")
        assert {"submit_events", "sync"} <= set(welcome["capabilities"])
        assert welcome["limits"]["batch_items_max"] == 100
        page = await peer.sync([room], subscription_partitions=[room])
        assert page == {
            "partitions": [room],
            "effective_subscriptions": [room],
            "events": [],
            "next_since_committed_id": 0,
            "sync_to_committed_id": welcome["server_last_committed_id"],
            "has_more": False,
        }


async def test_01_commit_gives_the_origin_a_result_and_a_peer_one_broadcast(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(room), await peers.join(room)
        item = draft(room, {"type": "created", "title": "Wurzel ☃"})
        [result] = await origin.submit(item)
        assert result.keys() == {"id", "status", "committed_id", "status_updated_at"}
        assert (result["id"], result["status"]) == (item["id"], "committed")
        [broadcast] = await peer.next_broadcasts(1)
        assert broadcast == {
            "id": item["id"],
            "client_id": origin.client_id,
            "partitions": [room],
            "committed_id": result["committed_id"],
            "event": item["event"],
            "status_updated_at": result["status_updated_at"],
        }
        assert await peer.flush() == []
        assert await origin.flush() == []


async def test_02_a_rejected_event_is_not_broadcast_and_uses_no_id(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        [before] = await origin.commit(draft(room))
        [result] = await origin.submit(draft([room, ""]))
        assert result.keys() == {"id", "status", "reason", "errors", "status_updated_at"}
        assert (result["status"], result["reason"]) == ("rejected", "validation_failed")
        assert [error["field"] for error in result["errors"]] == ["partitions"]
        [after] = await origin.commit(draft(room))
        assert after == before + 1
        assert ids_of(await peer.next_broadcasts(2)) == [before, after]


async def test_03_a_retry_returns_the_same_id(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        item = draft(room)
        first = await origin.submit(item)
        assert await origin.submit(item) == first
        elsewhere = await peers.join()
        assert await elsewhere.submit(item) == first
        assert ids_of(await peer.next_broadcasts(1)) == ids_of(first)
        assert await peer.flush() == []


async def test_04_an_event_of_two_partitions_reaches_subscribers_of_either_and_of_both_once(
    sync_server, room, other_room
):
    async with Peers(sync_server.address) as peers:
        origin = await peers.join()
        subscribers = [await peers.join(room), await peers.join(other_room), await peers.join(room, other_room)]
        stranger = await peers.join(fresh("room"))
        [committed] = await origin.commit(draft([room, other_room]))
        for subscriber in subscribers:
            [event] = await subscriber.next_broadcasts(1)
            assert (event["committed_id"], event["partitions"]) == (committed, sorted([room, other_room]))
            assert await subscriber.flush() == []
        assert await stranger.flush() == []
        for name in (room, other_room):
            assert ids_of((await stranger.sync([name]))["events"]) == [committed]


async def test_05_a_commit_during_a_paged_catch_up_is_delivered_once_after_the_last_page(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer = await peers.join()
        history = await writer.commit_many(room, 120)
        reader = await peers.join()
        pages = [await reader.sync([room], limit=50, subscription_partitions=[room])]
        [meanwhile] = await writer.commit(draft(room))
        assert await reader.flush() == [], "a broadcast arrived while pages were pending"
        while pages[-1]["has_more"]:
            pages.append(await reader.sync([room], pages[-1]["next_since_committed_id"], limit=50))
        assert [ids_of(page["events"]) for page in pages] == [history[:50], history[50:100], history[100:]]
        assert {page["sync_to_committed_id"] for page in pages} == {history[-1]}
        assert ids_of(await reader.next_broadcasts(1)) == [meanwhile]
        [live] = await writer.commit(draft(room))
        assert ids_of(await reader.next_broadcasts(1)) == [live]
        assert await reader.flush() == []


async def test_06_ids_alone_order_events_from_pages_broadcasts_and_retries(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        items = [draft(room, {"n": number}) for number in range(60)]
        await writer.commit(*items)
        broadcasts = await reader.next_broadcasts(60)
        retried = await writer.submit(*items)
        page = await reader.sync([room], limit=1000)
        arrivals = [*page["events"], *broadcasts]
        random.Random(6).shuffle(arrivals)
        applied = {arrival["committed_id"]: arrival["event"]["n"] for arrival in arrivals}
        assert [applied[number] for number in sorted(applied)] == list(range(60))
        assert sorted(applied) == ids_of(retried)


async def test_07_a_snapshot_and_its_tail_equal_the_full_replay_and_pruning_respects_every_partition(
    sync_server, room, other_room, connect_to
):
    def replay(state: dict, events: list[dict]) -> dict:
        return state | {event["event"]["key"]: event["event"]["value"] for event in events}

    http = connect_to(sync_server)
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        drafts = [draft(room, {"key": f"k{n % 4}", "value": n}) for n in range(10)]
        drafts[3]["partitions"] = [room, other_room]
        ids = await peer.commit(*drafts)
        full = (await peer.sync([room]))["events"]
        snapshot = {"committed_id": ids[5], "state": replay({}, full[:6])}
        assert http.put(f"/v1/snapshot/{room}", json=snapshot).status_code == 204
        assert http.post("/v1/prune", json={"floors": {room: ids[5]}}).status_code == 202

        late = await peers.join()
        page = await late.sync([room])
        assert page["snapshots"] == [{"partition": room, **snapshot}]
        tail = [event for event in page["events"] if event["committed_id"] > ids[5]]
        assert replay(page["snapshots"][0]["state"], tail) == replay({}, full)
        # The event is still complete in the other partition, which was not pruned.
        [kept] = (await late.sync([other_room]))["events"]
        assert kept == full[3]


async def test_08_an_event_that_local_validation_would_stop_is_refused_without_a_trace(sync_server, room):
    """Validating before sending is up to client libraries; the server must store nothing."""
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        [before] = await origin.commit(draft(room))
        good = draft(room)
        for bad in ({**draft(room), "id": ""}, {**draft(room), "event": []}, {**draft(room), "partitions": room}):
            await origin.send("submit_events", {"events": [good, bad]})
            assert (await origin.next_error())["code"] == "bad_request"
        [after] = await origin.commit(good)
        assert after == before + 1
        assert ids_of(await peer.next_broadcasts(2)) == [before, after]
        assert ids_of((await peer.sync([room]))["events"]) == [before, after]


async def test_09_the_same_id_with_another_payload_is_rejected(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        item = draft(room, {"n": 1})
        [committed] = await origin.commit(item)
        for other in ({**item, "event": {"n": 2}}, {**item, "partitions": [room, fresh("room")]}):
            [result] = await origin.submit(other)
            assert (result["status"], result["reason"]) == ("rejected", "validation_failed")
            assert result["errors"][0]["field"] == "event"
            assert result["errors"][0]["message"]
        [event] = (await origin.sync([room]))["events"]
        assert (event["committed_id"], event["event"]) == (committed, {"n": 1})
        assert ids_of(await peer.next_broadcasts(1)) == [committed]
        assert await peer.flush() == []


async def test_10_no_broadcast_to_the_submitting_connection_but_to_others_of_the_same_client(sync_server, room):
    async with Peers(sync_server.address) as peers:
        client = fresh("client")
        origin, twin = [await peers.join(room, client_id=client) for _ in range(2)]
        [committed] = await origin.commit(draft(room))
        [event] = await twin.next_broadcasts(1)
        assert (event["committed_id"], event["client_id"]) == (committed, client)
        assert await origin.flush() == []


async def test_11_three_pipelined_submits_are_answered_and_committed_in_order(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        for number in (1, 2, 3):
            await origin.send("submit_events", {"events": [draft(room, {"n": number})]}, msg_id=number)
        replies = [await origin.next() for _ in range(3)]
        assert [reply["msg_id"] for reply in replies] == [1, 2, 3]
        ids = [reply["payload"]["results"][0]["committed_id"] for reply in replies]
        assert ids == sorted(set(ids))
        broadcasts = await peer.next_broadcasts(3)
        assert ids_of(broadcasts) == ids
        assert [event["event"]["n"] for event in broadcasts] == [1, 2, 3]


async def test_12_a_partition_added_mid_session_is_read_from_0_without_losing_the_first(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        history = await writer.commit_many(other_room, 70)
        page = await reader.sync([other_room], limit=50, subscription_partitions=[room, other_room])
        assert page["has_more"]
        during = await writer.commit(draft(room), draft(other_room))
        rest = await reader.sync([other_room], page["next_since_committed_id"], limit=50)
        assert ids_of(page["events"]) + ids_of(rest["events"]) == history
        assert rest["effective_subscriptions"] == sorted([room, other_room])
        assert ids_of(await reader.next_broadcasts(2)) == during
        after = await writer.commit(draft(room), draft(other_room))
        assert ids_of(await reader.next_broadcasts(2)) == after
        assert await reader.flush() == []


async def test_13_a_retry_returns_a_lost_result(sync_server, room):
    async with Peers(sync_server.address) as peers:
        watcher, lost = await peers.join(room), await peers.join()
        item = draft(room)
        await lost.send("submit_events", {"events": [item]})
        [event] = await watcher.next_broadcasts(1)
        await lost.hang_up()  # its result is never read
        again = await peers.join(client_id=lost.client_id)
        assert await again.commit(item) == [event["committed_id"]]
        assert await watcher.flush() == []


async def test_14_concurrent_updates_have_the_same_order_everywhere(sync_server, room):
    async with Peers(sync_server.address) as peers:
        watchers = [await peers.join(room) for _ in range(2)]
        writers = [await peers.join(room) for _ in range(4)]

        async def write(writer: Peer) -> list[int]:
            for _ in range(10):
                await writer.send("submit_events", {"events": [draft(room) for _ in range(3)]})
            own: list[int] = []
            others: list[int] = []
            while len(own) < 30 or len(others) < 90:
                message = await writer.next()
                if message["type"] == "event_broadcast":
                    others.append(message["payload"]["committed_id"])
                else:
                    own += ids_of(message["payload"]["results"])
            assert own == sorted(own)
            assert others == sorted(others)
            return sorted(own + others)

        seen = await asyncio.gather(*[write(writer) for writer in writers])
        orders = [ids_of(await watcher.next_broadcasts(120)) for watcher in watchers]
        order = orders[0]
        assert order == sorted(set(order))
        assert orders == [order, order]
        assert seen == [order] * 4
        assert ids_of((await watchers[0].sync([room], limit=1000))["events"]) == order


async def test_15_a_kill_after_persist_and_before_the_reply_loses_nothing(start_server: StartServer, room):
    server = start_server()
    item = draft(room, {"kept": True})
    async with Peers(server.address) as peers:
        origin = await peers.join()
        await origin.send("submit_events", {"events": [item]})
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, trust_env=False) as http:
            start = {"offset": "-1", "live": "long-poll"}
            [seen] = (await http.get(f"/v1/partition/{room}", params=start)).json()
        server.kill()  # the reply, if it was sent, is never read
    server.restart()
    async with Peers(server.address) as peers:
        again = await peers.join(client_id=origin.client_id)
        [event] = (await again.sync([room]))["events"]
        assert event == seen
        assert (event["id"], event["event"]) == (item["id"], {"kept": True})
        [result] = await again.submit(item)
        assert (result["status"], result["committed_id"]) == ("committed", seen["committed_id"])
        assert result["status_updated_at"] == seen["status_updated_at"]
        [later] = await again.commit(draft(room))
        assert later > seen["committed_id"]


async def test_16_a_batch_of_commit_commit_reject_has_one_result_and_two_broadcasts(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        batch = [draft(room), draft(room), draft([])]
        results = await origin.submit(*batch)
        assert [result["id"] for result in results] == [item["id"] for item in batch]
        assert [result["status"] for result in results] == ["committed", "committed", "rejected"]
        assert ids_of(await peer.next_broadcasts(2)) == ids_of(results[:2])
        assert await peer.flush() == []
        assert await origin.flush() == []


async def test_17_heartbeat_and_disconnect(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join(room)
        await peer.send("heartbeat", {}, msg_id="beat")
        ack = await peer.next()
        assert (ack["type"], ack["msg_id"]) == ("heartbeat_ack", "beat")
        await peer.send("disconnect", {"reason": "done"})
        assert await peer.close_code() == 1000
        plain = await peers.join()
        await plain.send("disconnect", {})
        assert await plain.close_code() == 1000


@pytest.mark.parametrize(
    ("message", "code", "close"),
    [
        (envelope("sync", {"partitions": ["a"], "since_committed_id": -1}), "bad_request", None),
        (envelope("heartbeat", {}) | {"protocol_version": "2.0"}, "protocol_version_unsupported", 1002),
    ],
    ids=["bad request", "version"],
)
async def test_18_bad_requests_keep_the_connection_and_a_wrong_version_closes_it(sync_server, message, code, close):
    """Refused tokens and forbidden partitions are in test_sync_tokens.py."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(json.dumps(message))
        error = await peer.next_error()
        assert error["code"] == code
        if close is None:
            assert await peer.flush() == []
        else:
            assert error["details"]["supported_versions"] == ["1.0"]
            assert await peer.close_code() == close
