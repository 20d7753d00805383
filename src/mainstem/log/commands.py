"""The Command contract: a command names the states it needs and decides from them, without clock, disk or network.

The committer loads the states that a whole batch needs at once. Each command's `apply` then reads and writes one
in-memory `View`, and the store makes everything that the view has gathered durable in one transaction.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from mainstem.log.records import CommittedId, Kind, Record, TopicId

State = msgspec.Struct
S = TypeVar("S", bound=msgspec.Struct)
T_co = TypeVar("T_co", covariant=True)


def never_due(state: Any) -> int | None:
    return None


class Space(Generic[S]):
    """A numbered group of states of one type. The numbers, which are on disk, are listed in `mainstem.log.spaces`."""

    declared: ClassVar[dict[int, "Space[Any]"]] = {}
    """By number, every space of the modules that have been imported."""

    def __init__(
        self, number: int, type_: type[S], due: Callable[[S], int | None] = never_due, *, cached: bool = True
    ) -> None:
        if number in Space.declared:
            raise ValueError(f"space {number!r} is declared twice")
        Space.declared[int(number)] = self
        self.number = int(number)
        self.cached = cached
        """False for states that are rarely read twice: they would push others out of the cache."""
        self.due = due
        """Returns the time, in microseconds, at which a state needs attention; stores keep an index of it."""
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(type_).decode


class Key(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The name of one state. A struct, because these are created several times as fast as tuples with names."""

    space: Space[Any]
    name: str


class Command(Protocol[T_co]):
    @property
    def size(self) -> int:
        """The bytes that this command holds in memory while it waits."""

    def needs(self) -> Iterable[Key]:
        """Return the key of every state that `apply` may read or write."""

    def apply(self, view: "View") -> T_co:
        """Decide, and return the outcome. Pure: it reads and writes nothing but the view.

        If it raises, the view is left as it was.
        """


class Freeing:
    """Marks commands that free disk space. On a full disk the log still tries these, with the reserved space."""

    __slots__ = ()


class Sizeless:
    """Marks commands that hold no data while they wait."""

    __slots__ = ()
    size = 0


UNCHANGED: Final[Any] = object()
"""Stands for a key that no command of the batch has changed."""


class View:
    """The states that one batch of commands reads, and the changes that it makes."""

    __slots__ = ("_base", "_states", "_undo", "changes", "now_us", "records")

    def __init__(self, states: Mapping[Key, State | None], head: CommittedId, now_us: int) -> None:
        self.now_us = now_us
        self.changes: dict[Key, State | None] = {}
        self.records: list[Record] = []
        self._base = head
        self._states = states
        self._undo: list[tuple[Key, Any]] = []
        """What the current command has replaced: the change before it, or UNCHANGED."""

    @property
    def head(self) -> CommittedId:
        """The head of the log once this view is durable."""
        return CommittedId(self._base + len(self.records))

    def get(self, key: Key) -> Any:
        """Return the state of a key that some command's `needs` named. Any other key is a bug and raises KeyError."""
        state = self.changes.get(key, UNCHANGED)
        return self._states[key] if state is UNCHANGED else state

    def put(self, key: Key, state: State | None) -> None:
        """Replace a state, or remove it with None."""
        changes = self.changes
        self._undo.append((key, changes.get(key, UNCHANGED)))
        changes[key] = state

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
        """Append a record, and return its committed id. With topic None, the record begins a topic of the same id."""
        records = self.records
        committed_id = CommittedId(self._base + len(records) + 1)
        if topic is None:
            topic = TopicId(committed_id)
        records.append(Record(committed_id, self.now_us, kind, topic, start, end, messages, data, source, tags, origin))
        return committed_id

    def run(self, command: Command[T_co]) -> T_co:
        """Apply one command; if it raises, undo what it wrote to the view."""
        self._undo.clear()
        records = len(self.records)
        try:
            return command.apply(self)
        except BaseException:
            del self.records[records:]
            for key, before in reversed(self._undo):
                if before is UNCHANGED:
                    del self.changes[key]
                else:
                    self.changes[key] = before
            raise
