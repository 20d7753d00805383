"""Syncing: cursors, pages, cycles, subscriptions, and broadcasts after a cycle."""

import pytest

from mainstem import limits
from tests.support.sync_peers import Peer, Peers, draft, fresh, ids_of


async def read_all(peer: Peer, partitions: list[str], since: int = 0, **more) -> list[dict]:
    """Return the pages of a whole cycle."""
    pages = [await peer.sync(partitions, since, **more)]
    while pages[-1]["has_more"]:
        pages.append(await peer.sync(partitions, pages[-1]["next_since_committed_id"], **more))
    return pages


# Cursors and pages


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(-5, 50), (0, 50), (1, 50), (49, 50), (50, 50), (51, 51), (1000, 1000), (1001, 1000), (10**30, 1000)],
)
async def test_the_limit_is_clamped_between_50_and_1000(sync_server, full_room, limit, expected):
    async with Peers(sync_server.address) as peers:
        page = await (await peers.join()).sync([full_room], limit=limit)
        assert len(page["events"]) == expected
        assert page["has_more"]


@pytest.mark.parametrize("more", [{}, {"limit": None}])
async def test_the_limit_is_500_when_absent(sync_server, full_room, more):
    async with Peers(sync_server.address) as peers:
        assert len((await (await peers.join()).sync([full_room], **more))["events"]) == 500


@pytest.fixture(scope="module")
def full_room(sync_server) -> str:
    """A partition with 1001 events."""
    from mainstem.testing.loops import run

    name = fresh("full")

    async def fill() -> None:
        async with Peers(sync_server.address) as peers:
            await (await peers.join()).commit_many(name, 1001)

    run(fill())
    return name


async def test_pages_hold_every_event_once_in_order_and_sync_to_is_constant(sync_server, full_room):
    async with Peers(sync_server.address) as peers:
        pages = await read_all(await peers.join(), [full_room], limit=300)
        assert [len(page["events"]) for page in pages] == [300, 300, 300, 101]
        ids = [number for page in pages for number in ids_of(page["events"])]
        assert ids == sorted(set(ids))
        assert [page["next_since_committed_id"] for page in pages] == [ids[299], ids[599], ids[899], ids[1000]]
        assert len({page["sync_to_committed_id"] for page in pages}) == 1
        assert [page["has_more"] for page in pages] == [True, True, True, False]


async def test_a_page_that_ends_exactly_at_the_last_event_has_no_more(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit_many(room, 50)
        page = await peer.sync([room], limit=50)
        assert (ids_of(page["events"]), page["has_more"]) == (ids, False)
        [another] = await peer.commit(draft(room))
        page = await peer.sync([room], limit=50)
        assert (ids_of(page["events"]), page["has_more"]) == (ids, True)
        page = await peer.sync([room], ids[-1], limit=50)
        assert (ids_of(page["events"]), page["has_more"]) == ([another], False)


async def test_since_is_exclusive(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room), draft(room))
        for number, since in enumerate(ids):
            assert ids_of((await peer.sync([room], since))["events"]) == ids[number + 1 :]
        assert ids_of((await peer.sync([room], ids[0] - 1))["events"]) == ids


async def test_an_empty_page_returns_the_cursor_that_was_sent(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        [committed] = await peer.commit(draft(fresh("room")))
        page = await peer.sync([room], committed)
        assert (page["events"], page["next_since_committed_id"], page["has_more"]) == ([], committed, False)


@pytest.mark.parametrize("ahead", [1, 10**6, 2**63, 2**64, 10**40])
async def test_a_cursor_from_the_future_gets_an_empty_page_and_the_real_maximum(sync_server, room, ahead):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        [committed] = await peer.commit(draft(room))
        page = await peer.sync([room], committed + ahead, subscription_partitions=[room])
        assert (page["events"], page["has_more"]) == ([], False)
        assert page["sync_to_committed_id"] == committed
        assert page["next_since_committed_id"] == committed + ahead
        [after] = await (await peers.join()).commit(draft(room))
        assert ids_of(await peer.next_broadcasts(1)) == [after]


async def test_a_page_is_the_union_of_its_partitions_with_each_event_once(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft([room, other_room]), draft(other_room), draft(fresh("room")))
        page = await peer.sync([other_room, room, other_room])
        assert page["partitions"] == sorted([room, other_room])
        assert ids_of(page["events"]) == ids[:3]


async def test_a_clients_own_events_are_in_pages(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join(room)
        ids = await peer.commit(draft(room))
        assert ids_of((await peer.sync([room]))["events"]) == ids


async def test_a_page_also_ends_at_its_size_limit_and_nothing_is_lost(start_thread, room, monkeypatch):
    monkeypatch.setattr(limits, "SYNC_PAGE_BYTES_MAX", 20_000)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit_many(room, 60, {"pad": "x" * 1_000})
        pages = await read_all(peer, [room])
        assert len(pages) > 2
        assert [number for page in pages for number in ids_of(page["events"])] == ids


BAD_SYNCS = {
    "nothing": {},
    "no partitions": {"since_committed_id": 0},
    "no cursor": {"partitions": ["a"]},
    "partitions is a string": {"partitions": "a", "since_committed_id": 0},
    "partitions holds a number": {"partitions": [1], "since_committed_id": 0},
    "negative cursor": {"partitions": ["a"], "since_committed_id": -1},
    "cursor is a string": {"partitions": ["a"], "since_committed_id": "0"},
    "cursor is a fraction": {"partitions": ["a"], "since_committed_id": 0.5},
    "cursor is a boolean": {"partitions": ["a"], "since_committed_id": True},
    "cursor is null": {"partitions": ["a"], "since_committed_id": None},
    "limit is a string": {"partitions": ["a"], "since_committed_id": 0, "limit": "50"},
    "limit is a fraction": {"partitions": ["a"], "since_committed_id": 0, "limit": 50.5},
    "subscriptions is a string": {"partitions": ["a"], "since_committed_id": 0, "subscription_partitions": "a"},
    "subscriptions holds null": {"partitions": ["a"], "since_committed_id": 0, "subscription_partitions": [None]},
}


@pytest.mark.parametrize("name", BAD_SYNCS)
async def test_an_invalid_sync_leaves_a_running_cycle_and_the_subscriptions_unchanged(sync_server, room, name):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        history = await writer.commit_many(room, 60)
        await reader.next_broadcasts(60)
        page = await reader.sync([room], limit=50)
        [meanwhile] = await writer.commit(draft(room))
        await reader.send("sync", BAD_SYNCS[name])
        assert (await reader.next_error())["code"] == "bad_request"
        assert await reader.flush() == [], "the cycle has not ended, so there is no broadcast"
        rest = await reader.sync([room], page["next_since_committed_id"], limit=50)
        assert ids_of(page["events"]) + ids_of(rest["events"]) == history
        assert rest["sync_to_committed_id"] == page["sync_to_committed_id"] == history[-1]
        assert rest["effective_subscriptions"] == [room]
        assert ids_of(await reader.next_broadcasts(1)) == [meanwhile]


@pytest.mark.parametrize("field", ["partitions", "subscription_partitions"])
@pytest.mark.parametrize("names", [[""], ["a", "x" * 129], ["é" * 65], [f"p{n}" for n in range(1025)]], ids=len)
async def test_sync_lists_follow_the_rules_for_names(sync_server, room, field, names):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join(room)
        await peer.send("sync", {"partitions": [room], "since_committed_id": 0, field: names})
        assert (await peer.next_error())["code"] == "validation_failed"
        assert (await peer.sync([room]))["effective_subscriptions"] == [room]


async def test_a_sync_may_name_more_partitions_than_an_event_may(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room + "99"))
        page = await peer.sync([f"{room}{n}" for n in range(100)])
        assert len(page["partitions"]) == 100
        assert ids_of(page["events"]) == ids


# Cycles


async def test_a_commit_during_a_cycle_is_not_in_its_pages(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        history = await writer.commit_many(room, 70)
        first = await reader.sync([room], limit=50)
        await writer.commit(draft(room))
        second = await reader.sync([room], first["next_since_committed_id"], limit=50)
        assert ids_of(second["events"]) == history[50:]
        assert second["sync_to_committed_id"] == first["sync_to_committed_id"]
        assert await reader.flush() == [], "the connection has no subscriptions"


async def test_another_cursor_begins_a_new_cycle(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        history = await writer.commit_many(room, 70)
        await reader.sync([room], limit=50)
        [newer] = await writer.commit(draft(room))
        page = await reader.sync([room], history[10], limit=1000)
        assert page["sync_to_committed_id"] == newer
        assert ids_of(page["events"]) == [*history[11:], newer]


async def test_other_partitions_begin_a_new_cycle(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        history = await writer.commit_many(room, 70)
        first = await reader.sync([room], limit=50)
        [newer] = await writer.commit(draft(other_room))
        page = await reader.sync([room, other_room], first["next_since_committed_id"], limit=50)
        assert page["sync_to_committed_id"] == newer
        assert ids_of(page["events"]) == [*history[50:], newer]


async def test_the_same_partitions_in_another_order_continue_the_cycle(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        history = await writer.commit_many(room, 70)
        first = await reader.sync([room, other_room], limit=50)
        await writer.commit(draft(room))
        page = await reader.sync([other_room, room, room], first["next_since_committed_id"], limit=60)
        assert page["sync_to_committed_id"] == first["sync_to_committed_id"] == history[-1]


async def test_after_the_last_page_the_same_cursor_begins_a_new_cycle(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        [first] = await writer.commit(draft(room))
        page = await reader.sync([room])
        [second] = await writer.commit(draft(room))
        again = await reader.sync([room], page["next_since_committed_id"])
        assert (page["sync_to_committed_id"], again["sync_to_committed_id"]) == (first, second)
        assert ids_of(again["events"]) == [second]


async def test_no_broadcast_is_sent_while_pages_are_pending_but_submit_results_are(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        await writer.commit_many(room, 120)
        await reader.next_broadcasts(120)
        page = await reader.sync([room], limit=50)
        missed = []
        while page["has_more"]:
            missed += await writer.commit(draft(room), draft(room))
            await reader.commit(draft(room))
            missed += await writer.commit(draft(room))
            assert await reader.flush() == []
            page = await reader.sync([room], page["next_since_committed_id"], limit=50)
        assert len(missed) == 6
        assert ids_of(await reader.next_broadcasts(6)) == missed, "its own events are not among them"
        assert await reader.flush() == []


async def test_events_missed_in_an_abandoned_cycle_are_sent_after_the_next_one(sync_server, room, other_room):
    """Events that are committed meanwhile and are not on the pages are sent after the last page, exactly once."""
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        await writer.commit_many(other_room, 60)
        await reader.sync([other_room], limit=50)
        [missed] = await writer.commit(draft(room))
        page = await reader.sync([fresh("room")])  # this ends the cycle above
        assert not page["has_more"]
        assert ids_of(await reader.next_broadcasts(1)) == [missed]
        assert await reader.flush() == []


async def test_an_abandoned_cycle_covers_only_the_pages_that_were_sent(sync_server, room, other_room):
    """If a cycle began while broadcasts were held back, the events of its unsent pages are still delivered."""
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        await writer.commit_many(other_room, 60)
        await reader.sync([other_room], limit=50)  # broadcasts are held back from here
        missed = await writer.commit_many(room, 70)
        page = await reader.sync([room], missed[0] - 1, limit=50)  # a new cycle, of which only this page is read
        assert ids_of(page["events"]) == missed[:50]
        await reader.sync([fresh("room")])  # and which is abandoned
        assert ids_of(await reader.next_broadcasts(20)) == missed[50:]
        assert await reader.flush() == []


async def test_events_on_the_pages_of_a_second_cycle_are_not_broadcast_again(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room, other_room)
        await writer.commit_many(fresh("room"), 1)
        long = fresh("room")
        await writer.commit_many(long, 60)
        await reader.sync([long], limit=50)
        held = await writer.commit(draft(room), draft(other_room), draft([room, other_room]), draft(other_room))
        page = await reader.sync([room])
        assert ids_of(page["events"]) == [held[0], held[2]]
        assert ids_of(await reader.next_broadcasts(2)) == [held[1], held[3]]
        assert await reader.flush() == []


async def test_own_events_are_not_broadcast_when_their_partition_is_subscribed_later_in_the_cycle(
    sync_server, room, other_room
):
    """The server MUST NOT send event_broadcast for an item to the connection that submitted it."""
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        await writer.commit_many(room, 60)
        page = await reader.sync([room], limit=50)
        await reader.commit(draft(other_room))
        [others] = await writer.commit(draft(other_room))
        await reader.sync([room], page["next_since_committed_id"], limit=50, subscription_partitions=[other_room])
        assert ids_of(await reader.next_broadcasts(1)) == [others]
        assert await reader.flush() == []


async def test_one_connection_catches_up_while_others_receive_their_broadcasts(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, busy, live = await peers.join(), await peers.join(room), await peers.join(room)
        await writer.commit_many(room, 60)
        await busy.next_broadcasts(60)
        await live.next_broadcasts(60)
        await busy.sync([room], limit=50)
        ids = await writer.commit(draft(room))
        assert ids_of(await live.next_broadcasts(1)) == ids
        assert await busy.flush() == []


async def test_a_connection_that_disconnects_within_a_cycle_does_not_affect_others(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(room), await peers.join(room)
        await writer.commit_many(room, 60)
        await reader.next_broadcasts(60)
        await reader.sync([room], limit=50)
        await reader.hang_up()
        await writer.commit(draft(room))
        again = await peers.join(client_id=reader.client_id)
        assert len((await again.sync([room], limit=1000))["events"]) == 61


# Subscriptions


async def test_subscription_partitions_replace_the_set_atomically(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        page = await reader.sync([], subscription_partitions=[other_room, other_room])
        assert page["effective_subscriptions"] == [other_room]
        ids = await writer.commit(draft(room), draft(other_room), draft([room, other_room]))
        assert ids_of(await reader.next_broadcasts(2)) == ids[1:]
        assert await reader.flush() == []


async def test_absent_subscription_partitions_keep_the_set(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        page = await reader.sync([other_room])
        assert page["effective_subscriptions"] == [room]
        ids = await writer.commit(draft(other_room), draft(room))
        assert ids_of(await reader.next_broadcasts(1)) == ids[1:]
        assert await reader.flush() == []


async def test_an_empty_array_unsubscribes_from_all(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        page = await reader.sync([room], subscription_partitions=[])
        assert page["effective_subscriptions"] == []
        await writer.commit(draft(room))
        assert await reader.flush() == []
        assert (await reader.sync([room]))["effective_subscriptions"] == []


async def test_without_subscription_partitions_nothing_is_subscribed(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        assert (await reader.sync([room]))["effective_subscriptions"] == []
        await writer.commit(draft(room))
        assert await reader.flush() == []


async def test_a_partition_unsubscribed_during_a_cycle_is_not_broadcast_after_it(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room, other_room)
        history = fresh("room")
        await writer.commit_many(history, 60)
        page = await reader.sync([history], limit=50)
        ids = await writer.commit(draft(room), draft(other_room))
        await reader.sync([history], page["next_since_committed_id"], subscription_partitions=[room])
        assert ids_of(await reader.next_broadcasts(1)) == ids[:1]
        assert await reader.flush() == []


async def test_subscriptions_end_with_their_connection(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(room)
        await reader.send("disconnect", {})
        assert await reader.close_code() == 1000
        again = await peers.join(client_id=reader.client_id)
        await writer.commit(draft(room))
        assert await again.flush() == []
        assert (await again.sync([]))["effective_subscriptions"] == []


async def test_the_core_path_subscribes_to_what_is_synced_by_default(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join(path="/v1/sync/core")
        assert (await reader.sync([room]))["effective_subscriptions"] == [room]
        first = await writer.commit(draft(room), draft(other_room))
        assert ids_of(await reader.next_broadcasts(1)) == first[:1]
        page = await reader.sync([room, other_room], subscription_partitions=[other_room])
        assert page["effective_subscriptions"] == [other_room]
        second = await writer.commit(draft(room), draft(other_room))
        assert ids_of(await reader.next_broadcasts(1)) == second[1:]
        assert await reader.flush() == []


async def test_history_is_not_broadcast_to_a_new_subscriber(sync_server, room):
    async with Peers(sync_server.address) as peers:
        writer, reader = await peers.join(), await peers.join()
        await writer.commit_many(room, 5)
        await reader.subscribe(room)
        assert await reader.flush() == []
        ids = await writer.commit(draft(room))
        assert ids_of(await reader.next_broadcasts(1)) == ids
