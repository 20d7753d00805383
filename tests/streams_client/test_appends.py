"""Appending: encodings, conditions, and exactly-once."""

import asyncio
import threading

import msgspec
import pytest

from mainstem import limits
from mainstem.client import (
    Appended,
    AsyncStreams,
    BadArgument,
    BadRequest,
    BodyTooLarge,
    Conflict,
    ContentTypeMismatch,
    OutcomeUnknown,
    ProducerGap,
    SequenceRegression,
    StaleEpoch,
    StreamClosed,
    TailMoved,
)
from tests.streams_client.canned import canned, reply

JSON = "application/json"


def test_text_and_bytes_are_stored_unchanged_one_after_the_other(streams, path):
    streams.create(path, "text/plain")
    for piece in ("one ", b"two ", bytearray(b"three "), memoryview(b"four ")):
        streams.append(path, piece)
    streams.append(path, "grüße 日本 🌊")
    assert streams.read_text(path) == "one two three four grüße 日本 🌊"


def test_all_byte_values_survive(streams, path):
    streams.create(path)
    streams.append(path, bytes(range(256)))
    assert streams.read_bytes(path) == bytes(range(256))


def test_an_append_that_is_too_large_is_reported_at_once(streams, path):
    streams.create(path)
    for _ in range(3):
        with pytest.raises(BodyTooLarge):
            streams.append(path, bytes(limits.BODY_BYTES_MAX + 1))
    assert streams.read_bytes(path) == b""


def test_a_large_append_arrives_whole(streams, path):
    streams.create(path)
    data = bytes(range(256)) * 1_200
    streams.append(path, data)
    assert streams.read_bytes(path) == data


def test_a_value_is_one_message_of_a_json_stream(streams, path):
    streams.create(path, JSON)
    values = [{"a": 1}, [1, 2], [], "text", 1.5, None, True, 2**60]
    for value in values:
        streams.append(path, value)
    assert streams.read_json(path) == values


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_refused_and_not_turned_into_null(streams, path, number):
    streams.create(path, JSON)
    with pytest.raises(BadArgument, match="NaN"):
        streams.append(path, {"a": [None, number]})
    streams.append_json(path, {"null": None}, msgspec.Raw(b"null"))
    assert streams.read_json(path) == [{"null": None}, None]


def test_append_json_appends_each_message_and_all_or_none(streams, path):
    streams.create(path, JSON)
    streams.append_json(path, {"n": 1}, [2, 3], "four")
    assert streams.read_json(path) == [{"n": 1}, [2, 3], "four"]
    with pytest.raises(BadArgument, match="JSON"):
        streams.append_json(path, "five", object())
    with pytest.raises(BadArgument, match="at least one message"):
        streams.append_json(path)
    assert len(streams.read_json(path)) == 3


def test_bytes_are_sent_to_a_json_stream_unchanged(streams, path):
    streams.create(path, JSON)
    streams.append(path, b'[{"n": 1.0}, {"n":  2}]')
    (batch,) = streams.read(path)
    assert batch.raw_messages == [b'{"n": 1.0}', b'{"n":  2}']
    with pytest.raises(BadRequest) as caught:
        streams.append(path, b"{broken")
    assert caught.value.code == "invalid_json"


def test_only_text_and_bytes_can_be_appended_to_a_stream_that_is_not_json(streams, path):
    streams.create(path, "text/plain")
    with pytest.raises(BadArgument, match="dict"):
        streams.append(path, {"a": 1})


def test_an_empty_append_is_refused(streams, path):
    streams.create(path, "text/plain")
    with pytest.raises(BadArgument, match="nothing to append"):
        streams.append(path, "")


def test_the_content_type_is_looked_up_and_a_wrong_one_is_refused(streams, path):
    streams.create(path, JSON)
    with pytest.raises(ContentTypeMismatch) as caught:
        streams.append(path, "x", content_type="text/plain")
    assert "content type" in caught.value.hint
    streams.append(path, "x")
    assert streams.read_json(path) == ["x"]


def test_a_stream_that_another_client_created_again_accepts_appends(twins, server, path):
    mine, other = twins(server.url), twins(server.url)
    mine.create(path, "text/plain")
    for _ in range(3):
        mine.append(path, "old")
    other.delete(path)
    other.create(path, "text/plain")
    mine.append(path, "new")
    mine.append(path, "er")
    assert mine.read_text(path) == "newer"


# Stream-Seq, If-Match, producers


def test_seq_must_grow_in_byte_order(streams, path):
    streams.create(path, "text/plain")
    streams.append(path, "a", seq="001")
    streams.append(path, "b", seq="900")
    for seq in ("900", "100"):
        with pytest.raises(SequenceRegression) as caught:
            streams.append(path, "c", seq=seq)
        assert caught.value.status == 409
    streams.append(path, "d")
    streams.append(path, "e", seq="9001")
    assert streams.read_text(path) == "abde"


def test_a_bare_conflict_of_another_server_after_a_seq_is_a_sequence_conflict(twins):
    with canned(reply(409, {"content-type": "text/plain"}, b"Conflict: too late")) as peer:
        streams = twins(peer.url)
        with pytest.raises(SequenceRegression, match="too late"):
            streams.append("s", "a", content_type="text/plain", seq="1")
        with pytest.raises(Conflict, match="too late") as raised:
            streams.append("s", "a", content_type="text/plain")
        assert type(raised.value) is Conflict


def test_seqs_may_skip_numbers_and_be_large(streams, path):
    streams.create(path, "text/plain")
    for seq in ("10", "100", "1000", str(2**53 - 1)):
        streams.append(path, f"{seq} ", seq=seq)
    assert streams.read_text(path) == "10 100 1000 9007199254740991 "


def test_a_numeric_seq_is_refused_because_it_would_be_compared_as_text(streams, path):
    streams.create(path, "text/plain")
    with pytest.raises(BadArgument, match="leading zeros"):
        streams.append(path, "x", seq=9)
    with pytest.raises(BadArgument, match="if-match must be a str"):
        streams.append(path, "x", if_match=9)
    assert streams.read_text(path) == ""


async def test_appends_with_a_seq_are_sent_in_call_order(server, path, faults):
    async with AsyncStreams(server.url) as streams:
        await streams.create(path, JSON)
        faults.inject(path, method="POST", delayMs=300)
        appends = [streams.append(path, number, seq=f"{number:03d}") for number in range(1, 11)]
        appends += [streams.append_json(path, number, seq=f"{number:03d}") for number in range(11, 21)]
        await asyncio.gather(*appends)
        assert await streams.read_json(path) == list(range(1, 21))


async def test_a_late_seq_fails_alone(server, path):
    async with AsyncStreams(server.url) as streams:
        await streams.create(path, "text/plain")
        await streams.append(path, "a", seq="1")
        appends = [streams.append(path, data, seq=seq) for data, seq in (("b", "2"), ("x", "1"), ("c", "3"))]
        first, late, last = await asyncio.gather(*appends, return_exceptions=True)
        assert isinstance(late, SequenceRegression)
        assert isinstance(first, Appended)
        assert isinstance(last, Appended)
        assert first.next_offset < last.next_offset
        assert await streams.read_text(path) == "abc"


async def test_an_append_that_is_cancelled_gives_up_its_turn(server, path, faults):
    async with AsyncStreams(server.url) as streams:
        await streams.create(path, "text/plain")
        faults.inject(path, method="POST", delayMs=300)
        sent, waiting, last = (asyncio.create_task(streams.append(path, seq, seq=seq)) for seq in "123")
        await asyncio.sleep(0)  # all of them have started
        waiting.cancel()
        await asyncio.gather(sent, last)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await streams.read_text(path) == "13"


async def test_streams_do_not_wait_for_each_others_turns(server, path, faults):
    async with AsyncStreams(server.url) as streams:
        for name in "ab":
            await streams.create(f"{path}/{name}", "text/plain")
        faults.inject(f"{path}/a", method="POST", delayMs=10_000)
        slow = asyncio.create_task(streams.append(f"{path}/a", "x", seq="1"))
        await asyncio.sleep(0)  # it has started
        await streams.append(f"{path}/b", "y", seq="1")
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow])


async def test_concurrent_appends_each_return_their_own_end(server, path):
    async with AsyncStreams(server.url) as streams:
        await streams.create(path, JSON)
        appended = await asyncio.gather(*(streams.append(path, number) for number in range(20)))
        stored = await streams.read_json(path)
        assert sorted(stored) == list(range(20))
        for number, append in enumerate(appended):
            assert await streams.read_json(path, append.next_offset) == stored[stored.index(number) + 1 :]


def test_if_match_appends_only_if_the_stream_ends_there(streams, path):
    end = streams.create(path, "text/plain").next_offset
    moved = streams.append(path, "a", if_match=end).next_offset
    with pytest.raises(TailMoved) as caught:
        streams.append(path, "b", if_match=end)
    assert caught.value.next_offset == moved
    streams.append(path, "c", if_match=moved)
    assert streams.read_text(path) == "ac"


def test_a_producer_number_is_stored_once_whatever_it_carries(streams, path):
    streams.create(path, "text/plain")
    first = streams.append(path, "a", producer=("p", 0, 0))
    assert (first.duplicate, first.producer_epoch, first.producer_seq) == (False, 0, 0)
    streams.append(path, "b", producer=("p", 0, 1))
    for seq in (0, 1):
        assert streams.append(path, "again", producer=("p", 0, seq)).duplicate
    assert streams.append(path, "c", producer=("p", 0, 2), seq="1").producer_seq == 2
    assert streams.read_text(path) == "abc"


def test_a_gap_names_the_missing_number(streams, path):
    streams.create(path, "text/plain")
    with pytest.raises(ProducerGap) as caught:
        streams.append(path, "x", producer=("new", 0, 3))
    assert (caught.value.expected_seq, caught.value.received_seq) == (0, 3)
    streams.append(path, "a", producer=("new", 0, 0))
    with pytest.raises(ProducerGap) as caught:
        streams.append(path, "x", producer=("new", 0, 2))
    assert (caught.value.expected_seq, caught.value.received_seq) == (1, 2)
    streams.append(path, "b", producer=("new", 0, 1))
    streams.append(path, "c", producer=("new", 0, 2))
    assert streams.read_text(path) == "abc"


def test_a_new_epoch_fences_the_old_one_and_starts_at_zero(streams, path):
    streams.create(path, "text/plain")
    streams.append(path, "a", producer=("p", 0, 0))
    streams.append(path, "b", producer=("p", 7, 0))
    with pytest.raises(StaleEpoch) as caught:
        streams.append(path, "zombie", producer=("p", 0, 1))
    assert (caught.value.current_epoch, caught.value.status) == (7, 403)
    with pytest.raises(BadRequest) as refused:
        streams.append(path, "x", producer=("p", 2**50, 1))
    assert refused.value.code == "epoch_must_start_at_zero"
    streams.append(path, "c", producer=("p", 2**50, 0))
    assert streams.read_text(path) == "abc"


IDS = ["service:instance:123", "region/zone/host", "550e8400-e29b-41d4-a716-446655440000", "a b", "ä", "q" * 200]


def test_producers_are_independent_of_each_other_and_of_other_streams(streams, path):
    for name in ("x", "y"):
        streams.create(f"{path}/{name}", "text/plain")
        for seq in range(3):
            for producer_id in IDS:
                assert not streams.append(f"{path}/{name}", str(seq), producer=(producer_id, 0, seq)).duplicate
                assert streams.append(f"{path}/{name}", "again", producer=(producer_id, 0, seq)).duplicate
    assert streams.read_text(f"{path}/x") == streams.read_text(f"{path}/y") == "000000111111222222"


def test_an_epoch_fences_only_in_its_own_stream(streams, path):
    for name, epoch in (("x", 5), ("y", 0)):
        streams.create(f"{path}/{name}", "text/plain")
        streams.append(f"{path}/{name}", "a", producer=("shared", epoch, 0))
    with pytest.raises(StaleEpoch) as caught:
        streams.append(f"{path}/x", "zombie", producer=("shared", 0, 1))
    assert caught.value.current_epoch == 5
    streams.append(f"{path}/y", "b", producer=("shared", 0, 1))
    assert (streams.read_text(f"{path}/x"), streams.read_text(f"{path}/y")) == ("a", "ab")


def test_a_stream_that_was_created_again_knows_no_producers(streams, path):
    for data in ("old", "new"):
        streams.create(path, "text/plain")
        assert not streams.append(path, data, producer=("p", 0, 0)).duplicate
        assert not streams.append(path, "er", producer=("p", 0, 1)).duplicate
        assert streams.read_text(path) == f"{data}er"
        streams.delete(path)


def test_the_messages_of_one_append_are_stored_once_together(streams, path):
    streams.create(path, JSON)
    for messages, duplicate in (([1, 2, 3], False), ([1, 2, 3], True), ([{"other": 4}], True)):
        assert streams.append_json(path, *messages, producer=("p", 0, 0)).duplicate is duplicate
    streams.append_json(path, 4, producer=("p", 0, 1))
    assert streams.read_json(path) == [1, 2, 3, 4]


def test_a_refused_append_consumes_no_number(streams, path):
    streams.create(path, JSON)
    with pytest.raises(BadRequest):
        streams.append(path, b"{broken", producer=("p", 0, 0))
    streams.append(path, b"1", producer=("p", 0, 0))
    for _ in range(2):  # the same holds for the numbers that the client assigns automatically
        with pytest.raises(BadRequest):
            streams.append(path, b"{broken")
        streams.append(path, b"2")
    assert streams.read_json(path) == [1, 2, 2]


@pytest.mark.parametrize("producer", [("", 0, 0), ("p", -1, 0), ("p", 0, -1), ("p", "1e3", 0), ("p", 0, "1abc")])
def test_invalid_producer_numbers_are_refused_before_they_are_sent(streams, path, producer):
    streams.create(path, "text/plain")
    with pytest.raises(BadArgument, match="producer"):
        streams.append(path, "x", producer=producer)


# Exactly once


@pytest.mark.parametrize("way", ["dropReply", "dropConnection"])
def test_an_append_whose_connection_breaks_is_stored_once(streams, path, faults, way):
    streams.create(path, "text/plain")
    for number in range(3):
        faults.inject(path, method="POST", **{way: True}, count=2)
        appended = streams.append(path, str(number))
        assert appended.duplicate is (way == "dropReply")
    assert streams.read_text(path) == "012"


def test_closing_with_data_is_stored_once_when_its_reply_is_lost(streams, path, faults):
    streams.create(path, "text/plain")
    faults.inject(path, method="POST", dropReply=True)
    assert streams.close(path, "end").closed
    assert streams.read_text(path) == "end"


def test_a_conditional_append_is_recognised_when_its_reply_is_lost(streams, path, faults):
    end = streams.create(path, "text/plain").next_offset
    faults.inject(path, method="POST", dropReply=True)
    assert streams.append(path, "a", if_match=end, seq="1").duplicate
    assert streams.read_text(path) == "a"


def test_appends_from_many_threads_are_each_stored_once(streams, path, faults):
    streams.create(path, JSON)
    streams.append(path, "first")
    faults.inject(path, method="POST", dropReply=True, count=10, probability=0.3)
    threads = [threading.Thread(target=streams.append, args=(path, number)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(streams.read_json(path)[1:]) == list(range(40))


def test_after_an_unknown_outcome_the_next_append_is_stored_once(streams, path, faults):
    streams.create(path, "text/plain")
    faults.inject(path, method="POST", dropReply=True, count=6)
    with pytest.raises(OutcomeUnknown, match=path) as caught:
        streams.append(path, "a")
    assert caught.value.__cause__ is not None
    assert "read the end" in caught.value.hint
    streams.append(path, "b")
    assert streams.read_text(path) == "ab"


def test_what_may_be_stored_is_not_reported_as_refused(twins):
    """The stream is closed after an append whose reply is lost, and before the retry."""
    with canned(b"", reply(409, {"stream-closed": "true", "stream-next-offset": "9"})) as peer:
        streams = twins(peer.url)
        with pytest.raises(OutcomeUnknown) as caught:
            streams.append("s", "a", content_type="text/plain")
        assert isinstance(caught.value.__cause__, StreamClosed)
        with pytest.raises(StreamClosed):
            streams.append("s", "a", content_type="text/plain")
        first, again, later = peer.asked
        assert first.headers == again.headers
        assert first.headers["producer-id"] == later.headers["producer-id"]
        assert (later.headers["producer-epoch"], later.headers["producer-seq"]) == ("1", "0"), "fences late ones"


def test_without_exactly_once_an_interrupted_append_is_not_repeated(twins, server, path, faults):
    streams = twins(server.url, exactly_once=False)
    streams.create(path, "text/plain")
    assert streams.append(path, "plain").producer_seq is None
    faults.inject(path, method="POST", dropReply=True)
    with pytest.raises(OutcomeUnknown):
        streams.append(path, "once")
    faults.inject(path, method="POST", status=500)
    with pytest.raises(OutcomeUnknown):
        streams.append(path, "failed")
    faults.inject(path, method="POST", status=503)
    streams.append(path, " retried")
    assert streams.read_text(path) == "plainonce retried"
