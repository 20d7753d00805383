"""Pull-wake end to end: the wake stream, claims, acknowledgements, leases and releases."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem.testing.clock import FakeClock
from tests.support.subscribers import ROOT, Subscriber, WakeStream, append, create
from tests.support.waits import eventually

BEGINNING = "0000000000000000_0000000000000000"


def test_a_wake_is_a_message_and_a_claim_returns_its_work(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    tail = append(client, path + "/e/1")
    message = wakes.next()
    assert {name: value for name, value in message.items() if name != "ts"} == {
        "type": "wake",
        "subscription_id": subscriber.name,
        "stream": path + "/e/1",
        "generation": 1,
    }
    assert isinstance(message["ts"], int)
    wake = subscriber.claimed()
    assert wake["generation"] == message["generation"]
    assert wake["lease_ttl_ms"] == 30_000
    assert wake["streams"] == [
        {
            "path": path + "/e/1",
            "link_type": "glob",
            "acked_offset": BEGINNING,
            "tail_offset": tail,
            "has_pending": True,
        }
    ]
    assert subscriber.finish(wake) is False
    assert subscriber.links()[path + "/e/1"] == ("glob", tail)


def test_only_one_of_many_workers_claims_the_wake(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    wakes.next()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(subscriber.claim, [f"worker-{number}" for number in range(16)]))
    assert sorted(reply.status_code for reply in replies) == [200] + [409] * 15
    refused = [reply.json()["error"] for reply in replies if reply.status_code == 409]
    assert {error["code"] for error in refused} == {"ALREADY_CLAIMED"}
    assert len({error["current_holder"] for error in refused}) == 1


def test_a_burst_of_appends_is_one_wake(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    for number in range(20):
        append(client, f"{path}/e/{number % 4}")
    assert wakes.next()["generation"] == 1
    assert subscriber.finish(subscriber.claimed()) is False
    append(client, path + "/e/1")
    assert wakes.next()["generation"] == 2


def test_data_that_arrives_while_a_wake_is_held_wakes_after_it(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    wakes.next()
    wake = subscriber.claimed()
    append(client, path + "/e/1")
    append(client, path + "/e/2")
    assert subscriber.finish(wake) is True
    assert wakes.next()["generation"] == 2
    again = subscriber.claimed()
    assert {stream["path"] for stream in again["streams"]} == {path + "/e/1", path + "/e/2"}
    assert subscriber.finish(again) is False


def test_a_release_wakes_again_and_moves_no_cursor(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    for generation in (1, 2, 3):
        assert wakes.next()["generation"] == generation
        wake = subscriber.claimed()
        assert subscriber.act("release", wake).status_code == 204
        assert subscriber.acked(path + "/e/1") == BEGINNING


def test_acknowledging_a_part_leaves_the_rest_pending(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    part = append(client, path + "/e/1", b"first")
    append(client, path + "/e/1", b"second")
    wakes.next()
    assert subscriber.ack(subscriber.claimed(), {path + "/e/1": part}, done=True).json()["next_wake"] is True
    wakes.next()
    wake = subscriber.claimed()
    assert wake["streams"][0]["acked_offset"] == part
    read = client.get(f"{ROOT}{path}/e/1?offset={part}")
    assert read.content == b"second"
    assert subscriber.finish(wake) is False


def test_cursors_never_go_back(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    first = append(client, path + "/e/1")
    second = append(client, path + "/e/1")
    wake = subscriber.claimed()
    for offset in (second, first, BEGINNING):
        assert subscriber.ack(wake, {path + "/e/1": offset}).status_code == 200
        assert subscriber.acked(path + "/e/1") == second


def test_a_wake_stream_that_is_created_later_gets_the_wake_after_a_lease(start_thread, connect_to, hasty):
    clock = FakeClock()
    client = connect_to(start_thread(clock_us=clock))
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*", lease_ttl_ms=1000)
    append(client, "e/1")
    eventually(lambda: subscriber.describe()["generation"] == 1)
    wakes = WakeStream(client, "wakes")
    clock.advance(1)
    assert wakes.next()["generation"] == 2


def test_an_expired_lease_fences_its_worker_and_wakes_again(start_thread, connect_to, hasty):
    clock = FakeClock()
    client = connect_to(start_thread(clock_us=clock))
    wakes = WakeStream(client, "wakes")
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*", lease_ttl_ms=10_000)
    tail = append(client, "e/1")
    wakes.next()
    wake = subscriber.claimed("ann")
    clock.advance(9)
    assert subscriber.ack(wake).status_code == 200  # a heartbeat
    clock.advance(9)
    assert subscriber.claim("bob").status_code == 409
    clock.advance(1)
    assert wakes.next()["generation"] == 2
    late = subscriber.ack(wake, {"e/1": tail}, done=True)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
    assert subscriber.acked("e/1") == BEGINNING
    assert subscriber.finish(subscriber.claimed("bob")) is False


def test_a_wake_with_many_streams_is_sent_in_parts_until_all_are_delivered(start_thread, connect_to, monkeypatch):
    monkeypatch.setattr("mainstem.limits.WAKE_STREAMS_MAX", 3)
    client = connect_to(start_thread(long_poll_ms=2000))
    wakes = WakeStream(client, "wakes")
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*")
    told = set()
    append(client, "e/0")
    wake = subscriber.claimed()
    for number in range(10):
        append(client, f"e/{number}")
    while subscriber.finish(wake):
        wakes.next()
        wake = subscriber.claimed()
        assert len(wake["streams"]) <= 3
        told |= {stream["path"] for stream in wake["streams"]}
    assert told == {f"e/{number}" for number in range(10)}


def test_a_worker_that_heard_of_more_may_claim_at_once(start_thread, connect_to, monkeypatch):
    """Even if the streams that were just acknowledged would fill a whole wake."""
    monkeypatch.setattr("mainstem.limits.WAKE_STREAMS_MAX", 3)
    client = connect_to(start_thread())
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*")
    for number in range(10):
        append(client, f"e/{number}")
    told, more = set(), True
    while more:
        wake = subscriber.claimed()
        told |= {stream["path"] for stream in wake["streams"]}
        more = subscriber.finish(wake)
    assert told == {f"e/{number}" for number in range(10)}


@pytest.mark.parametrize("ending", ["release", "ack"])
def test_streams_that_a_worker_does_not_acknowledge_do_not_keep_others_out_of_the_next_wake(
    start_thread, connect_to, monkeypatch, ending
):
    monkeypatch.setattr("mainstem.limits.WAKE_STREAMS_MAX", 3)
    client = connect_to(start_thread())
    subscriber = Subscriber(client, "sub").pull("wakes", pattern="e/*")
    paths = {f"e/{number}" for number in range(8)}
    for path in paths:
        append(client, path)
    offered = set()
    for _ in range(3):
        wake = subscriber.claimed()
        offered |= {stream["path"] for stream in wake["streams"]}
        subscriber.act(ending, wake, done=ending == "ack")
    assert offered == paths


# Links that change while data is pending


def test_adding_a_stream_that_the_pattern_has_linked_keeps_what_is_pending(client, subscriber, path, wakes):
    """Adding a linked stream is idempotent (protocol section 6.4), even if its offset was never requested."""
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    wake = subscriber.claimed()
    tail = append(client, path + "/e/2", b"pending")
    assert subscriber.links()[path + "/e/2"] == ("glob", BEGINNING)
    client.post(subscriber.url + "/streams", json={"streams": [path + "/e/2"]})
    assert subscriber.links()[path + "/e/2"] == ("explicit", BEGINNING)
    assert subscriber.finish(wake) is True
    (told,) = subscriber.claimed()["streams"]
    assert (told["path"], told["acked_offset"], told["tail_offset"]) == (path + "/e/2", BEGINNING, tail)


def test_a_removed_stream_does_not_wake_even_if_it_was_pending(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, streams=[path + "/a", path + "/b"])
    append(client, path + "/a")
    wakes.next()
    client.delete(f"{subscriber.url}/streams/{path}/a")
    refused = subscriber.claim()
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NO_PENDING_WORK")
    assert list(subscriber.links()) == [path + "/b"]


def test_a_reused_id_inherits_nothing(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*", streams=[path + "/x"])
    append(client, path + "/e/1")
    append(client, path + "/x")
    wakes.next()
    subscriber.finish(subscriber.claimed())
    assert len(subscriber.links()) == 2
    subscriber.delete()
    subscriber.pull(wakes.path, pattern=path + "/f/*")
    assert subscriber.links() == {}
    append(client, path + "/e/1")
    append(client, path + "/x")
    append(client, path + "/f/1")
    message = wakes.next()
    assert (message["generation"], message["stream"]) == (1, path + "/f/1")


def test_a_deleted_stream_is_no_longer_pending(client, subscriber, path, wakes):
    subscriber.pull(wakes.path, pattern=path + "/e/*")
    append(client, path + "/e/1")
    wakes.next()
    client.delete(f"{ROOT}{path}/e/1")
    refused = subscriber.claim()
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NO_PENDING_WORK")


# No wake is lost


@pytest.mark.parametrize("seed", range(3))
def test_everything_is_delivered_whatever_the_order_of_appends_and_acknowledgements(start_thread, connect_to, seed):
    """Several subscriptions to the same streams, with concurrent workers and a writer: every offset reaches the end."""
    client = connect_to(start_thread(long_poll_ms=100))
    chance = random.Random(seed)
    streams = [f"e/{number}" for number in range(3)]
    tails = {stream: create(client, stream) for stream in streams}
    stops = [WakeStream(client, f"wakes/{number}") for number in range(3)]
    subscribers = [
        Subscriber(client, f"sub-{number}").pull(wakes.path, pattern="e/*") for number, wakes in enumerate(stops)
    ]

    def write() -> None:
        for _ in range(60):
            stream = chance.choice(streams)
            tails[stream] = append(client, stream)

    def work(subscriber: Subscriber, wakes: WakeStream) -> None:
        """Claim only after a wake. End when the writer has finished and everything was delivered."""
        told: dict[str, str] = {}

        def is_told() -> bool:
            more = wakes.poll() is not None
            while more:
                claim = subscriber.claim()
                if claim.status_code == 409:
                    assert claim.json()["error"]["code"] == "NO_PENDING_WORK"
                    break
                told.update({stream["path"]: stream["tail_offset"] for stream in claim.json()["streams"]})
                more = subscriber.finish(claim.json())
            return writing.done() and told == tails

        eventually(is_told)

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write)
        working = [pool.submit(work, *pair) for pair in zip(subscribers, stops, strict=True)]
        for job in [writing, *working]:
            job.result()
    for subscriber in subscribers:
        assert {name: acked for name, (_, acked) in subscriber.links().items()} == tails
