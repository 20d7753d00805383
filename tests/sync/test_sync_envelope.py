"""The envelope of a message: the order of the checks, and the reply to each error."""

import json
from datetime import datetime

import pytest

from mainstem import limits
from mainstem.testing.clock import START_US, FakeClock
from tests.support.sync_peers import (
    BINARY,
    CONTINUATION,
    PING,
    TEXT,
    ConnectionEnded,
    Peer,
    Peers,
    draft,
    encode_frame,
    envelope,
    fresh,
)

MIB = 1_048_576


async def expect_error(peer: Peer, code: str) -> dict:
    error = await peer.next_error()
    assert error["code"] == code, error
    return error


async def expect_nothing_committed(peer: Peer, room: str) -> None:
    """Check that a submit is refused, as a message or as an event, and that nothing of it is in the log."""
    reply = await peer.next()
    if reply["type"] == "error":
        assert reply["payload"]["code"] == "bad_request"
    else:
        [result] = reply["payload"]["results"]
        assert (result["status"], result["reason"]) == ("rejected", "validation_failed")
    assert (await peer.sync([room]))["events"] == []


async def expect_open(peer: Peer) -> None:
    assert await peer.flush() == []


# Replies


@pytest.mark.parametrize("msg_id", ["text", "", "ü ☃", 0, 7, -1, 2**53, 2**70])
async def test_direct_replies_echo_the_msg_id_unchanged(sync_server, room, msg_id):
    async with Peers(sync_server.address) as peers:
        peer = await peers.dial()
        requests = [
            ("connect", {"token": "", "client_id": "c"}),
            ("heartbeat", {}),
            ("submit_events", {"events": [draft(room)]}),
            ("submit_event", draft(room)),
            ("submit_event", draft([])),
            ("sync", {"partitions": [room], "since_committed_id": 0}),
            ("nonsense", {}),
            ("sync", {}),
        ]
        replies = []
        for type_, payload in requests:
            await peer.send(type_, payload, msg_id=msg_id)
            replies.append(await peer.next())
        assert [reply["type"] for reply in replies] == [
            "connected",
            "heartbeat_ack",
            "submit_events_result",
            "event_committed",
            "event_rejected",
            "sync_response",
            "error",
            "error",
        ]
        assert [reply["msg_id"] for reply in replies] == [msg_id] * len(replies)


@pytest.mark.parametrize(
    "message",
    [
        envelope("heartbeat", {}, msg_id="m", protocol_version="2.0"),
        envelope("heartbeat", [], msg_id="m"),
        {"type": "heartbeat", "payload": {}, "msg_id": "m"},
    ],
    ids=["version", "payload", "no version"],
)
async def test_an_error_of_the_envelope_echoes_a_msg_id_that_can_be_read(sync_server, message):
    """Direct replies repeat the msg_id, so that a client that pipelines can tell which message was refused."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(json.dumps(message))
        reply = await peer.next()
        assert (reply["type"], reply.get("msg_id")) == ("error", "m")


async def test_a_reply_to_a_message_without_msg_id_has_none(sync_server):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send("heartbeat", {})
        assert "msg_id" not in await peer.next()


async def test_broadcasts_carry_evt_and_the_committed_id(sync_server, room):
    async with Peers(sync_server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        await origin.send("submit_events", {"events": [draft(room)]}, msg_id="mine")
        committed = (await origin.next_of("submit_events_result"))["results"][0]["committed_id"]
        assert (await peer.next())["msg_id"] == f"evt-{committed}"


async def test_every_message_of_the_server_has_a_version_and_a_time(start_thread, room):
    server = start_thread(clock_us=FakeClock(), store="memory")
    async with Peers(server.address) as peers:
        origin, peer = await peers.join(), await peers.join(room)
        await origin.send("submit_events", {"events": [draft(room)]})
        await origin.send("heartbeat", {})
        await origin.send("nonsense", {})
        await origin.send("sync", {"partitions": [room], "since_committed_id": 0})
        messages = [await origin.next() for _ in range(4)] + [await peer.next()]
        for message in messages:
            assert message.keys() <= {"type", "payload", "msg_id", "timestamp", "protocol_version"}
            assert message["protocol_version"] == "1.0"
            assert datetime.fromisoformat(message["timestamp"]).timestamp() * 1e6 == START_US
        updated = messages[0]["payload"]["results"][0]["status_updated_at"]
        assert datetime.fromisoformat(updated).timestamp() * 1e6 == START_US


async def test_connected_advertises_the_limits(sync_server):
    async with Peers(sync_server.address) as peers:
        welcome = await (await peers.dial()).connect()
        assert welcome["limits"] == {
            "message_bytes_max": MIB,
            "batch_items_max": 100,
            "drafts_max": 200,
            "messages_per_second_max": limits.SYNC_MESSAGES_S_MAX,
            "sync_limit_min": 50,
            "sync_limit_max": 1000,
        }


async def test_unknown_fields_are_ignored_everywhere(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.dial()
        more = {"x-new": {"deep": [1, None]}, "timestamp": "2023-11-14T22:13:20Z", "trace": 1}
        await peer.send("connect", {"client_id": "c", "token": "", "x": 1}, **more)
        await peer.next_of("connected")
        await peer.send("submit_events", {"events": [draft(room, x=[2])], "x": {}}, **more)
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        await peer.send("sync", {"partitions": [room], "since_committed_id": 0, "x": 1}, **more)
        [event] = (await peer.next_of("sync_response"))["events"]
        assert "x" not in event
        await peer.send("heartbeat", {"x": 1}, **more)
        await peer.next_of("heartbeat_ack")
        await peer.send("disconnect", {"x": 1}, **more)
        assert await peer.close_code() == 1000


# The order of checks: the first error is reported


NOT_JSON = [
    b"",
    b"   ",
    b"{",
    b"{}{}",
    b"{'type': 1}",
    b'{"type": "heartbeat", "payload": {}, "protocol_version": "1.0",}',
    b'{"type": "heartbeat", "payload": {}, "protocol_version": "1.0", "n": NaN}',
    b'{"type": "heartbeat", "payload": {"n": Infinity}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"n": -Infinity}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"n": 01}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"n": +1}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"t": "a\nb"}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"t": "\\x"}, "protocol_version": "1.0"}',
    b"\xef\xbb\xbf" + b'{"type": "heartbeat", "payload": {}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {}, "protocol_version": "1.0", "t": "\xff"}',
    b'{"type": "heartbeat", "payload": {"t": "\xc3"}, "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {"t": "\xed\xa0\x80"}, "protocol_version": "1.0"}',
    b"[" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
]


@pytest.mark.parametrize("text", NOT_JSON, ids=lambda text: repr(text[:90]))
async def test_invalid_json_is_a_bad_request_that_keeps_the_connection(sync_server, text):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(text)
        await expect_error(peer, "bad_request")
        await expect_open(peer)


DEEP = [
    b'{"type": "heartbeat", "payload": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b', "protocol_version": "1.0"}',
    b'{"type": "heartbeat", "payload": {}, "protocol_version": "1.0", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
]


@pytest.mark.parametrize("text", DEEP, ids=["payload", "unknown field"])
async def test_deep_nesting_in_ignored_values_keeps_the_connection(sync_server, text):
    """Before Python 3.14 the parser refuses it; later versions have the stack to skip it."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(text)
        message = await peer.next()
        assert message["type"] == "heartbeat_ack" or message["payload"]["code"] == "bad_request"
        await expect_open(peer)


@pytest.mark.parametrize("text", ["null", "1", '"text"', "true", "[]", "[{}]"])
async def test_json_that_is_not_an_object_is_a_bad_request(sync_server, text):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(text)
        await expect_error(peer, "bad_request")
        await expect_open(peer)


@pytest.mark.parametrize("field", ["type", "payload", "protocol_version"])
@pytest.mark.parametrize("value", ["absent", None, 1, [], True])
async def test_a_required_field_that_is_missing_or_of_the_wrong_type_is_a_bad_request(sync_server, field, value):
    message = envelope("heartbeat", {})
    if value == "absent":
        del message[field]
    else:
        message[field] = value
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(json.dumps(message))
        await expect_error(peer, "bad_request")
        await expect_open(peer)


@pytest.mark.parametrize("version", ["", "1", "1.1", "2.0", "1.0 ", "v1.0"])
@pytest.mark.parametrize("connected", [True, False])
async def test_another_protocol_version_closes_and_names_the_supported_ones(sync_server, version, connected):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join() if connected else await peers.dial()
        await peer.send("heartbeat", {}, protocol_version=version)
        error = await expect_error(peer, "protocol_version_unsupported")
        assert error["details"]["supported_versions"] == ["1.0"]
        assert await peer.close_code() == 1002


async def test_required_fields_are_checked_before_the_version(sync_server):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        for message in (
            {"type": "heartbeat", "protocol_version": "9.9"},
            {"type": "heartbeat", "protocol_version": "9.9", "payload": []},
            {"payload": {}, "protocol_version": "9.9"},
        ):
            await peer.send_text(json.dumps(message))
            await expect_error(peer, "bad_request")
        await expect_open(peer)


async def test_the_version_is_checked_before_the_state_and_the_type(sync_server):
    async with Peers(sync_server.address) as peers:
        for type_ in ("sync", "nonsense"):
            peer = await peers.dial()
            await peer.send(type_, {}, protocol_version="9.9")
            await expect_error(peer, "protocol_version_unsupported")
            assert await peer.close_code() == 1002


async def test_the_size_is_checked_before_anything_else(sync_server):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(b"\xff" * (MIB + 1))
        await expect_error(peer, "bad_request")
        assert await peer.close_code() == 1009


# States


@pytest.mark.parametrize("type_", ["submit_events", "submit_event", "sync", "disconnect", "nonsense", ""])
async def test_before_connect_only_connect_and_heartbeat_are_accepted(sync_server, type_):
    async with Peers(sync_server.address) as peers:
        peer = await peers.dial()
        await peer.send("heartbeat", {})
        await peer.next_of("heartbeat_ack")
        await peer.send(type_, {})
        await expect_error(peer, "bad_request")
        await peer.connect()


async def test_a_second_connect_is_a_bad_request_and_changes_nothing(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(room), await peers.join(room)
        await peer.send("connect", {"token": "", "client_id": "somebody-else"})
        await expect_error(peer, "bad_request")
        await peer.commit(draft(room))
        assert (await watcher.next_broadcasts(1))[0]["client_id"] == peer.client_id
        await watcher.commit(draft(room))
        assert len(await peer.next_broadcasts(1)) == 1


@pytest.mark.parametrize("type_", ["nonsense", "connected", "event_broadcast", "Sync", "sync ", "x" * 100_000])
async def test_an_unknown_type_is_a_bad_request(sync_server, type_):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send(type_, {})
        error = await expect_error(peer, "bad_request")
        assert len(error["message"]) < 500
        await expect_open(peer)


@pytest.mark.parametrize(
    "payload", [{}, {"client_id": ""}, {"client_id": 1}, {"client_id": "c" * 257}, {"client_id": "c", "token": 1}]
)
async def test_a_malformed_connect_is_a_bad_request_and_may_be_sent_again(sync_server, payload):
    async with Peers(sync_server.address) as peers:
        peer = await peers.dial()
        await peer.send("connect", payload)
        await expect_error(peer, "bad_request")
        await peer.connect("c" * 256)


async def test_nothing_is_processed_after_a_disconnect(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        late = json.dumps(envelope("submit_events", {"events": [draft(room)]})).encode()
        leave = json.dumps(envelope("disconnect", {})).encode()
        await peer.send_bytes(encode_frame(TEXT, leave) + encode_frame(TEXT, late))
        assert await peer.close_code() == 1000
        [after] = await watcher.commit(draft(room))
        assert [event["committed_id"] for event in (await watcher.sync([room]))["events"]] == [after]


async def test_the_replies_before_a_disconnect_are_still_sent(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send("submit_events", {"events": [draft(room)]})
        await peer.send("disconnect", {})
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        assert await peer.close_code() == 1000


async def test_an_error_that_closes_lets_the_replies_before_it_leave(sync_server, room):
    """Bad input gets an error, never just a close, and replies are sent in the order of requests."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        submit = json.dumps(envelope("submit_events", {"events": [draft(room)]})).encode()
        wrong = json.dumps(envelope("heartbeat", {}, protocol_version="9.9")).encode()
        await peer.send_bytes(encode_frame(TEXT, submit) + encode_frame(TEXT, wrong))
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        await expect_error(peer, "protocol_version_unsupported")
        assert await peer.close_code() == 1002


# Sizes and frames


def submit_of(room: str, size: int) -> bytes:
    """Return a submit message of exactly this many bytes."""
    text = json.dumps(envelope("submit_events", {"events": [draft(room, {"pad": ""})]}))
    return text.replace('"pad": ""', '"pad": "%s"' % ("x" * (size - len(text)))).encode()


async def test_a_message_of_exactly_1_mib_is_accepted(sync_server, room):
    text = submit_of(room, MIB)
    assert len(text) == MIB
    async with Peers(sync_server.address) as peers:
        peer, watcher = await peers.join(), await peers.join(room)
        await peer.send_text(text)
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        [event] = await watcher.next_broadcasts(1)
        assert set(event["event"]["pad"]) == {"x"}


@pytest.mark.parametrize("size", [MIB + 1, 5_000_000])
@pytest.mark.parametrize("connected", [True, False])
async def test_a_message_above_1_mib_is_answered_and_closes(sync_server, room, size, connected):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join() if connected else await peers.dial()
        await peer.send_text(submit_of(room, size))
        await expect_error(peer, "bad_request")
        assert await peer.close_code() == 1009
        healthy = await peers.join()
        assert (await healthy.sync([room]))["events"] == []


async def test_a_message_above_1_mib_lets_the_replies_before_it_leave(sync_server, room):
    """There is one result per request, and replies are sent in the order of requests."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send("submit_events", {"events": [draft(room)]})
        await peer.send_text(submit_of(room, MIB + 1))
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        await expect_error(peer, "bad_request")
        assert await peer.close_code() == 1009


async def test_a_message_in_fragments_is_one_message(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        text = json.dumps(envelope("submit_events", {"events": [draft(room, {"text": "☃" * 50})]})).encode()
        parts = [text[at : at + 7] for at in range(0, len(text), 7)]  # this splits characters too
        await peer.send_frame(TEXT, parts[0], fin=False)
        for part in parts[1:-1]:
            await peer.send_frame(CONTINUATION, part, fin=False)
        await peer.send_frame(PING, b"between")
        await peer.send_frame(CONTINUATION, parts[-1])
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        [event] = (await peer.sync([room]))["events"]
        assert event["event"] == {"text": "☃" * 50}


async def test_the_size_limit_applies_to_all_fragments_together(sync_server, room):
    text = submit_of(room, MIB + 1)
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_frame(TEXT, text[:600_000], fin=False)
        await peer.send_frame(CONTINUATION, text[600_000:])
        await expect_error(peer, "bad_request")
        assert await peer.close_code() == 1009


@pytest.mark.parametrize("data", [b"", b"\x00\xff", json.dumps(envelope("heartbeat", {})).encode()])
async def test_a_binary_message_is_a_bad_request(sync_server, data):
    async with Peers(sync_server.address) as peers:
        for peer in (await peers.join(), await peers.dial()):
            await peer.send_frame(BINARY, data)
            await expect_error(peer, "bad_request")
            await expect_open(peer)


async def test_the_answer_to_a_binary_message_waits_for_its_turn(sync_server, room):
    """The replies of a connection are sent in the order of requests."""
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        submit = json.dumps(envelope("submit_events", {"events": [draft(room)]})).encode()
        await peer.send_bytes(encode_frame(TEXT, submit) + encode_frame(BINARY, b"x"))
        assert [(await peer.next())["type"] for _ in range(2)] == ["submit_events_result", "error"]


async def test_other_paths_are_not_websockets(sync_server):
    for path in ("/v1/sync/", "/v1/sync/other", "/v1/stream/a"):
        with pytest.raises(ConnectionRefusedError):
            await Peer.dial(sync_server.address, path)


# Numbers and strings beyond what JSON guarantees


@pytest.mark.parametrize(
    ("event", "fits"),
    [
        ('{"n": 1e308}', True),
        ('{"n": 1e309}', False),
        ('{"n": -1e400}', False),
        ('{"n": 1%s}' % ("0" * 308), True),
        ('{"n": 1%s}' % ("0" * 309), False),
        ('{"n": [{"m": 1e999}]}', False),
        ('{"t": "\\ud83d\\ude00"}', True),
        ('{"t": "\\ud800"}', False),
        ('{"t": "\\udc00"}', False),
        ('{"t": "\\ude00\\ud83d"}', False),
        ('{"t": "\\uD83Dx"}', False),
        ('{"\\udead": 1}', False),
        ('{"t": "\\ud800\\ud83d\\ude00"}', False),
        ('{"t": "\\\\ud800"}', True),
        ('{"t": "\\ufdd0"}', True),
        ('{"t": "\\uFdD0"}', True),
        ('{"t": "\\\\uFdD0"}', True),
        ('{"t": "\\u0000"}', True),
    ],
)
async def test_an_item_without_a_canonical_form_is_validation_failed_and_others_are_not(sync_server, room, event, fits):
    before, after = draft(room, {"n": 1}), draft(room, {"n": 2})
    odd = draft(room, {})
    events = [json.dumps(item) for item in (before, odd, after)]
    events[1] = events[1].replace('"event": {}', f'"event": {event}')
    text = json.dumps(envelope("submit_events", {"events": ["HERE"]})).replace('"HERE"', ", ".join(events))
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send_text(text)
        results = (await peer.next_of("submit_events_result"))["results"]
        assert [result["id"] for result in results] == [before["id"], odd["id"], after["id"]]
        assert [result["status"] for result in results] == [
            "committed",
            "committed" if fits else "rejected",
            "committed",
        ]
        assert results[2]["committed_id"] == results[0]["committed_id"] + (2 if fits else 1)
        if not fits:
            assert results[1]["reason"] == "validation_failed"
            assert results[1]["errors"][0]["field"] == "event"
        rows = (await peer.sync([room]))["events"]
        assert [row["id"] for row in rows] == [result["id"] for result in results if result["status"] == "committed"]
        if fits:
            assert rows[1]["event"] == json.loads(event)


async def test_text_that_only_looks_like_a_lone_surrogate_is_not_refused_beside_a_real_one(sync_server, room):
    """Only that item gets validation_failed; an escaped backslash and `ud800` are six ordinary characters."""
    innocent = draft(room, {"t": "\\ud800"})
    guilty = draft(room, {"t": "\ud800"})
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        results = await peer.submit(innocent, guilty)
        assert [result["status"] for result in results] == ["committed", "rejected"]
        [row] = (await peer.sync([room]))["events"]
        assert row["event"] == innocent["event"]


async def test_a_lone_surrogate_in_a_partition_name_is_validation_failed(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        [result] = await peer.submit(draft([room, room + "\ud800"]))
        assert (result["status"], result.get("reason")) == ("rejected", "validation_failed")
        assert result["errors"][0]["field"] == "partitions"
        assert (await peer.sync([room]))["events"] == []


async def test_an_id_with_a_lone_surrogate_never_becomes_another_id(sync_server, room):
    id_ = fresh()
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await peer.send("submit_events", {"events": [draft(room, id=id_ + "\ud800")]})
        await expect_nothing_committed(peer, room)


async def test_a_sync_of_a_name_with_a_lone_surrogate_is_refused(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join(room)
        await peer.ask_sync([room, "\udfff"], subscription_partitions=["\udfff"])
        assert (await peer.next_error())["code"] in ("validation_failed", "bad_request")
        assert (await peer.sync([room]))["effective_subscriptions"] == [room]


async def submit_raw(peer: Peer, room: str, value: str) -> None:
    """Submit an event `{"n": value}` with the value inserted verbatim."""
    text = json.dumps(envelope("submit_events", {"events": [draft(room, {"n": "VALUE"})]}))
    await peer.send_text(text.replace('"VALUE"', value))


@pytest.mark.parametrize("digits", [5_000, 100_000])
async def test_an_absurd_integer_is_refused_and_nothing_is_committed(sync_server, room, digits):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await submit_raw(peer, room, "9" * digits)
        await expect_nothing_committed(peer, room)


@pytest.mark.parametrize("levels", [501, 900, 3_000])
async def test_an_event_that_is_nested_too_deeply_is_refused_and_nothing_is_committed(sync_server, room, levels):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await submit_raw(peer, room, "[" * levels + "]" * levels)
        await expect_nothing_committed(peer, room)


async def test_an_event_within_the_depth_limit_is_returned_unchanged(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        await submit_raw(peer, room, "[" * 400 + "]" * 400)
        assert (await peer.next_of("submit_events_result"))["results"][0]["status"] == "committed"
        [event] = (await peer.sync([room]))["events"]
        assert json.dumps(event["event"]) == '{"n": ' + "[" * 400 + "]" * 400 + "}"


async def test_a_connection_that_is_cut_within_a_frame_does_not_affect_others(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, healthy = await peers.join(room), await peers.join(room)
        await peer.send_bytes(encode_frame(TEXT, b"x" * 1000)[:500])
        await peer.hang_up()
        await healthy.commit(draft(room))
        assert await healthy.flush() == []


async def test_a_frame_that_violates_the_websocket_protocol_closes_only_its_connection(sync_server, room):
    async with Peers(sync_server.address) as peers:
        peer, healthy = await peers.join(), await peers.join(room)
        await peer.send_bytes(b"\x81\x05hello")  # not masked
        with pytest.raises(ConnectionEnded):
            await peer.next()
        await healthy.commit(draft(room))
        assert await healthy.flush() == []
