"""Records calls while clients make them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mainstem.testing.history.calls import AnyCall

C = TypeVar("C", bound=AnyCall)


class Recorder:
    """A history in memory. `clock` is any clock that never goes back, virtual ones included."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.calls: list[AnyCall] = []

    @contextmanager
    def record(self, call: C) -> Iterator[C]:
        """Record a call that begins now. Set what the server answers within the block, at whose end the call ends.

        If the block raises, the outcome is unknown, and the exception is passed on.
        """
        call.start = self.clock()
        self.calls.append(call)
        yield call
        call.end = self.clock()

    def add(self, call: AnyCall) -> None:
        """Record something that arrived just now, such as a broadcast. Its start is set already."""
        call.end = self.clock()
        self.calls.append(call)
