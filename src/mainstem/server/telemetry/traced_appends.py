"""Remembers which trace has appended what, so that the calls of webhooks continue these traces."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

from mainstem import limits

Context = TypeVar("Context")


class TracedAppends(Generic[Context]):
    """The latest traced appends of the streams that were appended to last. Offsets are text, which sorts like them."""

    def __init__(self) -> None:
        self._by_path: OrderedDict[str, deque[tuple[str, Context]]] = OrderedDict()

    def add(self, path: str, end: str, context: Context) -> None:
        """Remember an append by the offset at its end."""
        known = self._by_path.get(path)
        if known is None:
            known = self._by_path[path] = deque(maxlen=limits.TRACED_APPENDS_PER_STREAM_MAX)
        self._by_path.move_to_end(path)
        known.append((end, context))
        if len(self._by_path) > limits.TRACED_STREAMS_MAX:
            self._by_path.popitem(last=False)

    def find(self, path: str, after: str, until: str) -> list[Context]:
        """Return the traces of the appends between two offsets, the first one first."""
        return [context for end, context in self._by_path.get(path, ()) if after < end <= until]
