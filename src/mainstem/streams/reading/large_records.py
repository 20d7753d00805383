"""A cache of large records that are being read, kept in memory until their readers have finished.

A reader receives a large append in many pieces, but the store returns whole records. Without this cache, each piece
would cost a read of the whole record: 64 GiB for an append of 64 MiB in events of 64 KiB.
"""

from collections import OrderedDict

from mainstem import limits
from mainstem.log.records import Chunk, TopicId


class LargeRecords:
    """Keeps one record per topic and evicts the least recently used."""

    def __init__(self, bytes_max: int = limits.LARGE_RECORDS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self._chunks: OrderedDict[TopicId, Chunk] = OrderedDict()

    def find(self, topic: TopicId, at: int) -> Chunk | None:
        chunk = self._chunks.get(topic)
        if chunk is None or not chunk.start <= at < chunk.end:
            return None
        self._chunks.move_to_end(topic)
        return chunk

    def keep(self, topic: TopicId, chunk: Chunk) -> None:
        self.forget(topic)
        if len(chunk.data) > self._bytes_max:
            return
        self._chunks[topic] = chunk
        self._size += len(chunk.data)
        while self._size > self._bytes_max:
            _, oldest = self._chunks.popitem(last=False)
            self._size -= len(oldest.data)

    def forget(self, topic: TopicId) -> None:
        chunk = self._chunks.pop(topic, None)
        if chunk is not None:
            self._size -= len(chunk.data)
