"""A cache of pages that were read lately, encoded as they are sent."""

from collections import OrderedDict
from typing import Final, NamedTuple

from mainstem import limits
from mainstem.http.asgi import HeaderList
from mainstem.log.records import TopicId

ENTRY_BYTES: Final = 2_000
"""Roughly what an entry takes besides the body."""


class PageHeaders(NamedTuple):
    """The headers of a reply with a page."""

    etag: str
    unchanged: HeaderList
    """Those of a 304 in its place."""
    all: HeaderList


class CachedPage:
    """The data of a stream from some position, as the body of a reply."""

    __slots__ = ("body", "encoding", "end", "headers", "whole")

    def __init__(self, end: int, whole: bool, body: bytes, encoding: str | None) -> None:
        self.end = end
        """The position after the last byte."""
        self.whole = whole
        """Whether more data would not fit into the page. Otherwise it ends where the stream ended."""
        self.body = body
        self.encoding = encoding
        """The Content-Encoding of the body."""
        self.headers: dict[tuple[bool, bool], PageHeaders] = {}
        """The headers, by whether the page is up to date and whether it ends a closed stream."""


class PageCache:
    """Keeps pages by stream, position and accepted encoding, and evicts the least recently used.

    Data never changes, so an entry stays correct; one that is not whole is replaced when the stream has grown.
    """

    def __init__(self, bytes_max: int = limits.PAGE_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._pages: OrderedDict[tuple[TopicId, int, str | None], CachedPage] = OrderedDict()

    def find(self, topic: TopicId, start: int, accepts: str | None, tail: int) -> CachedPage | None:
        """Return the page from a position, for a stream that ends at `tail`."""
        key = topic, start, accepts
        page = self._pages.get(key)
        if page is None or not (page.whole or page.end == tail):
            return None
        self._pages.move_to_end(key)
        return page

    def keep(self, topic: TopicId, start: int, accepts: str | None, page: CachedPage) -> None:
        key = topic, start, accepts
        before = self._pages.pop(key, None)
        if before is not None:
            self._size -= len(before.body) + ENTRY_BYTES
        if len(page.body) > self._bytes_max // 8:
            return  # it would evict too many others
        self._pages[key] = page
        self._size += len(page.body) + ENTRY_BYTES
        while self._size > self._bytes_max:
            _, oldest = self._pages.popitem(last=False)
            self._size -= len(oldest.body) + ENTRY_BYTES
