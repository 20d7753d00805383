from mainstem.log.records import Chunk, TopicId
from mainstem.streams.reading.large_records import LargeRecords

ONE, TWO, THREE = TopicId(1), TopicId(2), TopicId(3)


def chunk(start: int, size: int) -> Chunk:
    return Chunk(start, start + size, b"x" * size)


def test_a_record_is_found_by_each_of_its_bytes_and_by_no_other():
    records = LargeRecords(100)
    records.keep(ONE, kept := chunk(10, 20))
    assert [records.find(ONE, at) for at in (9, 10, 29, 30)] == [None, kept, kept, None]
    assert records.find(TWO, 10) is None


def test_the_least_recently_used_record_is_evicted():
    records = LargeRecords(100)
    records.keep(ONE, chunk(0, 40))
    records.keep(TWO, chunk(0, 40))
    records.find(ONE, 0)
    records.keep(THREE, chunk(0, 60))
    assert [records.find(topic, 0) is not None for topic in (ONE, TWO, THREE)] == [True, False, True]


def test_a_record_that_is_too_large_is_not_kept_and_a_newer_record_replaces_an_older_one():
    records = LargeRecords(100)
    records.keep(ONE, chunk(0, 101))
    assert records.find(ONE, 0) is None
    for start in range(0, 1000, 100):
        records.keep(ONE, chunk(start, 100))
        assert records.find(ONE, start) is not None
    records.forget(ONE)
    records.keep(TWO, chunk(0, 100))
    assert records.find(TWO, 0) is not None
