"""Producer numbers for plain appends, so that each of them can be retried without being stored twice.

An append in flight has a lane: a producer id with the next seq. Appends that are in flight together need lanes of their
own, as seqs must arrive in order; when one is done, the next append takes its lane. So a stream knows as many producers
of a client as that client ever had appends in flight to it at once.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from mainstem import limits


@dataclass
class Lane:
    producer_id: str
    epoch: int = 0
    seq: int = 0

    def advance(self) -> None:
        self.seq += 1

    def abandon(self) -> None:
        """Nobody knows whether its last append is stored. A new epoch also fences it, should it still arrive."""
        self.epoch += 1
        self.seq = 0


class Lanes:
    """The idle lanes of each stream. Streams that were not written to for longest are forgotten first."""

    def __init__(self, make_id: Callable[[], str], streams_max: int = limits.CLIENT_STREAMS_KNOWN_MAX) -> None:
        self._make_id = make_id
        self._streams_max = streams_max
        self._idle: OrderedDict[str, list[Lane]] = OrderedDict()

    def take(self, path: str) -> Lane:
        try:  # without looking first: threads share a client
            return self._idle[path].pop()
        except (KeyError, IndexError):
            return self.make()

    def make(self) -> Lane:
        return Lane(self._make_id())

    def give_back(self, path: str, lane: Lane) -> None:
        self._idle.setdefault(path, []).append(lane)
        try:
            self._idle.move_to_end(path)
            while len(self._idle) > self._streams_max:
                self._idle.popitem(last=False)
        except KeyError:
            return  # another thread was quicker, and a lane that is lost costs nothing

    def forget(self, path: str) -> None:
        """The stream is deleted: one that is created in its place knows no producers."""
        self._idle.pop(path, None)
