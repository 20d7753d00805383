"""Producers for plain appends, so that the client can retry each append without storing it twice.

An append in flight has a producer to itself, because the seqs of one producer must arrive in order. When the append is
done, the next one reuses its producer. So a stream knows as many producers of a client as that client ever had appends
to it in flight at the same time.
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
        """Start a new epoch after an append with an unknown outcome. It fences that append, should it still arrive."""
        self.epoch += 1
        self.seq = 0


class ProducerPool:
    """The idle producers of each stream. The least recently used streams are discarded first."""

    def __init__(self, make_id: Callable[[], str], streams_max: int = limits.CLIENT_STREAMS_KNOWN_MAX) -> None:
        self._make_id = make_id
        self._streams_max = streams_max
        self._idle: OrderedDict[str, list[PooledProducer]] = OrderedDict()

    def acquire(self, path: str) -> PooledProducer:
        try:  # without a check first, because threads share a client
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
            return  # another thread removed it; losing an idle producer does no harm

    def forget(self, path: str) -> None:
        """Discard the producers of a deleted stream: a stream that is created in its place knows none of them."""
        self._idle.pop(path, None)
