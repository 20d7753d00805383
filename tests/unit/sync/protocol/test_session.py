"""The server's session without I/O: allowed messages, the order of replies, cycles, broadcasts, and closing."""

import json

import pytest

from mainstem import limits
from mainstem.access import EVERYBODY, Identity
from mainstem.errors import Forbidden, Overloaded, StoreUnusable, SyncBadRequest, SyncError, Unavailable
from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.sync.commands import Result
from mainstem.sync.protocol.cycles import SyncPage
from mainstem.sync.protocol.effects import (
    AwaitReplies,
    CatchUp,
    Close,
    Decode,
    FeedFromLog,
    PendingReply,
    ReadPage,
    Send,
    SubmitDrafts,
    Subscribe,
    Unsubscribe,
    VerifyToken,
    WatchExpiry,
)
from mainstem.sync.protocol.feed import ReadEvents
from mainstem.sync.protocol.messages import OversizeMessage, encode_stored, parse_envelope
from mainstem.sync.protocol.requests import decode_request
from mainstem.sync.protocol.session import Session, SessionOptions, State

NOW_US = 1_700_000_000_000_000
NOW_S = NOW_US / 1_000_000
NUMBER = 7
ANN = Identity(client_id="ann", partitions=frozenset({"a", "b"}), expires_at_s=NOW_S + 60)


def text(type_, payload, msg_id="m"):
    message = {"type": type_, "payload": payload, "protocol_version": "1.0"}
    return json.dumps(message if msg_id is None else message | {"msg_id": msg_id}).encode()


def say(session, type_, payload, msg_id="m", now_us=NOW_US):
    """Pass a message, and its decoded payload if the session asks for it."""
    effects = session.receive(*parse_envelope(text(type_, payload, msg_id)), now_us)
    if effects and isinstance(effects[0], Decode):
        [decode] = effects
        effects = session.decoded(decode_request(decode.envelope, decode.placeholder), now_us)
    return list(effects)


def sent(effects):
    """Return the type, msg_id and payload of the messages among the effects."""
    messages = [json.loads(effect.payload) for effect in effects if isinstance(effect, Send)]
    return [(message["type"], message.get("msg_id"), message["payload"]) for message in messages]


def types(effects):
    return [type(effect) for effect in effects]


def error_code(effects):
    [(type_, _, payload)] = sent(effects)
    assert type_ == "error"
    return payload["code"]


def fresh_session(**options):
    return Session(NUMBER, SessionOptions(**options))


def active_session(identity=EVERYBODY, head=0, **options):
    session = fresh_session(**options)
    say(session, "connect", {"client_id": "ann"})
    session.verified(identity, NOW_US)
    session.caught_up(head, NOW_US)
    assert session.state is State.ACTIVE
    return session


def draft(event_id="1", partition="a"):
    return {"id": event_id, "partitions": [partition], "event": {}}


def submit(session, *ids, msg_id="m", single=False) -> PendingReply:
    """Submit events and return the reply, with the drafts in the log's queue."""
    drafts = [draft(event_id) for event_id in ids]
    type_, payload = ("submit_event", drafts[0]) if single else ("submit_events", {"events": drafts})
    [effect] = say(session, type_, payload, msg_id)
    assert isinstance(effect, SubmitDrafts)
    assert effect.reply.drafts == len(ids)
    session.submitted(effect.reply)
    return effect.reply


def committed(event_id, committed_id):
    return Result(event_id, "committed", NOW_US, committed_id)


def record(committed_id, *partitions, origin=0):
    data = encode_stored(f"e{committed_id}", "bob", partitions, b"{}")
    return Record(
        CommittedId(committed_id), NOW_US, Kind.EVENT, TopicId(0), 0, 0, 1, data, tags=partitions, origin=origin
    )


def page_of(read, *records, has_more=False):
    next_since = records[-1].committed_id if records else read.since
    return SyncPage(read.cycle, list(records), next_since, has_more, [], [], (), 0)


def ask(session, partitions, since=0, head=0, **fields) -> tuple[list, ReadPage]:
    """Send a `sync` and return the effects before its page is read, and the read."""
    request = {"partitions": partitions, "since_committed_id": since} | fields
    assert say(session, "sync", request) == [AwaitReplies()]
    assert session.replies_sent() == (CatchUp(),)
    *before, read = session.caught_up(head, NOW_US)
    assert isinstance(read, ReadPage)
    return before, read


# Connecting


def test_connect_verifies_the_token_then_catches_up_then_answers():
    session = fresh_session()
    assert say(session, "connect", {"client_id": "ann", "token": "t"}, "c") == [VerifyToken("t")]
    assert session.verified(ANN, NOW_US) == (CatchUp(),)
    states = [session.state]
    effects = session.caught_up(5, NOW_US)
    states.append(session.state)
    assert states == [State.AWAIT_CONNECT, State.ACTIVE]
    assert types(effects) == [WatchExpiry, Send]
    assert effects[0].expires_at_s == ANN.expires_at_s
    [(type_, msg_id, payload)] = sent(effects)
    assert (type_, msg_id) == ("connected", "c")
    assert (payload["client_id"], payload["server_last_committed_id"]) == ("ann", 5)
    assert payload["event_ids"] == "any"


def test_a_server_that_accepts_only_uuids_says_so():
    session = fresh_session(uuids_only=True)
    say(session, "connect", {"client_id": "ann"})
    session.verified(EVERYBODY, NOW_US)
    [(_, _, payload)] = sent(session.caught_up(0, NOW_US))
    assert payload["event_ids"] == "uuid"


@pytest.mark.parametrize(
    "identity",
    [
        Identity(client_id="bob"),
        Identity(subject="ann"),
        Identity(client_id="ann", expires_at_s=NOW_S - 1),
    ],
    ids=["another client", "no client", "expired"],
)
def test_a_token_that_does_not_match_ends_the_connection(identity):
    session = fresh_session()
    say(session, "connect", {"client_id": "ann"}, "c")
    effects = session.verified(identity, NOW_US)
    assert error_code(effects) == "auth_failed"
    assert effects[-1] == Close(1008, "auth_failed")
    assert session.state is State.CLOSED


@pytest.mark.parametrize(
    ("error", "code", "close"),
    [(Forbidden("no"), "auth_failed", 1008), (Unavailable("no keys"), "server_error", 1011)],
)
def test_a_token_that_cannot_be_verified_ends_the_connection(error, code, close):
    session = fresh_session()
    say(session, "connect", {"client_id": "ann"}, "c")
    effects = session.verification_failed(error, NOW_US)
    assert error_code(effects) == code
    assert effects[-1] == Close(close, code)


def test_a_client_that_does_not_connect_in_time_is_closed_and_a_late_verification_changes_nothing():
    session = fresh_session()
    say(session, "connect", {"client_id": "ann"})
    effects = session.connect_timed_out(NOW_US)
    assert error_code(effects) == "auth_failed"
    assert effects[-1] == Close(1008, "auth_failed")
    assert session.verified(EVERYBODY, NOW_US) == ()
    assert session.caught_up(0, NOW_US) == ()
    assert session.state is State.CLOSED


# Allowed messages


@pytest.mark.parametrize("type_", ["submit_events", "submit_event", "sync", "disconnect"])
def test_before_connect_only_heartbeats_are_accepted(type_):
    session = fresh_session()
    effects = session.receive(*parse_envelope(text(type_, {}, "x")), NOW_US)
    assert sent(effects) == [("error", "x", {"code": "bad_request", "message": f"send connect before {type_}"})]
    assert types(effects) == [Send]
    assert sent(say(session, "heartbeat", {}, "h")) == [("heartbeat_ack", "h", {})]


def test_a_second_connect_and_unknown_types_are_refused_and_the_connection_stays_open():
    session = active_session()
    for type_, detail in [
        ("connect", "connect was already sent on this connection"),
        (
            "dance",
            "'dance' is not a message type; "
            "use one of connect, disconnect, heartbeat, submit_event, submit_events, sync",
        ),
    ]:
        effects = session.receive(*parse_envelope(text(type_, {})), NOW_US)
        assert sent(effects) == [("error", "m", {"code": "bad_request", "message": detail})]
        assert session.state is State.ACTIVE


def test_the_payload_of_a_refused_type_is_not_decoded():
    effects = fresh_session().receive(*parse_envelope(text("sync", {"partitions": 5})), NOW_US)
    assert types(effects) == [Send]


def test_a_message_after_the_token_expired_ends_the_connection():
    session = active_session(ANN)
    effects = say(session, "heartbeat", {}, "h", now_us=NOW_US + 60_000_000)
    assert sent(effects) == [
        ("error", "h", {"code": "auth_failed", "message": "the token has expired; connect again with a new one"})
    ]
    assert effects[-1] == Close(1008, "auth_failed")


def test_a_token_that_expires_ends_the_connection_even_in_the_middle_of_a_sync():
    session = active_session(ANN)
    _, read = ask(session, ["a"])
    effects = session.token_expired(NOW_US)
    assert sent(effects) == [
        ("error", None, {"code": "auth_failed", "message": "the token has expired; connect again with a new one"})
    ]
    assert session.page_read(page_of(read), NOW_US) == ()


# Errors that keep the connection open, and errors that close it


@pytest.mark.parametrize(
    ("error", "code", "close"),
    [
        (SyncBadRequest("no"), "bad_request", None),
        (Overloaded("later"), "rate_limited", None),
        (StoreUnusable("broken"), "server_error", 1011),
        (SyncError("unexpected"), "server_error", 1011),
        (OversizeMessage(), "bad_request", 1009),
    ],
)
def test_failures_are_answered_and_only_some_end_the_connection(error, code, close):
    session = active_session()
    effects = session.fail(error, "x", NOW_US)
    assert error_code(effects) == code
    assert sent(effects)[0][1] == "x"
    assert list(effects[1:]) == ([] if close is None else [Close(close, code)])
    assert session.state is (State.ACTIVE if close is None else State.CLOSED)


def test_a_retryable_error_says_when_to_retry():
    [(_, _, payload)] = sent(active_session().fail(Overloaded("later"), "x", NOW_US))
    assert payload["details"] == {"retry_after_ms": limits.RETRY_AFTER_S * 1000}


def test_an_unreadable_message_is_answered_with_its_id_if_that_could_be_read():
    session = fresh_session()
    for message, msg_id in [
        (b"{", None),
        (b'{"type": 1, "payload": {}, "protocol_version": "1.0", "msg_id": "x"}', "x"),
    ]:
        with pytest.raises(SyncBadRequest) as caught:
            parse_envelope(message)
        [(_, found, _)] = sent(session.fail(caught.value, None, NOW_US))
        assert found == msg_id


# Submits and the order of replies


def test_replies_are_sent_in_the_order_of_requests_whatever_is_committed_first():
    session = active_session()
    first, second = submit(session, "1", msg_id="s1"), submit(session, "2", msg_id="s2")
    assert say(session, "heartbeat", {}, "h") == []
    third = submit(session, "3", msg_id="s3")
    assert session.replies_waiting == 4
    assert session.committed(second, (committed("2", 2),), NOW_US) == []
    effects = session.committed(first, (committed("1", 1),), NOW_US)
    assert [msg_id for _, msg_id, _ in sent(effects)] == ["s1", "s2", "h"]
    assert session.replies_waiting == 1
    assert [msg_id for _, msg_id, _ in sent(session.committed(third, (), NOW_US))] == ["s3"]
    assert session.replies_waiting == 0


def test_refusals_wait_for_the_submits_before_them_too():
    session = active_session()
    reply = submit(session, "1", msg_id="s")
    assert say(session, "connect", {"client_id": "ann"}, "c") == []
    effects = session.committed(reply, (committed("1", 1),), NOW_US)
    assert [type_ for type_, _, _ in sent(effects)] == ["submit_events_result", "error"]


def test_an_error_that_ends_the_connection_is_sent_after_the_waiting_replies():
    session = active_session(ANN)
    reply = submit(session, "1", msg_id="s")
    assert session.token_expired(NOW_US) == [Close(1008, "auth_failed")]
    effects = session.committed(reply, (committed("1", 1),), NOW_US)
    assert [type_ for type_, _, _ in sent(effects)] == ["submit_events_result", "error"]


def test_a_singular_submit_of_the_older_protocol_gets_its_own_replies():
    session = active_session()
    reply = submit(session, "1", single=True)
    [(type_, _, payload)] = sent(session.committed(reply, (committed("1", 4),), NOW_US))
    assert (type_, payload["id"], payload["committed_id"]) == ("event_committed", "1", 4)
    reply = submit(session, "2", single=True)
    rejected = Result("2", "rejected", NOW_US, None, "forbidden")
    [(type_, _, payload)] = sent(session.committed(reply, (rejected,), NOW_US))
    assert (type_, payload["reason"]) == ("event_rejected", "forbidden")


@pytest.mark.parametrize(
    ("error", "code", "closes"),
    [
        (Overloaded("later"), "rate_limited", False),
        (StoreUnusable("broken"), "server_error", True),
        (ValueError("a bug"), "server_error", True),
    ],
)
def test_a_failed_submit_is_answered_in_its_turn(error, code, closes):
    session = active_session()
    first, second = submit(session, "1", msg_id="s1"), submit(session, "2", msg_id="s2")
    effects = session.submit_failed(second, error, NOW_US)
    assert list(effects) == ([Close(1011, code)] if closes else [])
    effects = session.committed(first, (committed("1", 1),), NOW_US)
    replies = sent(effects)
    assert [msg_id for _, msg_id, _ in replies] == ["s1", "s2"]
    assert replies[1][2]["code"] == code


# Cycles


def test_a_sync_waits_for_the_submits_before_it_then_catches_up_then_reads():
    session = active_session()
    reply = submit(session, "1")
    assert say(session, "sync", {"partitions": ["a"], "since_committed_id": 0}) == [AwaitReplies()]
    session.committed(reply, (committed("1", 1),), NOW_US)
    assert session.replies_sent() == (CatchUp(),)
    [read] = session.caught_up(1, NOW_US)
    assert isinstance(read, ReadPage)
    assert (read.cycle.partitions, read.cycle.until, read.since, read.limit) == (("a",), 1, 0, limits.SYNC_PAGE)


def test_the_pages_of_a_cycle_have_one_end_and_the_last_starts_the_feed():
    session = active_session()
    _, read = ask(session, ["b", "a", "a"], head=10, subscription_partitions=["a"])
    assert read.cycle.partitions == ("a", "b")
    effects = session.page_read(page_of(read, record(1, "a"), has_more=True), NOW_US)
    assert types(effects) == [Send]
    assert sent(effects)[0][2]["effective_subscriptions"] == ["a"]
    before, read = ask(session, ["a", "b"], since=1, head=20)
    assert before == []
    assert read.cycle.until == 10, "the log has grown, but the cycle has not"
    effects = session.page_read(page_of(read, record(9, "b")), NOW_US)
    assert types(effects) == [Send, FeedFromLog]
    [(type_, msg_id, payload)] = sent(effects)
    assert (type_, msg_id, payload["next_since_committed_id"]) == ("sync_response", "m", 9)
    assert session.feed.cycle is None


@pytest.mark.parametrize(("partitions", "since"), [(["a"], 1), (["a", "b"], 0)])
def test_a_request_that_does_not_continue_the_cycle_begins_another(partitions, since):
    session = active_session()
    _, read = ask(session, ["a", "b"], head=10)
    session.page_read(page_of(read, record(1, "a"), has_more=True), NOW_US)
    _, read = ask(session, partitions, since=since, head=20)
    assert (read.cycle.began_since, read.cycle.until) == (since, 20)


def test_a_sync_replaces_the_subscriptions_and_one_without_any_keeps_them():
    session = active_session()
    before, _ = ask(session, ["a"], subscription_partitions=["a", "b"])
    assert before == [Subscribe(["a", "b"]), Unsubscribe([])]
    before, _ = ask(session, ["a"], subscription_partitions=["b", "c"])
    assert before == [Subscribe(["c"]), Unsubscribe(["a"])]
    before, _ = ask(session, ["a"])
    assert before == []
    assert list(session.feed.subscriptions) == ["b", "c"]


def test_in_core_mode_a_sync_subscribes_to_its_partitions_unless_it_says_otherwise():
    session = active_session(implicit_subscriptions=True)
    before, _ = ask(session, ["a"])
    assert before == [Subscribe(["a"]), Unsubscribe([])]
    before, _ = ask(session, ["a"], subscription_partitions=[])
    assert before == [Subscribe([]), Unsubscribe(["a"])]


@pytest.mark.parametrize(
    "request_", [{"partitions": ["c"]}, {"partitions": ["a"], "subscription_partitions": ["a", "c"]}]
)
def test_a_sync_for_ungranted_partitions_is_refused_and_changes_nothing(request_):
    session = active_session(ANN)
    effects = say(session, "sync", request_ | {"since_committed_id": 0})
    assert error_code(effects) == "forbidden"
    assert session.state is State.ACTIVE
    assert session.feed.live
    assert session.feed.subscriptions == {}


@pytest.mark.parametrize("fails_before_page", [True, False])
def test_after_a_failed_sync_the_session_continues(fails_before_page):
    session = active_session()
    if fails_before_page:
        say(session, "sync", {"partitions": ["a"], "since_committed_id": 0})
        session.replies_sent()
    else:
        ask(session, ["a"])
    assert error_code(session.fail(Unavailable("the database is away"), "m", NOW_US)) == "rate_limited"
    _, read = ask(session, ["a"], head=3)
    assert types(session.page_read(page_of(read), NOW_US)) == [Send, FeedFromLog]
    session.fail(Unavailable("again"), "m", NOW_US)
    say(session, "disconnect", {})
    assert session.replies_sent() == (Close(1000, ""),)


# Broadcasts


def subscribed_session(*partitions, head=0):
    session = active_session(head=head)
    _, read = ask(session, [], head=head, subscription_partitions=list(partitions))
    session.page_read(page_of(read), NOW_US)
    assert session.feed.next_read(head) is None
    assert session.feed.live
    return session


def feed(session, head, *records):
    """Read the log up to `head` and return the ids that are sent."""
    read = session.feed.next_read(head)
    assert read is not None
    messages = session.feed.events_read(read, records)
    return [payload["committed_id"] for _, _, payload in sent(messages)]


def test_a_live_session_takes_the_broadcasts_of_others_but_not_its_own():
    session = subscribed_session("a")
    assert session.takes(record(1, "a", origin=NUMBER + 1))
    assert session.takes(record(2, "a"))
    assert not session.takes(record(3, "a", origin=NUMBER))


def test_during_a_cycle_no_broadcast_is_taken_and_events_come_from_the_log_afterwards():
    session = subscribed_session("a", head=5)
    _, read = ask(session, ["a"], since=5, head=5)
    assert not session.takes(record(6, "a"))
    assert session.feed.next_read(6) is None, "not before the last page"
    session.page_read(page_of(read), NOW_US)
    assert session.feed.next_read(6) == ReadEvents(["a"], CommittedId(5), CommittedId(6))
    assert feed(session, 6, record(6, "a")) == [6]
    assert session.feed.next_read(6) is None
    assert session.takes(record(7, "a"))


def test_a_reader_that_fell_behind_gets_later_events_from_the_log():
    session = subscribed_session("a")
    assert session.fell_behind(3) == (FeedFromLog(),)
    assert not session.takes(record(4, "a"))
    assert feed(session, 9, record(4, "a"), record(6, "a")) == [4, 6]
    assert feed(session, 9) == []
    assert session.feed.next_read(9) is None
    assert session.takes(record(10, "a"))


def test_its_own_events_are_not_read_back_from_the_log():
    session = subscribed_session("a")
    session.fell_behind(3)
    session.committed(submit(session, "x"), (committed("x", 5),), NOW_US)
    assert feed(session, 6, record(4, "a"), record(5, "a"), record(6, "a")) == [4, 6]


def test_events_from_before_a_subscription_are_left_out():
    session = subscribed_session("a")
    session.fell_behind(3)
    _, read = ask(session, [], head=6, subscription_partitions=["a", "b"])
    session.page_read(page_of(read), NOW_US)
    assert feed(session, 9, record(4, "a"), record(5, "b"), record(7, "b")) == [4, 7]


def test_only_events_that_were_on_pages_are_skipped_even_if_a_cycle_was_abandoned():
    session = subscribed_session("a", "b")
    session.fell_behind(3)
    _, read = ask(session, ["a"], since=3, head=9)
    session.page_read(page_of(read, record(4, "a"), has_more=True), NOW_US)
    _, read = ask(session, ["b"], since=6, head=9)
    session.page_read(page_of(read, record(8, "b")), NOW_US)
    events = [record(4, "a"), record(5, "b"), record(6, "a"), record(7, "a"), record(8, "b"), record(9, "a")]
    assert feed(session, 9, *events) == [5, 6, 7, 9]


def test_events_that_were_read_when_a_cycle_began_are_read_again_after_it():
    session = subscribed_session("a")
    session.fell_behind(3)
    read = session.feed.next_read(5)
    _, page = ask(session, [], head=5)
    assert session.feed.events_read(read, [record(4, "a")]) == []
    session.page_read(page_of(page), NOW_US)
    assert feed(session, 5, record(4, "a"), record(5, "a")) == [4, 5]


def test_a_feed_that_fails_ends_the_connection():
    session = subscribed_session("a")
    assert session.feed_failed(SyncError("broken")) == (Close(1011, "server_error"),)
    assert session.state is State.CLOSED


# Ending


def test_disconnect_closes_when_the_replies_before_it_have_been_sent():
    session = active_session()
    reply = submit(session, "1")
    assert say(session, "disconnect", {}) == [AwaitReplies()]
    assert session.state is State.CLOSED
    assert types(session.committed(reply, (committed("1", 1),), NOW_US)) == [Send]
    assert session.replies_sent() == (Close(1000, ""),)


def test_a_message_that_is_decoded_after_the_connection_ended_does_nothing():
    session = active_session(ANN)
    [decode] = session.receive(*parse_envelope(text("submit_events", {"events": [draft()]})), NOW_US)
    session.token_expired(NOW_US)
    assert session.decoded(decode_request(decode.envelope, decode.placeholder), NOW_US) == ()


def test_a_lost_connection_is_unsubscribed():
    session = subscribed_session("a", "b")
    assert session.disconnected() == (Unsubscribe(["a", "b"]),)
    assert session.state is State.CLOSED


def test_a_server_that_stops_closes_without_an_error():
    session = active_session()
    assert session.shut_down() == (Close(1000, ""),)


def test_an_administrator_disconnects_a_session_after_its_pending_replies():
    session = active_session()
    reply = submit(session, "1")
    disconnected = (Close(1008, "disconnected by an administrator"),)
    assert session.expel() == disconnected
    assert session.state is State.CLOSED
    effects = session.committed(reply, [committed("1", 1)], NOW_US)
    assert [type_ for type_, _, _ in sent(effects)] == ["submit_events_result"]
    assert session.expel() == disconnected


def test_a_client_that_is_disconnected_while_its_token_is_verified_does_not_connect():
    session = fresh_session()
    assert types(say(session, "connect", {"client_id": "ann"})) == [VerifyToken]
    session.expel()
    assert session.verified(ANN, NOW_US) == ()
    assert session.identity == Identity()
