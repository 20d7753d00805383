"""Webhooks end to end: what triggers them, what they receive, and how a wake ends."""

from base64 import urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mainstem import limits
from mainstem.testing.clock import FakeClock
from tests.support.subscribers import ROOT, Subscriber, append, create
from tests.support.waits import eventually
from tests.support.webhook_receivers import DONE, FAILED, TAKEN

BEGINNING = "0000000000000000_0000000000000000"


# What triggers a wake


def test_data_from_before_the_subscription_does_not_wake_and_its_stream_is_linked_at_its_end(
    client, subscriber, path, receive
):
    old = create(client, path + "/old", b"history")
    receiver = receive(lambda call: DONE)
    subscriber.listen(receiver.url, pattern=path + "/*")
    assert subscriber.links() == {path + "/old": ("glob", old)}
    append(client, path + "/new")
    call = receiver.next()
    assert list(call.streams) == [path + "/new"]
    assert call.wake["generation"] == 1  # nothing arrived before it
    eventually(lambda: subscriber.acked(path + "/new") == call.streams[path + "/new"]["tail_offset"])
    tail = append(client, path + "/old", b"news")
    told = receiver.next().streams[path + "/old"]
    assert (told["acked_offset"], told["tail_offset"], told["has_pending"]) == (old, tail, True)


def test_a_stream_that_is_created_later_wakes_from_its_beginning(client, subscriber, path, receive):
    receiver = receive()
    subscriber.listen(receiver.url, pattern=path + "/**")
    tail = create(client, path + "/deep/new", b"first content")
    call = receiver.next()
    assert call.wake["subscription_id"] == subscriber.name
    assert call.wake["streams"] == [
        {
            "path": path + "/deep/new",
            "link_type": "glob",
            "acked_offset": BEGINNING,
            "tail_offset": tail,
            "has_pending": True,
        }
    ]


def test_an_empty_stream_wakes_nobody(client, subscriber, path, receive):
    receiver = receive()
    subscriber.listen(receiver.url, pattern=path + "/*")
    create(client, path + "/empty")
    append(client, path + "/full")
    assert list(receiver.next().streams) == [path + "/full"]


def test_a_live_read_of_a_fork_wakes_for_its_own_appends(client, subscriber, path, receive):
    create(client, path + "/source", b"inherited")
    receiver = receive(lambda call: DONE)
    subscriber.listen(receiver.url, pattern=path + "/e/*")
    forked = client.put(f"{ROOT}{path}/e/fork", headers={"stream-forked-from": f"{ROOT}{path}/source"})
    tail = append(client, path + "/e/fork", b"own")
    told = receiver.next().streams[path + "/e/fork"]
    assert (told["acked_offset"], told["tail_offset"]) == (forked.headers["stream-next-offset"], tail)


def test_streams_outside_the_pattern_do_not_wake(client, subscriber, path, receive):
    receiver = receive()
    subscriber.listen(receiver.url, pattern=path + "/e/*")
    for other in ("/f/1", "/e/1/2", "/e"):
        append(client, path + other)
    append(client, path + "/e/1")
    call = receiver.next()
    assert list(call.streams) == [path + "/e/1"]
    assert call.wake["generation"] == 1


def test_an_explicit_link_takes_precedence_and_then_the_pattern_and_the_offset_remain(
    client, subscriber, path, receive
):
    receiver = receive(lambda call: DONE)
    stream = path + "/e/1"
    subscriber.listen(receiver.url, pattern=path + "/e/*", streams=[stream])
    append(client, stream)
    call = receiver.next()
    assert call.streams[stream]["link_type"] == "explicit"
    tail = call.streams[stream]["tail_offset"]
    eventually(lambda: subscriber.links() == {stream: ("explicit", tail)})
    assert client.delete(f"{subscriber.url}/streams/{stream}").status_code == 204
    assert subscriber.links() == {stream: ("glob", tail)}
    append(client, stream)
    call = receiver.next()
    assert call.streams[stream]["link_type"] == "glob"
    assert call.streams[stream]["acked_offset"] == tail


def test_a_stream_that_was_deleted_and_created_again_wakes_from_its_new_beginning(client, subscriber, path, receive):
    receiver = receive(lambda call: DONE)
    subscriber.listen(receiver.url, pattern=path + "/*")
    first = append(client, path + "/e", b"a long first life")
    receiver.next()
    eventually(lambda: subscriber.acked(path + "/e") == first)
    client.delete(f"{ROOT}{path}/e")
    second = create(client, path + "/e", b"short")
    told = receiver.next().streams[path + "/e"]
    assert told["tail_offset"] == second > first


# How a wake ends


def test_done_acknowledges_what_was_sent_and_later_data_wakes_again(client, subscriber, path, receive):
    receiver = receive()
    receiver.hold(DONE)
    subscriber.listen(receiver.url, pattern=path + "/*")
    first = append(client, path + "/a")
    one = receiver.next()
    later = append(client, path + "/a")
    other = append(client, path + "/b")
    receiver.released.set()
    two = receiver.next()
    assert one.streams[path + "/a"]["tail_offset"] == first
    assert one.wake["generation"] == 1
    assert two.wake["generation"] == 2
    assert two.wake["wake_id"] != one.wake["wake_id"]
    assert {name: (told["acked_offset"], told["tail_offset"]) for name, told in two.streams.items()} == {
        path + "/a": (first, later),
        path + "/b": (BEGINNING, other),
    }
    eventually(lambda: subscriber.links() == {path + "/a": ("glob", later), path + "/b": ("glob", other)})


def test_done_still_counts_for_other_streams_if_one_was_removed_meanwhile(client, subscriber, path, receive):
    receiver = receive()
    receiver.hold(DONE)
    subscriber.listen(receiver.url, pattern=path + "/e/*", streams=[path + "/x"], lease_ttl_ms=600_000)
    append(client, path + "/x")
    assert list(receiver.next().streams) == [path + "/x"]
    client.delete(f"{subscriber.url}/streams/{path}/x")
    receiver.released.set()
    append(client, path + "/e/1")
    assert list(receiver.next().streams) == [path + "/e/1"]  # and not only after the lease has expired


def test_a_callback_acknowledges_and_keeps_the_wake_until_it_is_done(client, subscriber, path, receive):
    receiver = receive()
    subscriber.listen(receiver.url, pattern=path + "/*")
    first = append(client, path + "/a")
    wake = receiver.next().wake
    assert wake["callback_url"].endswith(f"/__ds/subscriptions/{subscriber.name}/callback")
    headers = {"authorization": f"Bearer {wake['callback_token']}"}
    body = {"wake_id": wake["wake_id"], "generation": 1, "acks": [{"stream": path + "/a", "offset": first}]}
    kept = client.post(wake["callback_url"], json=body, headers=headers)
    assert (kept.status_code, kept.json()) == (200, {"ok": True, "next_wake": False})
    assert subscriber.acked(path + "/a") == first
    second = append(client, path + "/a")  # a wake is active, so this waits for its end
    ended = client.post(wake["callback_url"], json=body | {"done": True}, headers=headers)
    assert ended.json() == {"ok": True, "next_wake": True}
    again = receiver.next()
    assert again.wake["generation"] == 2
    assert again.streams[path + "/a"]["acked_offset"] == first
    assert again.streams[path + "/a"]["tail_offset"] == second
    stale = client.post(wake["callback_url"], json=body, headers=headers)
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "FENCED")
    assert subscriber.finish(again.wake, "callback") is False


def test_streams_that_a_callback_does_not_acknowledge_do_not_keep_others_out_of_the_next_call(
    start_thread, connect_to, receive, monkeypatch
):
    monkeypatch.setattr(limits, "WAKE_STREAMS_MAX", 3)
    subscriber = Subscriber(connect_to(start_thread(allow_local_webhooks=True)), "sub")
    receiver = receive()
    subscriber.listen(receiver.url, pattern="e/*")
    paths = {f"e/{number}" for number in range(8)}
    for path in paths:
        append(subscriber.client, path)
    offered = set()
    for _ in range(4):  # the first call may come before all streams have data
        call = receiver.next()
        offered |= set(call.streams)
        subscriber.callback(call.wake, done=True)
    assert offered == paths


def test_a_callback_url_works_with_any_id(client, path, receive):
    receiver = receive()
    for name in ("a b", "a?b", "a#b", "100%41", "ü"):
        encoded = "".join(f"%{byte:02X}" for byte in f"{name}-{path.replace('/', '-')}".encode())
        Subscriber(client, encoded).listen(receiver.url, pattern=f"{path}/{encoded[1:3]}/*")
        append(client, f"{path}/{encoded[1:3]}/1")
    for _ in range(5):
        wake = receiver.next().wake
        headers = {"authorization": f"Bearer {wake['callback_token']}"}
        body = {"wake_id": wake["wake_id"], "generation": wake["generation"], "done": True}
        ended = client.post(wake["callback_url"], json=body, headers=headers)
        assert ended.status_code == 200, (wake["callback_url"], ended.text)


@pytest.mark.parametrize(
    "answer",
    [b"", b"ok", b"null", b'{"done": false}', b'{"done": "true"}', b'{"done": 1}', b"[true]", b"\xff", b"[" * 50_000],
)
def test_an_answer_without_done_is_only_a_receipt(client, subscriber, path, receive, answer):
    receiver = receive(lambda call: (200, answer))
    subscriber.listen(receiver.url, pattern=path + "/*", lease_ttl_ms=600_000)
    append(client, path + "/a")
    wake = receiver.next().wake
    assert subscriber.acked(path + "/a") == BEGINNING
    assert subscriber.finish(wake, "callback") is False
    assert subscriber.describe()["status"] == "active"


# Signatures


def test_a_wake_is_signed_with_the_published_key(client, subscriber, path, receive):
    receiver = receive()
    subscriber.listen(receiver.url, pattern=path + "/*")
    append(client, path + "/a")
    call = receiver.next()
    fields = dict(field.split("=", 1) for field in call.headers["webhook-signature"].split(","))
    keys = {key["kid"]: key["x"] for key in client.get(ROOT + "__ds/jwks.json").json()["keys"]}
    public = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(keys[fields["kid"]] + "="))
    signature = urlsafe_b64decode(fields["ed25519"] + "=" * (-len(fields["ed25519"]) % 4))
    public.verify(signature, fields["t"].encode() + b"." + call.body)
    assert call.headers["content-type"] == "application/json"


def test_a_rotated_key_signs_new_wakes_and_the_old_one_stays_published(start_thread, connect_to, receive):
    client = connect_to(start_thread(allow_local_webhooks=True))
    receiver = receive(lambda call: DONE)
    Subscriber(client, "sub").listen(receiver.url, pattern="*")
    old = client.get(ROOT + "__ds/jwks.json").json()["keys"]
    rotated = client.post(ROOT + "__ds/keys/rotate").json()["kid"]
    keys = client.get(ROOT + "__ds/jwks.json").json()["keys"]
    assert [key["kid"] for key in keys] == [rotated, old[0]["kid"]]
    append(client, "a")
    assert f"kid={rotated}," in receiver.next().headers["webhook-signature"]


# Failures, leases and retries, with a clock that the test advances


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def timed(start_thread, connect_to, clock, hasty):
    """A subscription on a server that uses the clock of the test."""
    return Subscriber(connect_to(start_thread(clock_us=clock, allow_local_webhooks=True)), "sub")


def test_a_failed_call_is_retried_as_the_same_wake_with_backoff(timed, clock, receive):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="*")
    append(timed.client, "a")
    first = receiver.next()
    for delay_s in (1, 2, 4, 8, 16, 32, 60, 60):
        eventually(lambda: timed.describe()["status"] == "failed")
        clock.advance(delay_s * 0.79)  # not yet, given 20 % of jitter
        assert timed.describe()["status"] == "failed"
        assert receiver.calls.empty()
        clock.advance(delay_s * 0.42)
        again = receiver.next()
        same = ("wake_id", "generation", "streams", "callback_token")
        assert {name: again.wake[name] for name in same} == {name: first.wake[name] for name in same}
    receiver.answer = lambda call: DONE
    eventually(lambda: timed.describe()["status"] == "failed")
    clock.advance(72)
    receiver.next()
    eventually(lambda: timed.acked("a") == first.streams["a"]["tail_offset"])
    assert timed.describe()["status"] == "active"
    receiver.answer = lambda call: FAILED
    append(timed.client, "a")
    assert receiver.next().wake["generation"] == 2
    eventually(lambda: timed.describe()["status"] == "failed")
    clock.advance(1.21)  # after a success, the delays start again
    receiver.next()


@pytest.mark.parametrize("reply", [(301, b""), (400, b'{"done": true}'), (404, b""), (503, b"")])
def test_only_2xx_is_a_success(timed, receive, reply):
    receiver = receive(lambda call: reply)
    timed.listen(receiver.url, pattern="*")
    append(timed.client, "a")
    receiver.next()
    eventually(lambda: timed.describe()["status"] == "failed")
    assert timed.acked("a") == BEGINNING


def test_an_unreachable_receiver_is_called_again(timed, clock, receive):
    receiver = receive()
    timed.listen(receiver.url, pattern="*")
    receiver.close()
    append(timed.client, "a")
    eventually(lambda: timed.describe()["status"] == "failed")
    assert timed.acked("a") == BEGINNING


def test_an_expired_lease_wakes_again_with_a_new_generation(timed, clock, receive):
    receiver = receive(lambda call: TAKEN)
    timed.listen(receiver.url, pattern="*", lease_ttl_ms=10_000)
    tail = append(timed.client, "a")
    first = receiver.next()
    clock.advance(10)
    second = receiver.next()
    assert (first.wake["generation"], second.wake["generation"]) == (1, 2)
    assert second.wake["wake_id"] != first.wake["wake_id"]
    assert second.streams["a"]["acked_offset"] == BEGINNING
    late = timed.callback(first.wake, {"a": tail}, done=True)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "FENCED")
    assert timed.acked("a") == BEGINNING
    assert timed.finish(second.wake, "callback") is False


def test_a_wake_is_not_sent_again_while_its_call_is_open(timed, clock, receive):
    slow, quick = receive(), receive(lambda call: TAKEN)
    slow.hold(TAKEN)
    timed.listen(slow.url, pattern="*", lease_ttl_ms=10_000)
    witness = Subscriber(timed.client, "witness").listen(quick.url, pattern="*", lease_ttl_ms=10_000)
    append(timed.client, "a")
    first = slow.next()
    for generation in (1, 2, 3):  # its lease expired as often as that of the witness
        assert quick.next().wake["generation"] == generation
        clock.advance(11)
    quick.next()
    assert slow.calls.empty()
    slow.answer = lambda call: DONE
    slow.released.set()
    again = slow.next()
    assert (first.wake["generation"], again.wake["generation"]) == (1, 2)
    eventually(lambda: timed.acked("a") == again.streams["a"]["tail_offset"])
    assert witness.delete().status_code == 204


def test_a_slow_host_delays_only_calls_to_itself(start_thread, connect_to, receive, monkeypatch):
    monkeypatch.setattr(limits, "WEBHOOKS_PER_HOST_AT_ONCE", 2)
    client = connect_to(start_thread(allow_local_webhooks=True))
    slow, quick = receive(), receive()
    slow.hold(DONE)
    for name in ("one", "two", "three"):
        Subscriber(client, name).listen(slow.url, pattern="a")
    Subscriber(client, "quick").listen(quick.url.replace("127.0.0.1", "localhost"), pattern="b")
    append(client, "a")
    held = [slow.next(), slow.next()]
    append(client, "b")
    quick.next()
    assert slow.calls.empty()
    slow.released.set()
    told = {call.wake["subscription_id"] for call in [*held, slow.next()]}
    assert told == {"one", "two", "three"}


def test_a_callback_extends_the_lease(timed, clock, receive):
    receiver = receive(lambda call: TAKEN)
    timed.listen(receiver.url, pattern="*", lease_ttl_ms=10_000)
    append(timed.client, "a")
    wake = receiver.next().wake
    for _ in range(3):
        clock.advance(9)
        assert timed.callback(wake).status_code == 200
    assert timed.finish(wake, "callback") is False
    assert timed.describe()["generation"] == 1


def test_a_callback_while_a_retry_is_planned_ends_the_wake(timed, clock, receive):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="*")
    append(timed.client, "a")
    wake = receiver.next().wake
    eventually(lambda: timed.describe()["status"] == "failed")
    assert timed.finish(wake, "callback") is False
    assert timed.describe()["status"] == "active"
    clock.advance(3600)
    append(timed.client, "b")
    assert list(receiver.next().streams) == ["b"]


def test_a_deleted_subscription_is_not_called_again(timed, clock, receive):
    receiver = receive(lambda call: FAILED)
    timed.listen(receiver.url, pattern="*")
    append(timed.client, "a")
    receiver.next()
    eventually(lambda: timed.describe()["status"] == "failed")
    timed.delete()
    clock.advance(3600)
    other = receive(lambda call: DONE)
    Subscriber(timed.client, "other").listen(other.url, pattern="b")
    append(timed.client, "b")
    other.next()
    assert receiver.calls.empty()


# Receivers that hang


def test_a_receiver_that_hangs_delays_neither_appends_nor_other_receivers(client, path, receive):
    slow, quick = receive(), receive(lambda call: DONE)
    slow.hold(FAILED)
    Subscriber(client, path.replace("/", "-") + "-slow").listen(slow.url, pattern=path + "/*")
    Subscriber(client, path.replace("/", "-") + "-quick").listen(quick.url, pattern=path + "/*")
    append(client, path + "/a")
    slow.next()
    for generation in range(1, 6):
        assert quick.next().wake["generation"] == generation
        append(client, path + "/a")
    assert slow.calls.empty()  # its first wake is still active


def test_a_receiver_that_hangs_times_out_and_is_retried(start_thread, connect_to, monkeypatch, hasty, receive):
    monkeypatch.setattr(limits, "WEBHOOK_S_MAX", 0.1)
    monkeypatch.setattr(limits, "WEBHOOK_BACKOFF_S", 0.01)
    subscriber = Subscriber(connect_to(start_thread(allow_local_webhooks=True)), "sub")
    receiver = receive()
    receiver.hold(FAILED)
    subscriber.listen(receiver.url, pattern="*")
    tail = append(subscriber.client, "a")
    first = receiver.next()
    receiver.answer = lambda call: DONE
    assert receiver.next().wake["wake_id"] == first.wake["wake_id"]
    eventually(lambda: subscriber.acked("a") == tail)
