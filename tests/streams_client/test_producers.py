"""The producer over HTTP: batches, order, retries, claims, errors and back-pressure."""

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest

from mainstem.client import (
    AsyncIdempotentProducer,
    AsyncStreams,
    BadArgument,
    BodyTooLarge,
    IdempotentProducer,
    NotFound,
    OutcomeUnknown,
    ProducerClosed,
    Retries,
    StaleEpoch,
    StreamClosed,
    Streams,
)
from tests.streams_client.canned import canned, reply

JSON = "application/json"
QUICK = Retries(attempts_max=8, delay_s=0.01, delay_s_max=0.05)


@pytest.fixture
def produce(streams):
    def make(path, **options):
        return streams.producer(path, **{"retries": QUICK, **options})

    return make


def posts_of(peer):
    """Return the requests in the order in which they were sent: the threads of connections may overtake each other."""
    posts = [asked for asked in peer.asked if asked.method == "POST"]
    return sorted(posts, key=lambda post: int(post.headers["producer-seq"]))


def test_messages_of_a_json_stream_stay_messages(streams, path, produce):
    streams.create(path, JSON)
    messages = [{"msg": 1}, [1, 2], [], "text", 4.5, None, True]
    with produce(path) as producer:
        producer.append_all(messages)
        producer.append(b'{"raw":  1}')
    assert streams.read_json(path) == [*messages, {"raw": 1}]


def test_a_single_message_is_a_batch_too(streams, path, produce):
    streams.create(path, JSON)
    with produce(path) as producer:
        producer.append({"only": 1})
    assert streams.read_json(path) == [{"only": 1}]


def test_bytes_and_text_are_joined(streams, path, produce):
    streams.create(path, "text/plain")
    with produce(path) as producer:
        producer.append_all(["a", b"b", bytearray(b"c"), "ü"])
    assert streams.read_text(path) == "abcü"


def test_a_thousand_messages_need_few_requests(twins):
    with canned(reply(200, {"stream-next-offset": "1"})) as peer:
        with twins(peer.url).producer("s", content_type="text/plain", linger_s=0.05) as producer:
            producer.append_all(["x"] * 1_000)
        posts = posts_of(peer)
        assert 1 <= len(posts) < 20
        assert b"".join(post.body for post in posts) == b"x" * 1_000
        assert [post.headers["producer-seq"] for post in posts] == [str(seq) for seq in range(len(posts))]
        assert len({post.headers["producer-id"] for post in posts}) == 1


async def test_appends_of_many_tasks_are_batched_in_call_order():
    with canned(reply(200, {"stream-next-offset": "1"})) as peer:
        async with AsyncStreams(peer.url) as streams, AsyncIdempotentProducer(streams, "s", linger_s=0.05) as producer:
            await asyncio.gather(*(producer.append(f"{number} ") for number in range(100)))
        assert peer.asked[0].method == "HEAD"
        posts = posts_of(peer)
        assert len(posts) < 10
        assert b"".join(post.body for post in posts) == b"".join(b"%d " % number for number in range(100))


def test_a_batch_is_limited_by_bytes_and_by_messages(twins):
    with canned(reply(200, {"stream-next-offset": "1"})) as peer:
        streams = twins(peer.url)
        with streams.producer("s", content_type=JSON, linger_s=60, batch_bytes=100) as producer:
            producer.append_all(["x" * 20] * 40)
        assert max(len(asked.body) for asked in peer.asked) <= 101
        del peer.asked[:]
        with streams.producer("s", content_type="text/plain", linger_s=60, batch_messages=7) as producer:
            producer.append_all(["x"] * 70)
        assert [len(asked.body) for asked in peer.asked] == [7] * 10


def test_five_requests_are_in_flight_and_everything_arrives_in_order(streams, path, produce, faults):
    streams.create(path, JSON)
    faults.inject(path, method="POST", delayMs=5, jitterMs=20, count=100)
    with produce(path, batch_messages=3, linger_s=0) as producer:
        producer.append_all(list(range(200)))
    assert streams.read_json(path) == list(range(200))


def test_requests_really_overlap(twins):
    """With one request at a time, the peer would wait forever for the third."""
    together = threading.Barrier(3, timeout=15)
    numbers = itertools.count()

    def meet(_, connection):
        if next(numbers) < 3:
            together.wait()
        connection.sendall(reply(200, {"stream-next-offset": "1"}))

    with canned(reply(200, {"stream-next-offset": "1"}), meet) as peer:
        with twins(peer.url).producer("s", content_type="text/plain", batch_messages=1) as producer:
            producer.append_all(["x"] * 4)
        assert len(peer.asked) == 4


def test_closing_waits_for_every_reply(twins):
    """The reply to a later batch proves that the previous one is stored, although that request is still in transit."""
    answered = []
    later = threading.Event()

    def dawdle(asked, connection):
        if asked.body == b"2":
            assert later.wait(15)
            time.sleep(0.3)
        answered.append(asked.body)
        connection.sendall(reply(200, {"stream-next-offset": "1"}))
        if asked.body == b"3":
            later.set()

    with canned(reply(200, {"stream-next-offset": "1"}), dawdle) as peer:
        with twins(peer.url).producer("s", content_type="text/plain", batch_messages=1) as producer:
            producer.append_all(["1", "2", "3"])
        assert answered == [b"3", b"2"]


@pytest.mark.parametrize("fault", [{"dropConnection": True}, {"dropReply": True}, {"status": 503}, {"status": 500}])
def test_faults_lose_and_duplicate_nothing(streams, path, produce, faults, fault):
    streams.create(path, JSON)
    patient = Retries(attempts_max=30, delay_s=0.01, delay_s_max=0.05)  # all faults may hit the same request
    with produce(path, batch_messages=5, linger_s=0, retries=patient) as producer:
        for start in range(0, 100, 10):
            faults.inject(path, method="POST", **fault, count=2)
            producer.append_all(list(range(start, start + 10)))
        producer.flush()
    assert streams.read_json(path) == list(range(100))


def test_retry_after_delays_all_requests(streams, path, produce, faults):
    streams.create(path, JSON)
    faults.inject(path, method="POST", status=429, retryAfter=1)
    began_s = time.monotonic()
    with produce(path) as producer:
        producer.append_all([1, 2])
    assert time.monotonic() - began_s >= 1.0
    assert streams.read_json(path) == [1, 2]


def test_flush_waits_until_everything_is_stored(streams, path, produce):
    streams.create(path, JSON)
    with produce(path, linger_s=60) as producer:
        producer.append_all([1, 2, 3])
        assert streams.read_json(path) == []
        producer.flush()
        assert streams.read_json(path) == [1, 2, 3]
        producer.flush()
        producer.append(4)
    assert streams.read_json(path) == [1, 2, 3, 4]


def test_appending_does_not_wait_for_the_server(streams, path, produce, faults):
    streams.create(path, JSON)
    faults.inject(path, method="POST", delayMs=500)
    with produce(path, linger_s=0) as producer:
        producer.append(0)
        began_s = time.monotonic()
        producer.append_all(list(range(1, 1_000)))
        assert streams.read_json(path) == []
        assert time.monotonic() - began_s < 0.5
    assert streams.read_json(path) == list(range(1_000))


def test_a_full_buffer_makes_append_wait(streams, path, produce, faults):
    streams.create(path, JSON)
    faults.inject(path, method="POST", delayMs=300)
    with produce(path, linger_s=0, buffer_bytes=1_000, batch_bytes=500) as producer:
        began_s = time.monotonic()
        producer.append_all(["x" * 100] * 50)
        assert time.monotonic() - began_s >= 0.3, "append must wait for the first reply: 5000 bytes do not fit"
    assert streams.read_json(path) == ["x" * 100] * 50


# Closing


def test_leaving_the_block_leaves_the_stream_open(streams, path, produce):
    streams.create(path, "text/plain")
    with produce(path) as producer:
        producer.append("mine ")
    assert not streams.head(path).closed
    streams.append(path, "yours")
    assert streams.read_text(path) == "mine yours"


def test_a_closed_producer_accepts_nothing_more(streams, path, produce):
    streams.create(path, "text/plain")
    producer = produce(path)
    producer.append("a")
    producer.close()
    producer.close()
    with pytest.raises(ProducerClosed, match="closed"):
        producer.append("b")
    assert streams.read_text(path) == "a"


def test_an_unused_producer_closes_too(produce, path):
    produce(path).close()


def test_the_stream_is_closed_after_the_last_message(streams, path, produce, faults):
    streams.create(path, JSON)
    producer = produce(path)
    producer.append_all([1, 2])
    faults.inject(path, method="POST", dropReply=True, count=2)
    producer.close_stream({"last": 3})
    producer.close_stream()
    (batch,) = streams.read(path)
    assert (batch.messages, batch.closed) == ([1, 2, {"last": 3}], True)


def test_the_stream_is_closed_without_a_message_too(streams, path, produce):
    streams.create(path, "text/plain")
    produce(path).close_stream()
    assert streams.head(path).closed
    with pytest.raises(StreamClosed):
        produce(path).close_stream()


def test_another_instance_of_the_closing_producer_may_close_again(streams, path, produce):
    streams.create(path, "text/plain")
    for last, duplicates in (("A", 0), ("A", 1), ("B", 1)):
        producer = produce(path, producer_id="one")
        producer.close_stream(last)
        assert producer.duplicates == duplicates
    with pytest.raises(StreamClosed):
        produce(path, producer_id="two").close_stream("C")
    (batch,) = streams.read(path)
    assert (batch.data, batch.closed) == (b"A", True)


# Epochs


def test_a_stale_epoch_fails_unless_the_producer_may_claim_a_new_one(streams, path, produce):
    streams.create(path, "text/plain")
    streams.append(path, "other ", producer=("shared", 5, 0))
    producer = produce(path, producer_id="shared")
    producer.append("fenced")
    with pytest.raises(StaleEpoch) as caught:
        producer.flush()
    assert caught.value.current_epoch == 5
    with pytest.raises(ProducerClosed) as refused:
        producer.append("more")
    assert isinstance(refused.value.__cause__, StaleEpoch)
    with produce(path, producer_id="shared", auto_claim=True, batch_messages=1, linger_s=0) as claiming:
        claiming.append_all(["a", "b", "c", "d", "e", "f"])
    assert claiming.epoch == 6
    assert streams.read_text(path) == "other abcdef"


def test_a_producer_that_is_fenced_in_between_claims_an_epoch_and_continues(streams, path, produce):
    streams.create(path, JSON)
    with produce(path, producer_id="shared", auto_claim=True) as producer:
        producer.append(1)
        producer.flush()
        streams.append(path, "intruder", producer=("shared", 9, 0))
        producer.append_all([2, 3])
    assert (producer.epoch, streams.read_json(path)) == (10, [1, "intruder", 2, 3])


@pytest.mark.parametrize("content_type", ["text/plain", JSON])
def test_during_a_claim_other_requests_wait_and_afterwards_several_are_in_flight(streams, path, produce, content_type):
    streams.create(path, content_type)
    streams.append(path, b"0", producer=("shared", 5, 0))
    with produce(
        path, producer_id="shared", auto_claim=True, batch_messages=1, linger_s=0, in_flight_max=5
    ) as producer:
        producer.append_all([b"%d" % number for number in range(1, 21)])
    assert producer.epoch == 6
    numbers = [str(number) for number in range(21)]
    assert streams.read_text(path).strip("[]") == ("," if content_type == JSON else "").join(numbers)


def test_one_id_in_two_streams_is_two_producers(streams, path, produce):
    for name in "ab":
        streams.create(f"{path}/{name}", "text/plain")
        with produce(f"{path}/{name}", producer_id="region/zone:host") as producer:
            producer.append(name)
        assert (producer.duplicates, streams.read_text(f"{path}/{name}")) == (0, name)


def test_replayed_numbers_store_nothing_twice_and_are_counted(streams, path, produce):
    streams.create(path, JSON)
    for expected in (0, 2):
        with produce(path, producer_id="replayed", linger_s=0.05) as producer:
            producer.append_all([{"msg": "first"}, {"msg": "second"}])
        assert producer.duplicates == expected
    assert streams.read_json(path) == [{"msg": "first"}, {"msg": "second"}]


def test_a_new_instance_that_claims_stores_its_messages(streams, path, produce):
    streams.create(path, JSON)
    for run in range(3):
        with produce(path, producer_id="restarted", auto_claim=True) as producer:
            producer.append({"run": run})
    assert streams.read_json(path) == [{"run": 0}, {"run": 1}, {"run": 2}]


# Errors


def test_on_error_receives_what_is_not_stored(streams, path, produce):
    streams.create(path, "text/plain")
    streams.close(path)
    failures: list[Any] = []
    with produce(path, on_error=failures.append) as producer:
        producer.append_all(["a", "b"])
        producer.flush()
    assert [message for failed in failures for message in failed.messages] == [b"a", b"b"]
    assert all(isinstance(failed.error, StreamClosed) for failed in failures)


def test_without_on_error_the_next_flush_or_close_raises(streams, path, produce):
    streams.create(path, "text/plain")
    producer = produce(path)
    producer.append("a")
    producer.flush()
    streams.delete(path)
    producer.append("b")
    with pytest.raises(NotFound):
        producer.close()
    producer.close()


def test_a_missing_stream_is_reported_at_the_first_append(produce, path):
    with pytest.raises(NotFound, match=path):
        produce(path).append("a")


def test_an_on_error_that_raises_does_not_stop_the_producer(streams, path, produce, caplog):
    streams.create(path, "text/plain", closed=True)

    def fail(_) -> None:
        raise LookupError("handler")

    with produce(path, on_error=fail) as producer:
        producer.append("a")
    assert "on_error" in caplog.text


def test_a_server_that_stays_away_leads_to_an_unknown_outcome(streams, path, produce, faults):
    streams.create(path, JSON)
    faults.inject(path, method="POST", dropReply=True, count=8)
    failures: list[Any] = []
    with produce(path, on_error=failures.append) as producer:
        producer.append(1)
    (failed,) = failures
    assert isinstance(failed.error, OutcomeUnknown)
    assert streams.read_json(path) == [1], "the message was stored, but the client could not know that"


def test_a_message_that_is_too_large_fails_and_the_others_do_not(start_server, twins, path):
    server = start_server("--max-body-bytes", "1000")
    streams = twins(server.url)
    streams.create(path, JSON)
    failures: list[Any] = []
    with streams.producer(path, on_error=failures.append, linger_s=0.05) as producer:
        producer.append_all([*range(200), "x" * 2_000, *range(200, 400)])
    assert streams.read_json(path) == list(range(400))
    (failed,) = failures
    assert isinstance(failed.error, BodyTooLarge)
    assert failed.error.limit_bytes == 1_000
    assert failed.messages == [b'"' + b"x" * 2_000 + b'"']


def test_a_token_callable_that_fails_fails_the_producer(twins, server, path):
    tokens = iter(["for create", "for the first append"])
    streams = twins(server.url, token=lambda: next(tokens))
    streams.create(path, "text/plain")
    failures: list[Any] = []
    with streams.producer(path, on_error=failures.append) as producer:
        producer.append("a")
        producer.flush()
        producer.append("b")
        producer.flush()
    (failed,) = failures
    assert failed.messages == [b"b"]
    assert "StopIteration" in str(failed.error)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("producer_id", ""),
        ("epoch", -1),
        ("batch_bytes", 0),
        ("batch_bytes", -1),
        ("batch_messages", 0),
        ("batch_messages", -1),
        ("buffer_bytes", 0),
        ("in_flight_max", 0),
        ("in_flight_max", 10_000),
        ("linger_s", -1),
    ],
)
def test_invalid_options_are_refused_by_name(streams, path, name, value):
    with pytest.raises(BadArgument, match=name):
        streams.producer(path, **{name: value})


@pytest.mark.parametrize(
    ("content_type", "message"),
    [(JSON, object()), (JSON, {"a": [1.5, float("nan")]}), ("text/plain", {"a": 1}), ("text/plain", "")],
)
def test_a_message_that_cannot_be_sent_is_refused_at_once(streams, path, produce, content_type, message):
    streams.create(path, content_type)
    with produce(path) as producer, pytest.raises(BadArgument):
        producer.append(message)
    assert streams.read_bytes(path) in (b"", b"[]")


def test_many_threads_may_share_a_producer(streams, path, produce):
    streams.create(path, JSON)
    with produce(path, batch_messages=10) as producer:
        threads = [
            threading.Thread(target=producer.append_all, args=([[name, n] for n in range(100)],)) for name in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stored = streams.read_json(path)
    assert len(stored) == 800
    for name in range(8):
        assert [n for who, n in stored if who == name] == list(range(100))


def test_a_failure_of_the_producer_does_not_hide_an_error_of_the_block():
    def use(url):
        with Streams(url) as streams, IdempotentProducer(streams, "a", content_type=JSON) as producer:
            producer.append(1)
            raise KeyError("of the block")

    with canned(reply(403, {"producer-epoch": "7"})) as peer, pytest.raises(KeyError) as caught:
        use(peer.url)
    assert "stale_epoch" in caught.value.__notes__[0]


async def test_a_cancelled_block_stays_cancelled_even_if_its_producer_fails():
    async def use(url, cancelled):
        async with (
            AsyncStreams(url) as streams,
            asyncio.timeout(0.2 if cancelled else 60),
            AsyncIdempotentProducer(streams, "a", content_type=JSON) as producer,
        ):
            await producer.append(1)
            if cancelled:
                await asyncio.Event().wait()

    with canned(reply(403, {"producer-epoch": "7"})) as peer:
        with pytest.raises(TimeoutError):
            await use(peer.url, cancelled=True)
        with pytest.raises(StaleEpoch):
            await use(peer.url, cancelled=False)


def test_on_error_may_close_the_producer_but_not_wait_for_it():
    told: list[str] = []

    def close(failed):
        with pytest.raises(BadArgument, match="within on_error"):
            producer.flush()
        producer.close()
        told.append("closed")

    with canned(reply(413), reply(200, {"stream-next-offset": "1"})) as peer, Streams(peer.url) as streams:
        options: dict[str, Any] = {"content_type": JSON, "batch_messages": 1, "in_flight_max": 1, "linger_s": 60}
        with IdempotentProducer(streams, "a", on_error=close, **options) as producer:
            with producer._lock:  # all are added before the first is sent
                for message in (b"1", b"2", b"3"):
                    producer._accumulator.add(message, 0)
            producer._begin()
    assert told == ["closed"]
    assert [asked.body for asked in peer.asked] == [b"[1]", b"[2]", b"[3]"]


async def test_an_async_on_error_may_close_the_producer_but_not_wait_for_it():
    told: list[str] = []

    async def close(failed):
        with pytest.raises(BadArgument, match="within on_error"):
            await producer.flush()
        await producer.close()
        told.append("closed")

    with canned(reply(413), reply(200, {"stream-next-offset": "1"})) as peer:
        async with AsyncStreams(peer.url) as streams, asyncio.timeout(30):
            options: dict[str, Any] = {"content_type": JSON, "batch_messages": 1, "in_flight_max": 1}
            async with AsyncIdempotentProducer(streams, "a", on_error=close, **options) as producer:
                for message in (b"1", b"2", b"3"):
                    producer._accumulator.add(message, 0)
                await producer._begin()
    assert told == ["closed"]
    assert [asked.body for asked in peer.asked] == [b"[1]", b"[2]", b"[3]"]


def test_a_message_that_was_never_sent_has_no_unknown_outcome(twins, server, path):
    streams = twins(server.url)
    streams.create(path, JSON)
    producer = streams.producer(path)
    producer.append(1)
    producer.flush()
    streams.disconnect()
    producer.append(2)
    with pytest.raises(BadArgument, match="disconnected"):
        producer.close()
