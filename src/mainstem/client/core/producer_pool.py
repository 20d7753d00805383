"""Producer ids for plain appends, so that each of them can be retried without being stored twice.

An append in flight holds a producer of its own, an id with the next seq, because the seqs of one producer must arrive
in order. When the append is done, the next one takes over its producer. So a stream knows as many producers of a client
as that client ever had appends in flight to it at once.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from mainstem import limits


@dataclass
class PooledProducer:
    producer_id: str
    epoch: int = 0
    seq: int = 0

    def advance(self) -> None:
        self.seq += 1

    def bump_epoch(self) -> None:
        """Nobody knows whether its last append is stored. A new epoch also fences it, should it still arrive."""
        self.epoch += 1
        self.seq = 0


class ProducerPool:
    """The idle producers of each stream. Streams that were not written to for longest are forgotten first."""

    def __init__(self, make_id: Callable[[], str], streams_max: int = limits.CLIENT_STREAMS_KNOWN_MAX) -> None:
        self._make_id = make_id
        self._streams_max = streams_max
        self._idle: OrderedDict[str, list[PooledProducer]] = OrderedDict()

    def acquire(self, path: str) -> PooledProducer:
        try:  # without looking first: threads share a client
            return self._idle[path].pop()
        except (KeyError, IndexError):
            return self.make()

    def make(self) -> PooledProducer:
        return PooledProducer(self._make_id())

    def release(self, path: str, producer: PooledProducer) -> None:
        self._idle.setdefault(path, []).append(producer)
        try:
            self._idle.move_to_end(path)
            while len(self._idle) > self._streams_max:
                self._idle.popitem(last=False)
        except KeyError:
            return  # another thread was quicker, and a producer that is lost costs nothing

    def forget(self, path: str) -> None:
        """The stream is deleted: one that is created in its place knows no producers."""
        self._idle.pop(path, None)
