"""The cache of pages: what it finds, and what it evicts."""

from mainstem.log.records import TopicId
from mainstem.streams.reading.page_cache import ENTRY_BYTES, CachedPage, PageCache

ONE, TWO = TopicId(1), TopicId(2)


def whole(end: int, body: bytes = b"body") -> CachedPage:
    return CachedPage(end, True, body, None)


def test_a_page_is_found_by_stream_position_and_encoding() -> None:
    cache = PageCache()
    page = whole(10)
    cache.keep(ONE, 0, "gzip", page)
    assert cache.find(ONE, 0, "gzip", 99) is page
    for topic, start, accepts in ((TWO, 0, "gzip"), (ONE, 1, "gzip"), (ONE, 0, None), (ONE, 0, "br")):
        assert cache.find(topic, start, accepts, 99) is None


def test_a_page_that_ended_with_the_stream_is_used_only_until_the_stream_grows() -> None:
    cache = PageCache()
    last = CachedPage(10, False, b"body", None)
    cache.keep(ONE, 0, None, last)
    assert cache.find(ONE, 0, None, 10) is last
    assert cache.find(ONE, 0, None, 11) is None
    longer = CachedPage(11, False, b"longer", None)
    cache.keep(ONE, 0, None, longer)
    assert cache.find(ONE, 0, None, 11) is longer


def test_the_least_recently_used_page_is_evicted_first() -> None:
    body = b"x" * 10_000
    cache = PageCache(10 * (len(body) + ENTRY_BYTES))
    for start in range(10):
        cache.keep(ONE, start, None, whole(99, body))
    assert cache.find(ONE, 0, None, 99) is not None
    cache.keep(TWO, 0, None, whole(99, body))
    assert [start for start in range(10) if cache.find(ONE, start, None, 99) is None] == [1]
    assert cache.find(TWO, 0, None, 99) is not None


def test_a_page_that_replaces_another_takes_its_space() -> None:
    body = b"x" * 10_000
    cache = PageCache(10 * (len(body) + ENTRY_BYTES))
    for start in range(9):
        cache.keep(ONE, start, None, whole(99, body))
    for _ in range(20):
        cache.keep(TWO, 0, None, whole(99, body))
    assert all(cache.find(ONE, start, None, 99) for start in range(9))


def test_a_page_that_would_evict_many_others_is_not_kept() -> None:
    cache = PageCache(80_000)
    cache.keep(ONE, 0, None, whole(99))
    cache.keep(TWO, 0, None, whole(99, b"x" * 10_001))
    assert cache.find(TWO, 0, None, 99) is None
    assert cache.find(ONE, 0, None, 99) is not None
