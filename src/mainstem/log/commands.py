"""The Command contract: what a change must see, and how it decides, with no clock, disk or network.

A command names the states that it needs, the committer loads them for a whole batch at once, and `apply` then reads
and writes one in-memory `View`. Whatever the view gathered is made durable in one transaction.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from mainstem.log.records import CommittedId, Kind, Record, TopicId

State = msgspec.Struct
S = TypeVar("S", bound=msgspec.Struct)
T_co = TypeVar("T_co", covariant=True)


def _never(state: Any) -> int | None:
    return None


class Space(Generic[S]):
    """A family of states of one type. The numbers, which are on disk, are listed in `mainstem.log.spaces`."""

    declared: ClassVar[dict[int, "Space[Any]"]] = {}
    """Every space of the modules that are imported, by number."""

    def __init__(
        self, number: int, type_: type[S], due: Callable[[S], int | None] = _never, *, cached: bool = True
    ) -> None:
        if number in Space.declared:
            raise ValueError(f"space {number!r} is declared twice")
        Space.declared[int(number)] = self
        self.number = int(number)
        self.cached = cached
        """False for states that are looked at once and then hardly ever again: they would crowd out the others."""
        self.due = due
        """When (in microseconds) somebody should look at this state again; stores keep an index of it."""
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(type_).decode


class Key(NamedTuple):
    space: Space[Any]
    name: str


class Command(Protocol[T_co]):
    @property
    def size(self) -> int:
        """Bytes that this command holds in memory while it waits."""

    def needs(self) -> Iterable[Key]:
        """Every state that `apply` may read or write."""

    def apply(self, view: "View") -> T_co:
        """Decide. Pure: reads the view, writes to the view. A raised error leaves the view as it was."""


class Freeing:
    """Marks commands that give room back. They are let through when the disk is full, as far as that can be."""

    __slots__ = ()


class Sizeless:
    """A command that holds no data while it waits."""

    __slots__ = ()
    size = 0


class View:
    """The states that one batch of commands sees, and the changes that they make."""

    __slots__ = ("_base", "_states", "_undo", "changes", "now_us", "records")

    def __init__(self, states: Mapping[Key, State | None], head: CommittedId, now_us: int) -> None:
        self.now_us = now_us
        self.changes: dict[Key, State | None] = {}
        self.records: list[Record] = []
        self._base = head
        self._states = states
        self._undo: list[tuple[Key, bool, State | None]] = []

    @property
    def head(self) -> CommittedId:
        """The highest committed id once this view is durable."""
        return CommittedId(self._base + len(self.records))

    def get(self, key: Key) -> Any:
        """The state under a needed key. A key that was not needed is a bug, so it raises KeyError."""
        if key in self.changes:
            return self.changes[key]
        return self._states[key]

    def put(self, key: Key, state: State | None) -> None:
        """Replace a state; None removes it."""
        self._undo.append((key, key in self.changes, self.changes.get(key)))
        self.changes[key] = state

    def append(
        self,
        kind: Kind,
        topic: TopicId | None,
        start: int,
        end: int,
        messages: int = 0,
        data: bytes = b"",
        source: str | None = None,
        tags: tuple[str, ...] = (),
        origin: int = 0,
    ) -> CommittedId:
        """Take the next committed id. A topic of None begins a topic that is named by this very id."""
        committed_id = CommittedId(self._base + len(self.records) + 1)
        of = TopicId(committed_id) if topic is None else topic
        self.records.append(
            Record(committed_id, self.now_us, kind, of, start, end, messages, data, source, tags, origin)
        )
        return committed_id

    def run(self, command: Command[T_co]) -> T_co:
        """Apply one command; what it wrote before it raised is taken back."""
        self._undo.clear()
        records = len(self.records)
        try:
            return command.apply(self)
        except BaseException:
            del self.records[records:]
            for key, was_changed, before in reversed(self._undo):
                if was_changed:
                    self.changes[key] = before
                else:
                    del self.changes[key]
            raise
