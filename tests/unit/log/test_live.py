"""Live topics: which readers wake, what is kept in memory, and when it is evicted."""

import asyncio

import pytest

from mainstem import limits
from mainstem.log.live import Live, Topic, wait_for_change, wake_waiter
from mainstem.log.records import Chunk, CommittedId, Kind, Record, TopicId

ONE, TWO, THREE = TopicId(1), TopicId(2), TopicId(3)
LONG_S = 3_600.0
SOON_S = 10.0  # a missed wake-up should fail its test, not block the others


def record(topic: TopicId, start: int, data: bytes, kind: Kind = Kind.APPEND) -> Record:
    return Record(CommittedId(1), 0, kind, topic, start, start + len(data), 1, data)


def ignore(waiter: "asyncio.Future[bool]") -> None:
    pass


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def start_waiting(topic: Topic) -> "asyncio.Task[bool]":
    return asyncio.create_task(wait_for_change([topic], [topic.version], LONG_S, ignore))


# The hot tail


def test_a_watched_topic_keeps_published_data() -> None:
    live = Live()
    with live.watch(ONE):
        live.publish([record(ONE, 0, b"abc"), record(TWO, 0, b"other"), record(ONE, 3, b"de")])
        assert live.read(ONE, 0, 100) == Chunk(0, 5, b"abcde")
        assert live.read(ONE, 3, 100) == Chunk(3, 5, b"de")
        assert live.read(TWO, 0, 100) is None


def test_data_published_before_anybody_watched_is_not_kept() -> None:
    live = Live()
    live.publish([record(ONE, 0, b"abc")])
    with live.watch(ONE):
        live.publish([record(ONE, 3, b"de")])
        assert live.read(ONE, 0, 100) is None
        assert live.read(ONE, 3, 100) == Chunk(3, 5, b"de")


def test_data_is_found_only_from_the_start_of_a_record() -> None:
    live = Live()
    with live.watch(ONE):
        live.publish([record(ONE, 10, b"abc"), record(ONE, 13, b"de")])
        for start in (0, 9, 11, 12, 14, 15, 16):
            assert live.read(ONE, start, 100) is None


def test_a_chunk_ends_within_its_bytes_but_holds_at_least_one_record() -> None:
    live = Live()
    with live.watch(ONE):
        live.publish([record(ONE, 0, b"abc"), record(ONE, 3, b"de"), record(ONE, 5, b"f")])
        for bytes_max, end in [(0, 3), (2, 3), (3, 3), (4, 3), (5, 5), (6, 6)]:
            run = live.read(ONE, 0, bytes_max)
            assert run is not None
            assert run.end == end
            assert run.data == b"abcdef"[:end]


def test_a_gap_in_published_data_evicts_what_came_before() -> None:
    live = Live()
    with live.watch(ONE):
        live.publish([record(ONE, 0, b"abc")])
        live.publish([record(ONE, 7, b"hi")])
        assert live.read(ONE, 0, 100) is None
        assert live.read(ONE, 7, 100) == Chunk(7, 9, b"hi")


def test_a_topic_keeps_only_its_newest_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPIC_HOT_BYTES_MAX", 5)
    live = Live()
    with live.watch(ONE) as topic:
        live.publish([record(ONE, 0, b"ab"), record(ONE, 2, b"cd"), record(ONE, 4, b"ef")])
        assert topic.size == 4
        assert live.read(ONE, 0, 100) is None
        assert live.read(ONE, 2, 100) == Chunk(2, 6, b"cdef")


def test_a_record_that_is_too_large_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPIC_HOT_BYTES_MAX", 5)
    live = Live()
    with live.watch(ONE) as topic:
        live.publish([record(ONE, 0, b"ab"), record(ONE, 2, b"far too large")])
        assert topic.size == 0
        assert live.read(ONE, 2, 100) is None
        live.publish([record(ONE, 15, b"ab")])
        assert live.read(ONE, 15, 100) == Chunk(15, 17, b"ab")


def test_all_topics_together_keep_a_limited_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HOT_BYTES_MAX", 5)
    live = Live()
    with live.watch(ONE), live.watch(TWO), live.watch(THREE):
        live.publish([record(ONE, 0, b"ab")])
        live.publish([record(TWO, 0, b"cd")])
        live.publish([record(ONE, 2, b"e")])
        live.publish([record(THREE, 0, b"f")])
        # TWO has been without new data for the longest time.
        assert live.read(TWO, 0, 100) is None
        assert live.read(ONE, 0, 100) == Chunk(0, 3, b"abe")
        assert live.read(THREE, 0, 100) == Chunk(0, 1, b"f")


def test_evicted_data_makes_space_for_other_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPIC_HOT_BYTES_MAX", 3)
    monkeypatch.setattr(limits, "HOT_BYTES_MAX", 6)
    live = Live()
    with live.watch(ONE), live.watch(TWO), live.watch(THREE):
        for at in range(0, 60, 3):
            for topic in (ONE, TWO, THREE):
                live.publish([record(topic, at, b"abc")])
            assert live.read(ONE, at, 100) is None
            assert live.read(TWO, at, 100) == live.read(THREE, at, 100) == Chunk(at, at + 3, b"abc")


def test_a_limited_number_of_topics_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_HOT_MAX", 2)
    live = Live()
    with live.watch(ONE), live.watch(TWO), live.watch(THREE):
        for topic in (ONE, TWO, THREE):
            live.publish([record(topic, 0, b"x")])
        assert [live.read(topic, 0, 1) is not None for topic in (ONE, TWO, THREE)] == [False, True, True]


# Watchers


def test_a_topic_stays_in_memory_for_a_reader_that_returns() -> None:
    live = Live()
    with live.watch(ONE):
        live.publish([record(ONE, 0, b"abc")])
    live.publish([record(ONE, 3, b"de")])
    with live.watch(ONE):
        assert live.read(ONE, 0, 100) == Chunk(0, 5, b"abcde")


def test_a_topic_without_watchers_and_data_is_removed() -> None:
    live = Live()
    with live.watch(ONE) as first:
        pass
    live.publish([record(ONE, 0, b"abc")])
    assert live.read(ONE, 0, 100) is None
    with live.watch(ONE) as second:
        assert second is not first


def test_readers_share_a_topic_until_the_last_of_them_leaves() -> None:
    live = Live()
    with live.watch(ONE) as first:
        with live.watch(ONE) as second:
            assert second is first
            assert live.readers == 2
        live.publish([record(ONE, 0, b"abc")])
        assert first.version == 1
        assert live.readers == 1
    assert live.readers == 0


def test_an_evicted_topic_without_watchers_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_HOT_MAX", 1)
    live = Live()
    with live.watch(TWO):
        with live.watch(ONE) as before:
            live.publish([record(ONE, 0, b"abc")])
        live.publish([record(TWO, 0, b"x")])
        assert live.read(ONE, 0, 100) is None
        with live.watch(ONE) as after:
            assert after is not before


def test_an_evicted_topic_still_wakes_its_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_HOT_MAX", 1)
    live = Live()
    with live.watch(ONE) as topic, live.watch(TWO):
        live.publish([record(ONE, 0, b"abc")])
        live.publish([record(TWO, 0, b"x")])
        live.publish([record(ONE, 3, b"de")])
        assert topic.version == 2
        assert live.read(ONE, 0, 100) is None
        assert live.read(ONE, 3, 100) == Chunk(3, 5, b"de")


def test_a_reader_that_raises_stops_watching() -> None:
    live = Live()
    with pytest.raises(RuntimeError), live.watch(ONE):
        raise RuntimeError
    assert live.readers == 0


# Waking


async def test_only_readers_of_the_topic_wake() -> None:
    live = Live()
    with live.watch(ONE) as one, live.watch(TWO) as two:
        waits = [start_waiting(one), start_waiting(one)]
        other = start_waiting(two)
        await turn()
        assert not any(wait.done() for wait in waits)
        live.publish([record(ONE, 0, b"abc")])
        await asyncio.wait_for(asyncio.gather(*waits), SOON_S)
        await turn()
        assert not other.done()
        other.cancel()


@pytest.mark.parametrize("kind", [Kind.CLOSE, Kind.DELETE])
async def test_closing_and_deleting_wake_readers_like_data(kind: Kind) -> None:
    live = Live()
    with live.watch(ONE) as topic:
        waiting = start_waiting(topic)
        await turn()
        live.publish([record(ONE, 0, b"", kind)])
        await asyncio.wait_for(waiting, SOON_S)
        assert live.read(ONE, 0, 100) is None


async def test_a_batch_wakes_a_reader_once() -> None:
    live = Live()
    with live.watch(ONE) as topic:
        live.publish([record(ONE, number, b"x") for number in range(5)])
        assert topic.version == 1


async def test_a_change_between_reading_and_waiting_is_not_missed() -> None:
    live = Live()
    with live.watch(ONE) as topic:
        seen = topic.version
        live.publish([record(ONE, 0, b"abc")])
        await asyncio.wait_for(wait_for_change([topic], [seen], LONG_S, ignore), SOON_S)


async def test_a_wait_for_several_topics_ends_with_the_first_change() -> None:
    live = Live()
    with live.watch(ONE) as one, live.watch(TWO) as two:
        waiting = asyncio.create_task(wait_for_change([one, two], [0, 0], LONG_S, ignore))
        await turn()
        live.publish([record(THREE, 0, b"x")])
        await turn()
        assert not waiting.done()
        live.publish([record(TWO, 0, b"x")])
        await asyncio.wait_for(waiting, SOON_S)
        await asyncio.wait_for(wait_for_change([one, two], [0, 0], LONG_S, ignore), SOON_S)
        assert not one.waiters
        assert not two.waiters


async def test_a_wait_ends_when_it_times_out() -> None:
    live = Live()
    with live.watch(ONE) as topic:
        await wait_for_change([topic], [topic.version], 0.0, ignore)
        assert topic.version == 0


async def test_a_wait_ends_when_its_future_is_resolved() -> None:
    live = Live()
    held: list[asyncio.Future[bool]] = []
    with live.watch(ONE) as topic:
        waiting = asyncio.create_task(wait_for_change([topic], [topic.version], LONG_S, held.append))
        await turn()
        wake_waiter(held[0])
        await asyncio.wait_for(waiting, SOON_S)
        wake_waiter(held[0])
        assert topic.version == 0
        live.publish([record(ONE, 0, b"abc")])


async def test_a_cancelled_wait_is_not_woken() -> None:
    live = Live()
    held: list[asyncio.Future[bool]] = []
    with live.watch(ONE) as topic:
        waiting = asyncio.create_task(wait_for_change([topic], [topic.version], LONG_S, held.append))
        await turn()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        live.publish([record(ONE, 0, b"abc")])
        assert held[0].cancelled()


def test_frames_are_shared_until_the_next_change() -> None:
    live = Live()
    with live.watch(ONE) as topic:
        topic.frames["name"] = b"frame"
        live.publish([record(TWO, 0, b"x")])
        assert topic.frames == {"name": b"frame"}
        live.publish([record(ONE, 0, b"x")])
        assert topic.frames == {}


async def test_release_wakes_all_readers() -> None:
    live = Live()
    with live.watch(ONE) as one, live.watch(TWO) as two:
        waits = [start_waiting(one), start_waiting(two)]
        await turn()
        assert not live.closing
        live.release()
        await asyncio.wait_for(asyncio.gather(*waits), SOON_S)
        assert live.closing


# The newest record of topics that nobody watches


def test_the_newest_record_of_a_topic_that_nobody_watches_is_kept() -> None:
    live = Live()
    live.publish([record(ONE, 0, b"abc"), record(ONE, 3, b"de"), record(TWO, 0, b"x", Kind.CLOSE)])
    assert live.read_newest(ONE, 3, 5) == Chunk(3, 5, b"de")
    for start, end in ((0, 3), (3, 4), (3, 6), (4, 5)):
        assert live.read_newest(ONE, start, end) is None
    assert live.read_newest(TWO, 0, 1) is None


def test_a_large_record_is_not_kept_and_hides_no_older_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NEWEST_RECORD_BYTES_MAX", 3)
    live = Live()
    live.publish([record(ONE, 0, b"abc"), record(ONE, 3, b"defg")])
    assert live.read_newest(ONE, 3, 7) is None


def test_the_newest_records_of_a_limited_number_of_topics_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NEWEST_RECORDS_MAX", 2)
    live = Live()
    for topic in (ONE, TWO):
        live.publish([record(topic, 0, b"a")])
    live.publish([record(ONE, 1, b"b"), record(THREE, 0, b"a")])
    assert live.read_newest(ONE, 1, 2) is not None
    assert live.read_newest(TWO, 0, 1) is None
    assert live.read_newest(THREE, 0, 1) is not None
