"""The session, message by message."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem import limits
from mainstem.client.offline.core.effects import Load, Pause, Report, Save, Send
from mainstem.client.offline.core.errors import HistoryBehind, HistoryMismatch, PartitionRefused
from mainstem.client.offline.core.records import Commit, Facts, Followed, StoreUpdate
from mainstem.client.offline.core.session import Phase, Session
from mainstem.client.sync_protocol.errors import ProtocolFault, ServerRefused, SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault
from tests.offline_client.harness import Harness
from tests.offline_client.pretend import PretendServer
from tests.support.examples import examples


@pytest.fixture
def server() -> PretendServer:
    return PretendServer()


@pytest.fixture
def harness(server) -> Harness:
    harness = Harness(server)
    harness.store.follow(["p"])
    return harness


def commit(server: PretendServer, number: int = 1, partition: str = "p") -> None:
    for _ in range(number):
        server.commit({"id": f"e{server.head}", "partitions": [partition], "event": {"n": 0}}, "other", None)


def requests(harness: Harness, type_: str) -> list[dict]:
    assert harness.line is not None
    return [message["payload"] for message in harness.line.requests if message["type"] == type_]


def text(type_: str, payload: object, **more: object) -> bytes:
    return json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0", **more}).encode()


def active(**more: int) -> Session:
    session = Session(Facts(0, 0, (Followed("p"),), 0), "me", "")
    session.open()
    session.receive(text("connected", {"server_last_committed_id": 0, "limits": more}))
    return session


# Catching up


def test_a_page_is_durable_before_the_next_one_is_requested(harness, server):
    commit(server, 5)
    harness.connect()
    while not (harness.line.out and "sync_response" in harness.line.out[0]):
        harness.step()
    harness.carry_down()
    kinds = [type(effect) for effect in harness.effects]
    assert kinds.index(Save) < kinds.index(Send)
    [save] = [effect for effect in harness.effects if isinstance(effect, Save)]
    assert (len(save.update.events), save.update.cursor) == (2, 2)


def test_only_pages_move_the_cursor(harness, server):
    commit(server, 3)
    harness.come_to_rest()
    assert harness.store.facts().cursor == 3
    commit(server, 2)
    harness.submit("p")
    harness.settle()
    assert [place for place, _ in harness.copy()] == [1, 2, 3, 4, 5, 6]
    assert harness.store.facts().cursor == 3


def test_after_many_live_events_the_cursor_catches_up(harness, server, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_RENEW_EVENTS", 10)
    harness.come_to_rest()
    for _ in range(12):
        commit(server)
        harness.settle()
    assert harness.store.facts().cursor == 10
    assert harness.session.phase is Phase.LIVE
    for _ in range(12):
        harness.submit("p")
    harness.settle()
    assert harness.store.facts().cursor == 24
    assert harness.copy() == harness.truth()


def test_the_first_sync_of_a_connection_subscribes_and_later_pages_do_not(harness, server):
    commit(server, 3)
    harness.come_to_rest()
    first, second = requests(harness, "sync")
    assert first["subscription_partitions"] == ["p"]
    assert "subscription_partitions" not in second


def test_only_an_added_partition_is_fetched_from_0(harness, server):
    commit(server, 2)
    commit(server, 3, "q")
    harness.come_to_rest()
    harness.store.follow(["q"])
    harness.effects += harness.session.follow(["q"])
    assert harness.session.phase is Phase.SYNCING
    harness.settle()
    added = requests(harness, "sync")[1:]
    assert [(request["partitions"], request["since_committed_id"]) for request in added] == [(["q"], 0), (["q"], 4)]
    assert added[0]["subscription_partitions"] == ["p", "q"]
    assert harness.copy() == harness.truth()
    commit(server, 1, "q")
    harness.settle()
    assert harness.copy() == harness.truth()


def test_fetching_a_partition_resumes_where_it_was_interrupted(harness, server):
    commit(server, 1)
    commit(server, 5, "q")
    harness.come_to_rest()
    harness.store.follow(["q"])
    harness.effects += harness.session.follow(["q"])
    while harness.store.facts().partitions[1].since != 3:
        harness.step()
    harness.restart()
    harness.come_to_rest()
    asked = [request for request in requests(harness, "sync") if request["partitions"] == ["q"]]
    assert asked[0]["since_committed_id"] == 3
    assert harness.copy() == harness.truth()


def test_a_partition_that_is_removed_and_added_again_during_its_fetch_is_fetched_from_0(harness, server):
    commit(server, 5, "q")
    commit(server, 1)
    harness.come_to_rest()
    harness.store.follow(["q"])
    harness.effects += harness.session.follow(["q"])
    while harness.store.facts().partitions[1].since != 2:
        harness.step()
    harness.store.apply([StoreUpdate(left=("q",))])
    harness.effects += harness.session.unfollow(["q"])
    harness.store.follow(["q"])
    harness.effects += harness.session.follow(["q"])
    harness.settle()
    assert harness.copy() == harness.truth()


def test_a_refused_partition_is_dropped_and_the_others_continue(harness, server):
    server.forbidden.add("secret")
    commit(server, 1, "q")
    harness.come_to_rest()
    names = ["q", "secret", "z"]
    harness.store.follow(names)
    harness.effects += harness.session.follow(names)
    harness.settle()
    [refused] = [error for error in harness.reports if isinstance(error, PartitionRefused)]
    assert refused.partition == "secret"
    assert harness.store.facts().names == {"p", "q", "z"}
    assert harness.store.facts().is_complete
    assert harness.session.phase is Phase.LIVE
    assert harness.copy() == harness.truth()


def test_a_client_that_may_not_read_its_partitions_reports_it_and_still_submits(harness, server):
    server.forbidden.add("p")
    id_ = harness.submit("q")
    harness.connect()
    for _ in range(100):
        if not (harness.effects or harness.sent or harness.line.out):
            break
        harness.step()
    [refused] = harness.reports
    assert refused.code == "forbidden"
    assert "remove the partition" in str(refused)
    assert harness.session.refused
    assert id_ in server.ids
    with pytest.raises(ServerRefused):  # after the pause: a new connection with a new token
        harness.session.resume()


# A different log


def test_a_log_that_ends_before_the_cursor_is_a_different_log(harness, server):
    commit(server, 5)
    harness.come_to_rest()
    draft = harness.submit("p")
    harness.disconnect()
    server.lose_tail(0)
    harness.come_to_rest()
    [mismatch] = harness.reports
    assert isinstance(mismatch, HistoryMismatch)
    assert harness.copy() == harness.truth() == [(1, draft)]


def test_a_page_that_ends_before_its_cursor_is_from_a_different_log():
    session = Session(Facts(9, 9, (Followed("p"),), 0), "me", "")
    session.open()
    session.receive(text("connected", {}))  # an older server does not report the head of its log
    page = {"events": [], "next_since_committed_id": 9, "sync_to_committed_id": 4, "has_more": False}
    reset, report, again = session.receive(text("sync_response", page))
    assert reset == Save(StoreUpdate(reset=True))
    assert isinstance(report, Report)
    assert isinstance(report.error, HistoryMismatch)
    assert isinstance(again, Send)
    assert json.loads(again.text)["payload"]["since_committed_id"] == 0


def test_a_log_that_may_only_lag_behind_is_tried_again():
    session = Session(Facts(9, 9, (Followed("p"),), 0), "me", "", is_certain=False)
    session.open()
    with pytest.raises(HistoryBehind, match="tries again") as behind:
        session.receive(text("connected", {"server_last_committed_id": 4}))
    assert behind.value.retryable


def test_an_event_with_another_committed_id_means_another_log(harness, server):
    """The log was lost and has grown again, so its head proves nothing."""
    commit(server, 5)
    harness.come_to_rest()
    commit(server, 1)
    harness.settle()
    harness.disconnect()
    server.lose_tail(5)
    server.commit({"id": "another", "partitions": ["p"], "event": {"n": 0}}, "other", None)
    harness.connect()
    harness.settle()
    assert harness.session is None
    harness.come_to_rest()
    assert harness.copy() == harness.truth()


# Early broadcasts


def test_broadcasts_after_the_end_of_a_cycle_wait_until_it_is_complete():
    session = active()
    early = {"id": "b", "partitions": ["p"], "committed_id": 7, "event": {}}
    assert session.receive(text("event_broadcast", early)) == []
    page = {
        "events": [{"id": "a", "partitions": ["p"], "committed_id": 2, "event": {}}],
        "next_since_committed_id": 2,
        "sync_to_committed_id": 5,
        "has_more": True,
    }
    session.receive(text("sync_response", page))
    [save] = session.receive(text("event_broadcast", early | {"id": "c", "committed_id": 4}))
    assert isinstance(save, Save)
    assert [event.committed_id for event in save.update.events] == [4], "within the cycle, it is applied at once"
    assert session.receive(text("event_broadcast", early | {"id": "d", "committed_id": 6})) == []
    last = page | {"events": [], "has_more": False}
    saves = [effect for effect in session.receive(text("sync_response", last)) if isinstance(effect, Save)]
    assert [event.committed_id for event in saves[1].update.events] == [6, 7]
    assert session.phase is Phase.LIVE


def test_an_overflowing_buffer_is_dropped_and_fetched_again(server, monkeypatch):
    monkeypatch.setattr(limits, "OFFLINE_EARLY_EVENTS_MAX", 3)
    server.keeps_quiet = False
    commit(server, 3)
    harness = Harness(server)
    harness.store.follow(["p"])
    harness.connect()
    while not harness.copy():
        harness.step()
    commit(server, 10)
    harness.settle()
    assert harness.copy() == harness.truth()


# Submitting


def test_drafts_are_sent_in_order_one_request_at_a_time(harness, server):
    sent = [harness.submit("p") for _ in range(250)]
    harness.connect()
    in_flight = 0
    while harness.step():
        in_flight = max(in_flight, sum(b'"submit_events"' in message for message in harness.sent))
    assert in_flight == 1
    assert [event["id"] for event in server.log] == sent
    assert [len(request["events"]) for request in requests(harness, "submit_events")] == [100, 100, 50]


def test_a_lost_result_is_requested_again_and_the_draft_committed_once(harness, server):
    harness.submit("p")
    harness.connect()
    while not server.log:
        harness.step()
    harness.disconnect()
    assert harness.store.facts().drafts == 1
    harness.come_to_rest()
    assert len(server.log) == 1
    assert harness.copy() == harness.truth()
    assert harness.store.facts().drafts == 0


def test_rejected_drafts_leave_the_queue_and_the_view_with_their_reasons(harness, server):
    server.forbidden.add("q")
    good, bad, forbidden = harness.submit("p"), harness.submit("p", bad=True), harness.submit("q")
    assert len(harness.views.read("p")) == 2
    harness.come_to_rest()
    found = {rejection.id: rejection for rejection in harness.store.rejections(10)}
    assert {id_: rejection.reason for id_, rejection in found.items()} == {
        bad: "validation_failed",
        forbidden: "forbidden",
    }
    assert found[bad].errors == (FieldFault("event.bad", "is bad"),)
    assert [id_ for id_, _ in harness.views.read("p")] == [good]


@pytest.mark.parametrize("details", [{"retry_after_ms": 250}, {}])
def test_the_session_waits_out_a_rate_limit(harness, server, details):
    harness.come_to_rest()
    server.complaints.append(("rate_limited", details))
    id_ = harness.submit("p")
    while not harness.pauses:
        harness.step()
    assert not server.log
    harness.settle()
    assert list(server.ids) == [id_]


def test_a_rate_limited_sync_is_requested_again(harness, server):
    commit(server, 3)
    server.complaints.append(("rate_limited", {"retry_after_ms": 100}))
    harness.come_to_rest()
    assert harness.copy() == harness.truth()


def test_a_draft_that_the_server_cannot_read_is_isolated_and_does_not_block_the_queue(harness, server):
    harness.come_to_rest()
    first, poison, last = (harness.make("p") for _ in range(3))
    harness.store.add_drafts([first, poison, last])
    server.complaints.append(("bad_request", {}))
    harness.effects += harness.session.send_drafts()
    while first.id not in server.ids:
        harness.step()
    server.complaints.append(("bad_request", {}))
    harness.settle()
    assert list(server.ids) == [first.id, last.id]
    [rejection] = harness.store.rejections(10)
    assert (rejection.id, rejection.reason) == (poison.id, "bad_request")


def test_a_draft_larger_than_the_server_accepts_is_rejected_locally(harness):
    session = active(message_bytes_max=300)
    [load] = session.send_drafts() or [Load(100, 0)]
    small, large = harness.make("p"), harness.make("p", pad="x" * 300)
    save, load = session.offer([large, small])
    assert isinstance(save, Save)
    assert [refusal.reason for refusal in save.update.refusals] == ["too_large"]
    assert isinstance(load, Load)
    [send] = session.offer([small, large])
    assert isinstance(send, Send)
    assert len(json.loads(send.text)["payload"]["events"]) == 1


def test_batches_respect_the_limit_of_the_server():
    session = Session(Facts(0, 0, (), 0), "me", "")
    session.open()
    *_, load = session.receive(text("connected", {"limits": {"batch_items_max": 7, "drafts_max": 5}}))
    assert isinstance(load, Load)
    assert load.items_max == 5


# Messages that a server must not send

PAGE = {"events": [], "next_since_committed_id": 0, "sync_to_committed_id": 0, "has_more": False}
EVENT = {"id": "a", "partitions": ["p"], "committed_id": 1, "event": {}}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff",
        b'{"type":"event_broadcast","payload":{"id":"\xff"},"protocol_version":"1.0"}',
        b"[]",
        b"{}",
        text("connected", {}),
        text("connected", {})[:-1],
        text("sync_response", PAGE)[:-20],
        json.dumps({"type": "connected", "payload": {}, "protocol_version": "2.0"}).encode(),
        text("sync_response", PAGE, msg_id="other"),
        text("sync_response", PAGE | {"has_more": True}),
        text("sync_response", PAGE | {"next_since_committed_id": "1"}),
        text("sync_response", PAGE | {"events": [EVENT | {"committed_id": 2}, EVENT], "next_since_committed_id": 2}),
        text("sync_response", PAGE | {"events": [EVENT], "next_since_committed_id": 0}),
        text("sync_response", PAGE | {"events": [EVENT, EVENT], "next_since_committed_id": 1}),
        text("event_broadcast", EVENT | {"event": []}),
        text("event_broadcast", EVENT | {"committed_id": 0}),
        text("event_broadcast", EVENT | {"committed_id": 2**53}),
        text("event_broadcast", EVENT | {"event": {"n": 0.5}}).replace(b"0.5", b"1e999"),
        text("event_broadcast", EVENT | {"partitions": []}),
        text("event_broadcast", {"id": "a"}),
        text("submit_events_result", {"results": []}),
    ],
)
def test_a_message_that_a_server_must_not_send_ends_the_connection(message):
    session = active()
    with pytest.raises(ProtocolFault) as fault:
        session.receive(message)
    assert "applied none of it" in str(fault.value)


def test_nothing_is_accepted_before_connected():
    session = Session(Facts(0, 0, (), 0), "me", "")
    session.open()
    with pytest.raises(ProtocolFault, match="before connected"):
        session.receive(text("event_broadcast", EVENT))


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{"id": "other", "status": "committed", "committed_id": 1}],
        [{"id": "draft-1", "status": "committed"}],
        [{"id": "draft-1", "status": "maybe"}],
        [{"id": "draft-1", "status": "committed", "committed_id": 1}] * 2,
    ],
)
def test_results_that_do_not_match_the_request_are_not_accepted(harness, results):
    session = active()
    session.offer([harness.make("p")])
    with pytest.raises(ProtocolFault):
        session.receive(text("submit_events_result", {"results": results}))


def test_message_types_of_a_newer_server_are_ignored():
    assert active().receive(text("something_new", {"a": 1}, other=2)) == []


@pytest.mark.parametrize("code", ["auth_failed", "server_error", "protocol_version_unsupported", "bad_request"])
def test_an_error_about_the_connection_ends_it_and_names_a_remedy(code):
    session = active()
    with pytest.raises(ServerRefused) as refused:
        session.receive(text("error", {"code": code, "message": "why"}))
    assert refused.value.code == code
    assert "why" in str(refused.value)
    assert refused.value.retryable == (code == "server_error")


def test_a_result_is_saved_before_more_drafts_are_loaded(harness):
    session = active()
    session.offer([harness.make("p")])
    results = [{"id": "draft-1", "status": "committed", "committed_id": 3, "status_updated_at": "t"}]
    save, load = session.receive(text("submit_events_result", {"results": results}))
    assert save == Save(StoreUpdate(commits=(Commit("draft-1", 3, "t"),)))
    assert isinstance(load, Load)


def test_a_rate_limited_request_pauses_for_the_given_time(harness):
    session = active()
    [send] = session.offer([harness.make("p")])
    assert isinstance(send, Send)
    msg_id = json.loads(send.text)["msg_id"]
    complaint = {"code": "rate_limited", "message": "slower", "details": {"retry_after_ms": 400}}
    report, pause = session.receive(text("error", complaint, msg_id=msg_id))
    assert isinstance(report, Report)
    assert pause == Pause(0.4)
    assert session.send_drafts() == [], "nothing is sent before that"
    assert [type(effect) for effect in session.resume()] == [Load]


# Fuzz

SEEDS = [
    text("connected", {"server_last_committed_id": 3}),
    text("sync_response", PAGE | {"events": [EVENT], "next_since_committed_id": 1, "sync_to_committed_id": 3}),
    text("event_broadcast", EVENT | {"event": {"text": "é"}}, msg_id="evt-1"),
    text("submit_events_result", {"results": [{"id": "a", "status": "rejected", "errors": [{"field": "x"}]}]}),
    text("error", {"code": "rate_limited", "message": "m", "details": {"retry_after_ms": 1}}, msg_id="2"),
]


@settings(max_examples=examples(400))
@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 400), st.integers(-1, 255)), max_size=4))
def test_whatever_comes_only_errors_of_the_client_are_raised(seed, edits):
    """A negative value removes a byte; any other value replaces it."""
    data = bytearray(seed)
    for at, value in edits:
        at %= max(1, len(data))
        data[at : at + 1] = b"" if value < 0 else bytes([value])
    for session in (active(), Session(Facts(2, 2, (), 0), "me", "")):
        try:
            session.receive(bytes(data))
        except SyncClientError:
            pass  # these errors end a connection
