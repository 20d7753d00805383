"""Submitting: the shape of a request, the result of each item, deduplication, partitions and canonical equality."""

import asyncio
import json
import unicodedata

import pytest

from mainstem import limits
from mainstem.testing.plugin import StartServer
from tests.support.sync_peers import TEXT, Peer, Peers, draft, encode_frame, envelope, fresh, ids_of
from tests.sync import operator_hooks

# The whole request: any error is one bad_request, and nothing is processed


def items(room: str, number: int) -> list[dict]:
    return [draft(room) for _ in range(number)]


BAD_SHAPES = {
    "no events": lambda room: {},
    "events is null": lambda room: {"events": None},
    "events is an object": lambda room: {"events": {"0": draft(room)}},
    "empty array": lambda room: {"events": []},
    "101 items": lambda room: {"events": items(room, 101)},
    "item is null": lambda room: {"events": [draft(room), None]},
    "item is a string": lambda room: {"events": [draft(room), "x"]},
    "no id": lambda room: {"events": [draft(room), {"partitions": [room], "event": {}}]},
    "empty id": lambda room: {"events": [draft(room), {**draft(room), "id": ""}]},
    "id is a number": lambda room: {"events": [draft(room), {**draft(room), "id": 1}]},
    "id is null": lambda room: {"events": [draft(room), {**draft(room), "id": None}]},
    "id of 257 bytes": lambda room: {"events": [draft(room), draft(room, id="é" * 128 + "x")]},
    "an id twice": lambda room: {"events": [draft(room, id="twice"), draft(room), draft(room, id="twice")]},
    "an id twice with other content": lambda room: {"events": [draft(room, id="t"), draft("x", {}, id="t")]},
    "no event": lambda room: {"events": [draft(room), {"id": "x", "partitions": [room]}]},
    "event is null": lambda room: {"events": [draft(room), {**draft(room), "event": None}]},
    "event is an array": lambda room: {"events": [draft(room), {**draft(room), "event": [1]}]},
    "event is a string": lambda room: {"events": [draft(room), {**draft(room), "event": "{}"}]},
    "event is a number": lambda room: {"events": [draft(room), {**draft(room), "event": 1}]},
    "no partitions": lambda room: {"events": [draft(room), {"id": "x", "event": {}}]},
    "partitions is null": lambda room: {"events": [draft(room), {**draft(room), "partitions": None}]},
    "partitions is a string": lambda room: {"events": [draft(room), {**draft(room), "partitions": room}]},
    "partitions holds a number": lambda room: {"events": [draft(room), {**draft(room), "partitions": [room, 1]}]},
    "partitions holds null": lambda room: {"events": [draft(room), {**draft(room), "partitions": [None]}]},
    "legacy partition alone": lambda room: {"events": [draft(room), {"id": "x", "partition": room, "event": {}}]},
    "legacy partition disagrees": lambda room: {"events": [draft(room), draft(room, partition=room + "x")]},
    "legacy partition of several": lambda room: {"events": [draft(room), draft([room, "x"], partition=room)]},
    "legacy partition is a number": lambda room: {"events": [draft(room), draft(room, partition=1)]},
}


@pytest.mark.parametrize("name", BAD_SHAPES)
async def test_an_invalid_shape_is_one_bad_request_and_processes_nothing(sync_server, room, name):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        [before] = await peer.commit(draft(room))
        await peer.send("submit_events", BAD_SHAPES[name](room), msg_id=name)
        reply = await peer.next()
        assert (reply["type"], reply["msg_id"]) == ("error", name)
        assert reply["payload"]["code"] == "bad_request"
        assert await peer.flush() == [], "there is one reply, and the connection stays open"
        [after] = await peer.commit(draft(room))
        assert after == before + 1
        assert ids_of(await watcher.next_broadcasts(2)) == [before, after]


async def test_a_batch_of_100_and_an_id_of_256_bytes_are_accepted(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        batch = [*items(room, 99), draft(room, id=fresh("é").ljust(255, "x"))]
        assert len(batch[-1]["id"].encode()) == 256
        ids = await peer.commit(*batch)
        assert ids == list(range(ids[0], ids[0] + 100))


async def test_a_legacy_partition_that_repeats_partitions_is_accepted_and_never_sent(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        [committed] = await peer.commit(draft([room, room], partition=room))
        name = room + "é"
        await peer.commit(draft(unicodedata.normalize("NFD", name), partition=name))
        [broadcast] = await watcher.next_broadcasts(1)
        assert broadcast["partitions"] == [room]
        rows = (await peer.sync([room, name]))["events"]
        assert rows[0]["committed_id"] == committed
        for row in (broadcast, *rows):
            assert row.keys() == {"id", "client_id", "partitions", "committed_id", "event", "status_updated_at"}


# Each item on its own


async def test_rejected_items_do_not_stop_others_and_results_are_in_input_order(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        batch = [draft([]), draft(room), draft([room, "x" * 129]), draft(room), draft(room, {}), draft([""])]
        results = await peer.submit(*batch)
        assert [result["id"] for result in results] == [item["id"] for item in batch]
        statuses = [result["status"] for result in results]
        assert statuses == ["rejected", "committed", "rejected", "committed", "committed", "rejected"]
        ids = [result["committed_id"] for result in results if "committed_id" in result]
        assert ids == list(range(ids[0], ids[0] + 3))
        for result in results:
            if result["status"] == "rejected":
                assert result["reason"] == "validation_failed"
                assert [error.keys() for error in result["errors"]] == [{"field", "message"}]
        assert ids_of(await watcher.next_broadcasts(3)) == ids
        assert await watcher.flush() == []


async def test_an_id_that_was_rejected_can_be_committed_later(sync_server, room):
    """A rejected attempt leaves no trace."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        item = draft([room, ""])
        assert (await peer.submit(item))[0]["status"] == "rejected"
        assert (await peer.submit({**item, "partitions": [room], "event": {"other": 1}}))[0]["status"] == "committed"


async def test_the_singular_submit_is_answered_with_event_committed_or_event_rejected(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(room), await peers.join(room)
        item = draft(room)
        await peer.send("submit_event", item, msg_id="one")
        reply = await peer.next()
        assert (reply["type"], reply["msg_id"]) == ("event_committed", "one")
        committed = reply["payload"]
        assert committed.keys() == {"id", "status", "committed_id", "status_updated_at"}
        assert (committed["id"], committed["status"]) == (item["id"], "committed")
        assert ids_of(await watcher.next_broadcasts(1)) == [committed["committed_id"]]
        assert await peer.submit(item) == [committed]
        await peer.send("submit_event", {**item, "event": {"other": 1}})
        rejected = await peer.next_of("event_rejected")
        assert (rejected["status"], rejected["reason"]) == ("rejected", "validation_failed")
        assert rejected["errors"][0]["field"] == "event"
        assert await watcher.flush() == []
        assert await peer.flush() == []


@pytest.mark.parametrize("payload", [{}, {"id": "x", "event": {}}, {"id": "", "partitions": ["a"], "event": {}}])
async def test_a_singular_submit_of_an_invalid_shape_is_a_bad_request(sync_server, payload):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send("submit_event", payload)
        assert (await peer.next_error())["code"] == "bad_request"
        assert await peer.flush() == []


async def test_validation_follows_deduplication_and_sees_earlier_items_of_the_batch(start_thread, room, monkeypatch):
    """A validator that has changed since cannot reject a retry."""
    server = start_thread(store="memory", sync_validation="hook", sync_hook="tests.sync.operator_hooks:check_name")
    async with Peers(server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        first = draft(room, {"name": "a"})
        results = await peer.submit(first, draft(room, {"name": "a"}), draft(room, {"name": "b"}))
        assert [result["status"] for result in results] == ["committed", "rejected", "committed"]
        assert (results[1]["reason"], results[1]["errors"]) == (
            "validation_failed",
            [{"field": "event.name", "message": "stands in this batch already"}],
        )
        assert results[2]["committed_id"] == results[0]["committed_id"] + 1
        monkeypatch.setattr(operator_hooks, "refused", {"a"})
        assert (await peer.submit(draft(room, {"name": "a"})))[0]["status"] == "rejected"
        assert await peer.submit(first) == results[:1]
        assert ids_of(await watcher.next_broadcasts(2)) == [results[0]["committed_id"], results[2]["committed_id"]]
        assert await watcher.flush() == []


async def test_a_validator_that_raises_causes_one_server_error_that_names_only_the_phase(start_thread, room):
    server = start_thread(store="memory", sync_validation="hook", sync_hook="tests.sync.operator_hooks:explode")
    async with Peers(server.address) as peers:
        peer, healthy = await peers.join(), await peers.join(room)
        await peer.send("submit_events", {"events": [draft(room), draft(room, {"bomb": True})]}, msg_id="m")
        reply = await peer.next()
        assert (reply["type"], reply["msg_id"]) == ("error", "m")
        assert reply["payload"]["code"] == "server_error"
        assert reply["payload"]["details"].keys() == {"phase"}
        assert "secret" not in json.dumps(reply)
        assert await peer.close_code() == 1011
        [only] = await healthy.commit(draft(room))
        assert ids_of((await healthy.sync([room]))["events"]) == [only]


# Deduplication


async def test_a_retry_allocates_no_id_and_broadcasts_nothing(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        item = draft(room)
        first = await peer.submit(item)
        mixed = await peer.submit(draft(room), item, draft(room))
        assert mixed[1] == first[0]
        assert mixed[2]["committed_id"] == mixed[0]["committed_id"] + 1
        assert ids_of(await watcher.next_broadcasts(3)) == [*ids_of(first), *ids_of(mixed[::2])]
        assert await watcher.flush() == []


async def test_duplicates_in_flight_at_once_commit_once_and_all_get_the_same_id(sync_server, room):
    async with Peers(sync_server.address) as peers:
        watcher = await peers.join(room)
        rivals = [await peers.join() for _ in range(4)]
        batches = [[draft(room) for _ in range(5)] for _ in range(10)]

        async def submit_all(rival: Peer) -> list[list[dict]]:
            for batch in batches:
                await rival.send("submit_events", {"events": batch})
            return [(await rival.next_of("submit_events_result"))["results"] for _ in batches]

        outcomes = await asyncio.gather(*[submit_all(rival) for rival in rivals])
        assert outcomes == [outcomes[0]] * len(rivals)
        ids = [number for results in outcomes[0] for number in ids_of(results)]
        assert sorted(ids_of(await watcher.next_broadcasts(50))) == sorted(set(ids))
        assert await watcher.flush() == []


async def test_the_second_of_two_in_flight_with_different_content_is_rejected(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        item = draft(room, {"n": 1})
        frames = [
            encode_frame(TEXT, json.dumps(envelope("submit_events", {"events": [one]})).encode())
            for one in (item, {**item, "event": {"n": 2}}, item)
        ]
        await peer.send_bytes(b"".join(frames))
        results = [(await peer.next_of("submit_events_result"))["results"][0] for _ in frames]
        assert [result["status"] for result in results] == ["committed", "rejected", "committed"]
        assert results[2] == results[0]
        assert [event["event"] for event in await watcher.next_broadcasts(1)] == [{"n": 1}]
        assert await watcher.flush() == []


async def test_dedupe_and_ids_survive_a_restart(start_server: StartServer, room):
    """committed_id is monotonic, never reused, and survives restarts."""
    server = start_server()
    item = draft(room)
    async with Peers(server.address) as peers:
        before = await (await peers.join()).submit(draft(room), item)
    for stop in (server.terminate, server.kill):
        stop()
        server.restart()
        async with Peers(server.address) as peers:
            peer = await peers.dial()
            welcome = await peer.connect()
            assert welcome["global_last_committed_id"] >= before[1]["committed_id"]
            assert await peer.submit(item) == before[1:]
            [later] = await peer.commit(draft(room))
            assert later > welcome["global_last_committed_id"]
            assert (await peer.submit({**item, "event": {"other": 1}}))[0]["reason"] == "validation_failed"


# Canonical equality

SAME = {
    "numbers": ['{"n": 1}', '{"n": 1.0}', '{"n": 1e0}', '{"n": 10E-1}', '{"n":0.1e1}'],
    "zeros": ['{"n": 0}', '{"n": -0}', '{"n": -0.0}', '{"n": 0e5}'],
    "large integers": ['{"n": 9007199254740993}', '{"n": 9007199254740992}', '{"n": 9.007199254740992e15}'],
    "larger integers": ['{"n": 100000000000000000000000}', '{"n": 1e23}', '{"n": 99999999999999991611392}'],
    "order of keys": ['{"a": 1, "b": {"c": 2, "d": 3}}', '{"b": {"d": 3, "c": 2}, "a": 1}'],
    "order of keys in UTF-16": ['{"\\ud83d\\ude00": 1, "\\ufb01": 2}', '{"\ufb01": 2, "\U0001f600": 1}'],
    "space": ['{"a":[1,2]}', ' { "a" : [ 1 ,\n 2 ] } ', '{"a":[1,2]\t}'],
    "escapes": ['{"t": "é/"}', '{"t": "\\u00e9\\/"}', '{"\\u0074": "\\u00E9/"}'],
}


def submit_raw(item: dict, event: str) -> str:
    text = json.dumps(envelope("submit_events", {"events": [{**item, "event": "HERE"}]}))
    return text.replace('"HERE"', event)


@pytest.mark.parametrize("name", SAME)
async def test_events_with_the_same_canonical_form_are_equal(sync_server, room, name):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        item = draft(room)
        results = []
        for event in SAME[name]:
            await peer.send_text(submit_raw(item, event))
            results += (await peer.next_of("submit_events_result"))["results"]
        assert results[0]["status"] == "committed"
        assert results == [results[0]] * len(SAME[name])
        assert len(await watcher.next_broadcasts(1)) == 1
        assert await watcher.flush() == []


OTHER = {
    "numbers": ('{"n": 1}', '{"n": 1.0000000000000002}'),
    "number and string": ('{"n": 1}', '{"n": "1"}'),
    "number and boolean": ('{"n": 1}', '{"n": true}'),
    "null and absent": ('{"n": null}', "{}"),
    "large integers": ('{"n": 9007199254740992}', '{"n": 9007199254740994}'),
    "order of items": ('{"a": [1, 2]}', '{"a": [2, 1]}'),
    "strings are not normalised": ('{"t": "\\u00e9"}', '{"t": "e\\u0301"}'),
    "keys are not normalised": ('{"\\u00e9": 1}', '{"e\\u0301": 1}'),
    "case": ('{"t": "a"}', '{"t": "A"}'),
    "space within strings": ('{"t": "a"}', '{"t": "a "}'),
}


@pytest.mark.parametrize("name", OTHER)
async def test_events_with_different_canonical_forms_are_not_equal(sync_server, room, name):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        item = draft(room)
        results = []
        for event in OTHER[name]:
            await peer.send_text(submit_raw(item, event))
            results += (await peer.next_of("submit_events_result"))["results"]
        assert [result["status"] for result in results] == ["committed", "rejected"]
        assert results[1]["reason"] == "validation_failed"


async def test_the_client_and_the_envelope_do_not_affect_equality(sync_server, room):
    async with Peers(sync_server.address) as peers:
        item = draft(room)
        first = await (await peers.join()).submit(item)
        other = await peers.join()
        await other.send("submit_events", {"events": [{**item, "x": 1}]}, msg_id=9, timestamp="later", trace="t")
        assert (await other.next_of("submit_events_result"))["results"] == first


async def test_the_order_and_repetition_of_partitions_do_not_affect_equality(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        item = draft([room, other_room])
        first = await peer.submit(item)
        assert await peer.submit({**item, "partitions": [other_room, room, other_room]}) == first


async def test_an_event_is_returned_as_it_was_sent(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        event = '{"z":1.0, "a" : 1e2,"t":"\\u00e9\\ud83d\\ude00","big":12345678901234567890,"z":2}'
        await peer.send_text(submit_raw(draft(room), event))
        await peer.next_of("submit_events_result")
        await peer.ask_sync([room])
        assert event.encode() in (await peer.next_frame()).data


# Partitions

NFC, NFD = unicodedata.normalize("NFC", "Ångström"), unicodedata.normalize("NFD", "Ångström")


async def test_names_are_normalised_to_nfc_before_storage_and_comparison(sync_server, room):
    assert NFC != NFD
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room + NFC)
        item = draft([room + NFD, room + NFC])
        first = await peer.submit(item)
        [event] = await watcher.next_broadcasts(1)
        assert event["partitions"] == [room + NFC]
        assert await peer.submit({**item, "partitions": [room + NFC]}) == first
        page = await watcher.sync([room + NFD], subscription_partitions=[room + NFD])
        assert page["partitions"] == page["effective_subscriptions"] == [room + NFC]
        assert ids_of(page["events"]) == ids_of(first)


@pytest.mark.parametrize(
    "change", [str.upper, lambda name: f" {name}", lambda name: f"{name} ", lambda name: name + "\0"]
)
async def test_names_are_compared_byte_for_byte_without_trimming_or_case_folding(sync_server, room, change):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        await peer.commit(draft(change(room)))
        assert await watcher.flush() == []
        assert (await watcher.sync([room]))["events"] == []
        [event] = (await watcher.sync([change(room)]))["events"]
        assert event["partitions"] == [change(room)]


async def test_compatibility_forms_stay_different(sync_server, room):
    """NFC, not NFKC: nothing else is rewritten."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.commit(draft(room + "ﬁ"))
        assert (await peer.sync([room + "fi"]))["events"] == []
        assert len((await peer.sync([room + "ﬁ"]))["events"]) == 1


async def test_partitions_are_stored_as_a_set_sorted_by_utf8_bytes(sync_server, room):
    names = ["\U0001f600", "\ufb01", "Z", "a", "é", "aa", "~", "￿"]
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.commit(draft([room, *names, *reversed(names), room]))
        [event] = (await peer.sync([room]))["events"]
        assert event["partitions"] == sorted([room, *names], key=str.encode)


@pytest.mark.parametrize(
    ("names", "valid"),
    [
        ([f"p{n}" for n in range(64)], True),
        ([f"p{n}" for n in range(65)], False),
        ([f"p{n % 64}" for n in range(200)], True),
        (["x" * 128], True),
        (["x" * 129], False),
        (["é" * 64], True),
        (["é" * 64 + "x"], False),
        (["e\u0301" * 64], True),
        (["\U0001f600" * 32], True),
        (["\U0001f600" * 32 + "x"], False),
        ([""], False),
        (["a", ""], False),
        ([], False),
        (["a\u0301" * 60_000], False),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_partition_limits_apply_after_normalisation_and_are_validation_failed(sync_server, names, valid):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        [result] = await peer.submit(draft(names))
        assert result["status"] == ("committed" if valid else "rejected")
        if not valid:
            assert result["reason"] == "validation_failed"
            assert [error["field"] for error in result["errors"]] == ["partitions"]


async def test_subscriptions_are_neither_a_grant_nor_a_condition_for_submitting(sync_server, room, other_room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(room), await peers.join(other_room)
        ids = await peer.commit(draft(other_room))
        assert ids_of(await watcher.next_broadcasts(1)) == ids


# Replies


async def test_replies_are_sent_in_request_order_whatever_they_wait_for(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        requests = []
        for _ in range(20):
            requests += [
                ("submit_events", {"events": [draft(room)]}, "submit_events_result"),
                ("heartbeat", {}, "heartbeat_ack"),
                ("sync", {"partitions": [room], "since_committed_id": 0, "limit": 1000}, "sync_response"),
                ("submit_events", {"events": []}, "error"),
                ("submit_event", draft(room), "event_committed"),
                ("nonsense", {}, "error"),
            ]
        frames = [
            encode_frame(TEXT, json.dumps(envelope(type_, payload, msg_id=number)).encode())
            for number, (type_, payload, _) in enumerate(requests)
        ]
        await peer.send_bytes(b"".join(frames))
        replies = [await peer.next() for _ in requests]
        assert [reply["msg_id"] for reply in replies] == list(range(len(requests)))
        assert [reply["type"] for reply in replies] == [expected for _, _, expected in requests]
        pages = [reply["payload"]["events"] for reply in replies if reply["type"] == "sync_response"]
        assert [len(page) for page in pages] == list(range(1, 40, 2)), "a sync includes the submits before it"


async def test_more_drafts_in_flight_than_allowed_wait_and_are_committed_in_order(start_thread, room, monkeypatch):
    monkeypatch.setattr(limits, "SYNC_DRAFTS_MAX", 3)
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        client = fresh("client")
        peer, twin = await peers.join(client_id=client), await peers.join(client_id=client)
        batches = [items(room, 2) for _ in range(20)]
        frames = [encode_frame(TEXT, json.dumps(envelope("submit_events", {"events": b})).encode()) for b in batches]
        await peer.send_bytes(b"".join(frames))
        await twin.send("submit_events", {"events": items(room, 4)})
        ids = [ids_of((await peer.next_of("submit_events_result"))["results"]) for _ in batches]
        assert ids == sorted(ids)
        assert len(ids_of((await twin.next_of("submit_events_result"))["results"])) == 4, "even one that never fits"


@pytest.mark.parametrize("number", [300, 450])
async def test_a_burst_of_drafts_is_committed_and_none_is_refused(sync_server, room, number):
    """Other offline clients submit like this when they reconnect: one message per event, all at once."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        drafts = items(room, number)
        frames = [encode_frame(TEXT, json.dumps(envelope("submit_events", {"events": [d]})).encode()) for d in drafts]
        await peer.send_bytes(b"".join(frames))
        results = [(await peer.next_of("submit_events_result"))["results"][0] for _ in drafts]
        assert [result["id"] for result in results] == [item["id"] for item in drafts]
        assert {result["status"] for result in results} == {"committed"}


async def test_a_sync_after_a_burst_sees_all_of_it(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        large = draft(room, {"numbers": [5e-324] * 100_000})
        for item in [large, *items(room, 3)]:
            await peer.send("submit_events", {"events": [item]})
        await peer.ask_sync([room])
        ids = [ids_of((await peer.next_of("submit_events_result"))["results"])[0] for _ in range(4)]
        assert ids == sorted(ids), "a small submit must not overtake a large one"
        assert ids_of((await peer.next_of("sync_response"))["events"]) == ids


async def test_drafts_of_a_connection_that_was_cut_do_not_count_forever(start_thread, room, monkeypatch):
    monkeypatch.setattr(limits, "SYNC_DRAFTS_MAX", 2)
    server = start_thread()
    async with Peers(server.address) as peers:
        watcher = await peers.join(room)
        for _ in range(5):
            peer = await peers.join(client_id="cut")
            await peer.send("submit_events", {"events": items(room, 2)})
            await watcher.next_broadcasts(2)
            await peer.hang_up()
        last = await peers.join(client_id="cut")
        assert len(await last.commit(*items(room, 2))) == 2


async def test_overload_is_rate_limited(start_thread, room, monkeypatch):
    """Seed 001: on overload the server returns rate_limited."""
    server = start_thread(store="memory")
    async with Peers(server.address) as peers:
        peer = await peers.join()
        monkeypatch.setattr(limits, "COMMANDS_WAITING_MAX", 0)
        await peer.send("submit_events", {"events": [draft(room)]})
        error = await peer.next_error()
        assert error["code"] == "rate_limited"
        assert error["details"]["retry_after_ms"] > 0
