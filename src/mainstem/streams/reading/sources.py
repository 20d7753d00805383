"""What live reads need to know of a stream or a partition."""

from typing import Protocol

from mainstem.log.records import TopicId
from mainstem.streams.reading.reader import Page
from mainstem.streams.rules.offsets import Offset

Tail = tuple[Offset, bool]
"""The end of a source, and whether it is closed."""


class LiveSource(Protocol):
    """A stream or a partition that can be read live."""

    content_type: str

    @property
    def key(self) -> TopicId | str:
        """The topic or tag whose records wake its readers."""

    @property
    def in_memory(self) -> bool:
        """Whether `refresh` finds the end in memory."""

    @property
    def tail(self) -> Tail:
        """The end as of the last `refresh`."""

    def copy(self) -> "LiveSource":
        """Return the same source for another reader, at the same end."""

    def add_reader(self) -> None:
        """Count a live reader that begins."""

    def remove_reader(self) -> None:
        """Stop counting a live reader that ends."""

    async def refresh(self) -> Tail:
        """Return the current end; raise if the source no longer exists. Later calls of `read` return nothing after this
        end."""

    async def read(self, at: Offset, bytes_max: int) -> Page: ...


def has_news(tail: Tail, start: Offset) -> bool:
    """Return whether a long-poll from `start` has something to report."""
    end, closed = tail
    return end > start or closed
