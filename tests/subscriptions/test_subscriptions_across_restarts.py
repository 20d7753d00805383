"""Subscriptions and their wakes survive a kill: wakes are sent again, and offsets move only by acknowledgements."""

import pytest

from mainstem.testing.clock import FakeClock
from mainstem.testing.server_thread import ServerThread
from tests.support.subscribers import ROOT, Subscriber, WakeStream, append, create
from tests.support.waits import eventually
from tests.support.webhook_receivers import DONE, FAILED, TAKEN

pytestmark = pytest.mark.slow

BEGINNING = "0000000000000000_0000000000000000"


def test_a_webhook_that_was_sent_before_a_kill_is_sent_again(start_server, connect_to, receive):
    server = start_server("--allow-local-webhooks")
    client = connect_to(server)
    receiver = receive(lambda call: TAKEN)
    old = create(client, "e/old", b"history")
    Subscriber(client, "sub").listen(receiver.url, pattern="e/*", streams=["x"], lease_ttl_ms=1000)
    keys = client.get(ROOT + "__ds/jwks.json").json()
    tail = append(client, "e/1")
    first = receiver.next()
    server.kill()
    server.start()
    client = connect_to(server)
    subscriber = Subscriber(client, "sub")
    again = receiver.next()
    assert again.wake["generation"] > first.wake["generation"]
    assert again.streams["e/1"]["acked_offset"] == BEGINNING
    assert again.streams["e/1"]["tail_offset"] == tail
    assert subscriber.links() == {
        "e/1": ("glob", BEGINNING),
        "e/old": ("glob", old),
        "x": ("explicit", BEGINNING),
    }
    assert client.get(ROOT + "__ds/jwks.json").json() == keys
    assert again.headers["webhook-signature"].split(",")[1] == f"kid={keys['keys'][0]['kid']}"
    late = subscriber.callback(first.wake, {"e/1": tail}, done=True)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
    # The worker may be slow and its lease short, so the latest wake must end it.
    receiver.answer = lambda call: DONE
    eventually(lambda: subscriber.acked("e/1") == tail)


def test_a_claim_before_a_kill_holds_until_its_lease_ends(start_server, connect_to):
    server = start_server()
    client = connect_to(server)
    WakeStream(client, "wakes")
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*", lease_ttl_ms=600_000)
    first = append(client, "e/1")
    wake = subscriber.claimed("ann")
    assert subscriber.ack(wake, {"e/1": first}).status_code == 200
    second = append(client, "e/1")
    server.kill()
    server.start()
    client = connect_to(server)
    subscriber = Subscriber(client, "sub")
    refused = subscriber.claim("bob")
    assert refused.json()["error"] | {"message": ""} == {
        "code": "ALREADY_CLAIMED",
        "message": "",
        "current_holder": "ann",
        "generation": 1,
    }
    assert subscriber.acked("e/1") == first
    ended = subscriber.ack(wake, {"e/1": second}, done=True)  # the token is still valid
    assert (ended.status_code, ended.json()) == (200, {"ok": True, "next_wake": False})


def test_data_appended_right_before_a_kill_wakes_after_it(start_server, connect_to):
    server = start_server()
    client = connect_to(server)
    wakes = WakeStream(client, "wakes")
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*")
    for number in range(3):
        append(client, f"e/{number}")
        server.kill()
        server.start()
        wakes.client = client = subscriber.client = connect_to(server)
        assert wakes.next()["subscription_id"] == "sub"
        wake = subscriber.claimed()
        assert [stream["path"] for stream in wake["streams"]] == [f"e/{number}"]
        assert subscriber.finish(wake) is False


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


def test_a_planned_retry_survives_a_restart_with_its_time_and_its_count(restart, clock, receive):
    receiver = receive(lambda call: FAILED)
    subscriber = restart().listen(receiver.url, pattern="*")
    append(subscriber.client, "a")
    first = receiver.next()
    for delay_s in (1, 2, 4):
        eventually(lambda subscriber=subscriber: subscriber.describe()["status"] == "failed")
        clock.advance(delay_s * 1.21)
        receiver.next()
    eventually(lambda: subscriber.describe()["status"] == "failed")
    subscriber = restart()
    assert subscriber.describe()["status"] == "failed"
    clock.advance(8 * 0.79)
    other = receive(lambda call: DONE)
    Subscriber(subscriber.client, "other").listen(other.url, pattern="b")
    append(subscriber.client, "b")
    other.next()  # deliveries have resumed
    assert receiver.calls.empty()
    clock.advance(8 * 0.42)
    again = receiver.next()
    assert (again.wake["wake_id"], again.wake["generation"]) == (first.wake["wake_id"], 1)
    eventually(lambda: subscriber.describe()["status"] == "failed")
    clock.advance(16 * 0.79)
    assert receiver.calls.empty()  # the count did not start again
    clock.advance(16 * 0.42)
    receiver.next()


def test_a_lease_survives_a_restart_with_its_end_time(restart, clock, receive):
    receiver = receive(lambda call: TAKEN)
    subscriber = restart().listen(receiver.url, pattern="*", lease_ttl_ms=10_000)
    append(subscriber.client, "a")
    first = receiver.next()
    clock.advance(9)
    subscriber = restart()
    assert subscriber.callback(first.wake).status_code == 200  # the token and the wake are still valid
    clock.advance(9)
    subscriber = restart()
    assert subscriber.describe()["generation"] == 1
    clock.advance(1)
    assert receiver.next().wake["generation"] == 2


def test_links_of_a_deleted_subscription_are_not_restored(restart, receive):
    receiver = receive(lambda call: DONE)
    subscriber = restart().listen(receiver.url, pattern="e/*", streams=["x"])
    tail = append(subscriber.client, "e/1")
    receiver.next()
    eventually(lambda: subscriber.acked("e/1") == tail)
    subscriber.delete()
    subscriber = restart()
    assert subscriber.client.get(subscriber.url).status_code == 404
    subscriber.listen(receiver.url, pattern="f/*")
    assert subscriber.links() == {}


def test_a_rotated_key_survives_a_restart(restart):
    subscriber = restart()
    subscriber.client.post(ROOT + "__ds/keys/rotate")
    keys = subscriber.client.get(ROOT + "__ds/jwks.json").json()
    assert len(keys["keys"]) == 2
    assert restart().client.get(ROOT + "__ds/jwks.json").json() == keys
