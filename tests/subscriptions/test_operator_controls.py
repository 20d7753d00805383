"""What operators see of a subscription, and how they pause, resume and redeliver it."""

from urllib.parse import quote

import pytest

from mainstem import limits
from mainstem.testing.clock import FakeClock
from mainstem.testing.server_thread import ServerThread
from mainstem.timestamps import format_time
from tests.support.subscribers import ROOT, Subscriber, WakeStream, append, create
from tests.support.waits import eventually
from tests.support.webhook_receivers import DONE, FAILED, TAKEN

BEGINNING = "0000000000000000_0000000000000000"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def restart(start_thread, connect_to, clock, hasty, tmp_path):
    """Start the server, or restart it on the same data with the clock at the same time."""
    servers: list[ServerThread] = []

    def start():
        if servers:
            servers[-1].stop()
        servers.append(start_thread(data=str(tmp_path / "kept"), clock_us=clock, allow_local_webhooks=True))
        return Subscriber(connect_to(servers[-1]), "sub")

    return start


@pytest.fixture(params=["sqlite", "memory"])
def timed(request, start_thread, connect_to, clock, hasty):
    """A subscription on a server that uses the clock of the test."""
    server = start_thread(clock_us=clock, allow_local_webhooks=True, store=request.param)
    return Subscriber(connect_to(server), "sub")


@pytest.fixture
def prove_that_wakes_are_sent(receive):
    """Wait until another subscription has received a new wake, so that anything else due before it was sent, too."""

    def prove(client):
        witness = receive(lambda call: DONE)
        Subscriber(client, "witness").listen(witness.url, pattern="witnessed")
        append(client, "witnessed")
        witness.next()
        assert Subscriber(client, "witness").delete().status_code == 204

    return prove


def fail_once(subscriber, receiver):
    """Let the first call of a wake fail, so that the subscription waits for the next attempt."""
    append(subscriber.client, "a")
    call = receiver.next()
    eventually(lambda: subscriber.describe()["status"] == "failed")
    return call


# What operators see


def test_a_new_subscription_has_no_wake_and_no_error(client, subscriber, path, receive):
    subscriber.listen(receive().url, pattern=path + "/*")
    found = subscriber.inspect()
    assert found.pop("created_at").endswith("Z")
    assert found == {
        "subscription_id": subscriber.name,
        "type": "webhook",
        "pattern": path + "/*",
        "webhook_url": found["webhook_url"],
        "wake_stream": None,
        "owner": None,
        "status": "active",
        "paused": False,
        "generation": 0,
        "wake_id": None,
        "holder": None,
        "lease_until": None,
        "attempts": 0,
        "next_attempt_at": None,
        "last_error": None,
        "unacknowledged_since": None,
        "streams": [],
        "streams_truncated": False,
    }


def test_a_claimed_wake_shows_its_holder_its_lease_and_the_lag_of_each_stream(timed, clock):
    WakeStream(timed.client, "wakes")
    old = create(timed.client, "e/old", b"history")
    timed.pull("wakes", pattern="e/*", streams=["later"], lease_ttl_ms=30_000)
    end = create(timed.client, "e/1", b"0123456789")
    create(timed.client, "e/2", b"x")
    claim = timed.claimed("ann")
    found = timed.inspect()
    assert (found["holder"], found["wake_id"], found["generation"]) == ("ann", claim["wake_id"], 1)
    assert found["unacknowledged_since"] == format_time(clock())
    assert found["lease_until"] == format_time(clock() + 30_000_000)
    assert timed.ack(claim, {"e/1": end[:-2] + "04"}).status_code == 200
    assert found["streams_truncated"] is False
    assert timed.cursors() == {
        "e/1": cursor("e/1", "glob", end[:-2] + "04", end, 6),
        "e/2": cursor("e/2", "glob", BEGINNING, BEGINNING[:-1] + "1", 1),
        "e/old": cursor("e/old", "glob", old, old, 0),
        "later": cursor("later", "explicit", BEGINNING, None, 0),
    }
    create(timed.client, "later", b"12")
    assert timed.cursors()["later"]["lag_bytes"] == 2
    timed.client.delete(ROOT + "e/1")
    assert timed.cursors()["e/1"]["next_offset"] is None


def cursor(path, kind, acked, end, lag):
    return {"path": path, "type": kind, "acked_offset": acked, "next_offset": end, "lag_bytes": lag}


def test_streams_with_new_data_are_shown_when_there_are_too_many(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr(limits, "LISTED_CURSORS_MAX", 3)
    subscriber = Subscriber(connect_to(start_thread()), "sub")
    client = subscriber.client
    WakeStream(client, "wakes")
    for number in range(5):
        create(client, f"e/{number}")
    subscriber.pull("wakes", pattern="e/*")
    subscriber.control("pause")  # so that no wake stores a link
    append(client, "e/4")
    eventually(lambda: "e/4" in subscriber.cursors())
    found = subscriber.inspect()
    assert ([stream["path"] for stream in found["streams"]], found["streams_truncated"]) == (
        ["e/0", "e/1", "e/4"],
        True,
    )
    monkeypatch.setattr(limits, "LISTED_CURSORS_MAX", 5)
    found = subscriber.inspect()
    assert (len(found["streams"]), found["streams_truncated"]) == (5, False)
    monkeypatch.setattr(limits, "CURSORS_SCANNED_MAX", 1)
    monkeypatch.setattr(limits, "SCAN_PAGE", 2)
    found = subscriber.inspect()
    assert ([stream["path"] for stream in found["streams"]], found["streams_truncated"]) == (
        ["e/0", "e/1", "e/4"],
        True,
    )


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ((500, b"secret"), "the receiver responded with status 500"),
        ((301, b"secret"), "the receiver responded with status 301"),
    ],
)
def test_the_latest_failure_is_shown_without_the_body_of_the_reply(timed, clock, receive, reply, reason):
    receiver = receive(lambda call: reply)
    timed.listen(receiver.url, pattern="*")
    fail_once(timed, receiver)
    found = timed.inspect()
    assert found["last_error"]["reason"] == reason
    assert (found["attempts"], found["lease_until"], found["status"]) == (1, None, "failed")
    assert found["next_attempt_at"] > found["last_error"]["at"]
    assert "secret" not in timed.client.get("/v1/subscriptions").text
    receiver.answer = lambda call: TAKEN
    clock.advance(2)
    receiver.next()
    eventually(lambda: timed.inspect()["last_error"] is None)
    assert timed.inspect()["attempts"] == 0


def test_the_list_shows_the_same_as_one_subscription(timed, receive):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="*")
    fail_once(timed, receiver)
    (listed,) = timed.client.get("/v1/subscriptions").json()["subscriptions"]
    found = timed.inspect()
    assert found | listed == found
    assert set(found) - set(listed) == {"streams", "streams_truncated"}


# Pause and resume


def test_a_paused_webhook_is_not_called_until_it_is_resumed(timed, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: DONE)
    timed.listen(receiver.url, pattern="a")
    timed.control("pause")
    timed.control("pause")
    assert (timed.inspect()["status"], timed.describe()["status"]) == ("paused", "paused")
    tail = append(timed.client, "a")
    prove_that_wakes_are_sent(timed.client)
    assert receiver.calls.empty()
    assert timed.inspect()["streams"][0]["lag_bytes"] == 4
    timed.control("resume")
    assert receiver.next().streams["a"]["tail_offset"] == tail
    eventually(lambda: timed.acked("a") == tail)
    timed.control("resume")
    assert timed.inspect()["status"] == "active"


def test_a_retry_waits_for_the_end_of_a_pause(timed, clock, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="a")
    first = fail_once(timed, receiver)
    timed.control("pause")
    clock.advance(60)
    prove_that_wakes_are_sent(timed.client)
    assert receiver.calls.empty()
    assert (timed.inspect()["status"], timed.inspect()["attempts"]) == ("paused", 1)
    timed.control("resume")
    assert receiver.next().wake["wake_id"] == first.wake["wake_id"]


def test_a_pause_survives_a_restart(restart, clock, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: FAILED)
    subscriber = restart().listen(receiver.url, pattern="a")
    first = fail_once(subscriber, receiver)
    subscriber.control("pause")
    subscriber = restart()
    found = subscriber.inspect()
    assert (found["paused"], found["last_error"]["reason"]) == (True, "the receiver responded with status 500")
    clock.advance(60)
    prove_that_wakes_are_sent(subscriber.client)
    assert receiver.calls.empty()
    subscriber = restart()
    subscriber.control("resume")
    assert receiver.next().wake["wake_id"] == first.wake["wake_id"]


def test_data_from_before_a_restart_is_delivered_after_the_pause(restart, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: DONE)
    subscriber = restart().listen(receiver.url, pattern="a")
    subscriber.control("pause")
    tail = append(subscriber.client, "a")
    subscriber = restart()
    prove_that_wakes_are_sent(subscriber.client)
    assert receiver.calls.empty()
    subscriber.control("resume")
    assert receiver.next().streams["a"]["tail_offset"] == tail


def test_a_receiver_may_finish_during_a_pause_and_no_wake_follows(timed, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: TAKEN)
    timed.listen(receiver.url, pattern="a")
    first = append(timed.client, "a")
    call = receiver.next()
    timed.control("pause")
    append(timed.client, "a")
    reply = timed.callback(call.wake, {"a": first}, done=True)
    assert (reply.status_code, reply.json()) == (200, {"ok": True, "next_wake": False})
    assert timed.acked("a") == first
    prove_that_wakes_are_sent(timed.client)
    assert receiver.calls.empty()
    timed.control("resume")
    assert receiver.next().streams["a"]["acked_offset"] == first


def test_a_paused_pull_wake_refuses_claims_and_sends_its_wake_again_when_it_is_resumed(timed):
    wakes = WakeStream(timed.client, "wakes")
    timed.pull("wakes", pattern="e/*")
    append(timed.client, "e/1")
    assert wakes.next()["generation"] == 1
    timed.control("pause")
    refused = timed.claim()
    assert (refused.status_code, refused.json()["code"]) == (409, "subscription_paused")
    assert refused.json()["error"]["code"] == "SUBSCRIPTION_PAUSED"
    timed.control("resume")
    assert wakes.next()["generation"] == 2
    assert timed.finish(timed.claimed()) is False


def test_a_call_that_waits_for_its_turn_is_not_made_during_a_pause(start_thread, connect_to, receive, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOKS_PER_HOST_AT_ONCE", 1)
    client = connect_to(start_thread(allow_local_webhooks=True))
    receiver = receive()
    receiver.hold(DONE)
    Subscriber(client, "first").listen(receiver.url, pattern="a")
    append(client, "a")
    receiver.next()
    second = Subscriber(client, "second").listen(receiver.url, pattern="b")
    append(client, "b")
    eventually(lambda: second.inspect()["generation"] == 1)
    second.control("pause")
    receiver.released.set()
    eventually(lambda: second.inspect()["wake_id"] is None)
    assert receiver.calls.empty()
    second.control("resume")
    assert receiver.next().wake["subscription_id"] == "second"


# Redeliver


def test_redelivery_during_the_back_off_calls_at_once_and_starts_its_count_again(timed, clock, receive):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="*")
    first = fail_once(timed, receiver)
    for delay_s in (1, 2, 4):
        clock.advance(delay_s * 1.21)
        receiver.next()
        eventually(lambda: timed.describe()["status"] == "failed")
    timed.control("redeliver")
    again = receiver.next()
    assert again.wake["generation"] == first.wake["generation"] + 1
    assert again.streams == first.streams
    eventually(lambda: timed.inspect()["attempts"] == 1)
    receiver.answer = lambda call: DONE
    timed.control("redeliver")
    assert receiver.next().wake["generation"] == 3
    eventually(lambda: timed.acked("a") == first.streams["a"]["tail_offset"])
    assert timed.inspect()["last_error"] is None


def test_redelivery_fences_a_worker_and_wakes_another(timed):
    wakes = WakeStream(timed.client, "wakes")
    timed.pull("wakes", pattern="e/*")
    tail = append(timed.client, "e/1")
    wakes.next()
    claim = timed.claimed("ann")
    timed.control("redeliver")
    late = timed.ack(claim, {"e/1": tail}, done=True)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
    assert wakes.next()["generation"] == 2
    assert timed.claimed("bob")["streams"] == claim["streams"]


def test_redelivery_of_what_is_acknowledged_sends_nothing(timed, receive, prove_that_wakes_are_sent):
    receiver = receive(lambda call: DONE)
    timed.listen(receiver.url, pattern="a")
    tail = append(timed.client, "a")
    receiver.next()
    eventually(lambda: timed.acked("a") == tail)
    timed.control("redeliver")
    prove_that_wakes_are_sent(timed.client)
    assert receiver.calls.empty()


@pytest.mark.parametrize("explicit", [False, True])
def test_a_cursor_that_was_moved_back_is_delivered_again(timed, receive, explicit):
    receiver = receive(lambda call: DONE)
    timed.listen(receiver.url, **({"streams": ["a"]} if explicit else {"pattern": "*"}))
    middle = append(timed.client, "a", b"first")
    tail = append(timed.client, "a", b"second")
    eventually(lambda: timed.acked("a") == tail)
    while not receiver.calls.empty():
        receiver.next()
    for offset, acked in ((middle, middle), ("-1", BEGINNING)):
        timed.control("redeliver", stream="a", offset=offset)
        told = receiver.next().streams["a"]
        assert (told["acked_offset"], told["tail_offset"]) == (acked, tail)
        eventually(lambda: timed.acked("a") == tail)


def test_history_from_before_a_subscription_can_be_delivered_even_after_a_restart(restart, receive):
    subscriber = restart()
    tail = create(subscriber.client, "a", b"history")
    receiver = receive(lambda call: DONE)
    subscriber.listen(receiver.url, pattern="*")
    subscriber.control("pause")
    subscriber.control("redeliver", stream="a", offset="-1")
    assert subscriber.cursors()["a"]["lag_bytes"] == 7
    subscriber = restart()
    subscriber.control("resume")
    told = receiver.next().streams["a"]
    assert (told["acked_offset"], told["tail_offset"]) == (BEGINNING, tail)
    eventually(lambda: subscriber.acked("a") == tail)


# Requests that are refused


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"stream": "a", "offset": "nonsense"}, "invalid_ack_offset"),
        ({"stream": "a", "offset": "now"}, "invalid_ack_offset"),
        ({"stream": "a", "offset": "0000000000000000_0000000000000009"}, "invalid_ack_offset"),
        ({"stream": "a", "offset": "0000000000000007_0000000000000000"}, "invalid_ack_offset"),
        ({"stream": "e/missing", "offset": "-1"}, "invalid_ack_offset"),
        ({"stream": "other", "offset": "-1"}, "invalid_request"),
        ({"stream": "../a", "offset": "-1"}, "invalid_request"),
        ({"stream": "", "offset": "-1"}, "invalid_request"),
        ({"stream": "a"}, "invalid_request"),
        ({"offset": "-1"}, "invalid_request"),
        ({"stream": 7, "offset": "-1"}, "invalid_request"),
        ([], "invalid_request"),
    ],
)
def test_a_redelivery_that_is_not_possible_is_refused_and_changes_nothing(timed, body, code):
    WakeStream(timed.client, "wakes")
    timed.pull("wakes", pattern="e/*", streams=["a"])
    append(timed.client, "a")
    timed.claimed()
    before = timed.inspect()
    refused = timed.client.post("/v1/subscriptions/sub/redeliver", json=body)
    assert (refused.status_code, refused.json()["code"]) == (400, code)
    assert timed.inspect() == before


def test_a_body_that_is_not_json_or_too_large_is_refused(client, subscriber, path):
    subscriber.pull(path + "/wakes", pattern=path + "/*")
    url = f"/v1/subscriptions/{subscriber.name}/redeliver"
    assert client.post(url, content=b"{").json()["code"] == "invalid_request"
    assert client.post(url, content=b" " * (limits.CONTROL_BODY_BYTES_MAX + 1)).status_code == 413


@pytest.mark.parametrize("action", ["pause", "resume", "redeliver"])
def test_a_subscription_that_does_not_exist_is_not_found(client, action):
    refused = client.post(f"/v1/subscriptions/nobody/{action}")
    assert (refused.status_code, refused.json()["code"]) == (404, "subscription_not_found")


@pytest.mark.parametrize(
    ("method", "target", "status", "code"),
    [
        ("GET", "nobody", 404, "subscription_not_found"),
        ("GET", "a%2Fb", 404, "subscription_not_found"),
        ("GET", "%ff", 400, "invalid_path"),
        ("GET", "%zz", 400, "invalid_path"),
        ("GET", "x" * 257, 400, "invalid_request"),
        ("GET", "%00", 404, "subscription_not_found"),
        ("POST", "nobody/stop", 404, "not_found"),
        ("POST", "nobody/pause/", 404, "not_found"),
        ("POST", "", 404, "not_found"),
        ("POST", "nobody", 405, "method_not_allowed"),
        ("GET", "nobody/pause", 405, "method_not_allowed"),
        ("DELETE", "nobody", 405, "method_not_allowed"),
    ],
)
def test_other_requests_are_refused(client, method, target, status, code):
    refused = client.request(method, "/v1/subscriptions/" + target)
    assert (refused.status_code, refused.json()["code"]) == (status, code)


def test_an_id_of_any_characters_can_be_controlled(client, path):
    name = "ü *?" + path.replace("/", "-")
    url = f"{ROOT}__ds/subscriptions/{quote(name, safe='')}"
    made = client.put(url, json={"type": "pull-wake", "pattern": path + "/*", "wake_stream": path + "/wakes"})
    assert made.status_code == 201
    control = "/v1/subscriptions/" + url.rpartition("/")[2]
    assert client.post(control + "/pause").status_code == 204
    assert (client.get(control).json()["subscription_id"], client.get(control).json()["paused"]) == (name, True)
