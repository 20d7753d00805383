"""A read-only snapshot of a store on disk, for checks and backups.

SQLite and PostgreSQL have the same tables, so most statements are here; each store adds how to run them, and a check
of what only it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from mainstem import limits
from mainstem.log.commands import S, Space
from mainstem.log.identity import IDENTITY, IDENTITY_KEY, LogIdentity
from mainstem.log.records import Kind

T = TypeVar("T")


class Finding(NamedTuple):
    """One violation of a rule, and where it was found."""

    rule: str
    detail: str


class Figures(NamedTuple):
    """How much a store holds, to compare a copy with its source."""

    head: int
    records: int
    states: int
    tags: int


class Report(NamedTuple):
    figures: Figures
    findings: tuple[Finding, ...]
    more: bool
    """Whether there are more findings than are listed."""


class RecordOutline(NamedTuple):
    """A record without its data; its kind may be unknown to this version."""

    committed_id: int
    kind: int
    topic: int
    start: int
    end: int
    messages: int
    data_bytes: int


class Append(NamedTuple):
    """The position of an append in its topic."""

    topic: int
    start: int
    end: int
    committed_id: int


class Event(NamedTuple):
    committed_id: int
    source: str | None
    data: bytes


class StoredState(NamedTuple):
    """A state as it is stored; its space may be unknown to this version."""

    space: int
    name: str
    due_us: int | None
    value: bytes


class StoreSnapshot(ABC):
    """A view of the store as it was at one moment, whatever servers write meanwhile. It cannot change the store.

    The `scan_*` methods read everything in bounded memory. The `find_*` methods take as many keys as `batches` yields.
    """

    storage: ClassVar[str]
    """The name of the rule that damage to the storage itself violates."""
    read_errors: ClassVar[tuple[type[Exception], ...]]
    """The exceptions that reading damaged data raises."""

    # What each store implements

    @abstractmethod
    def find_obstacle(self) -> str | None:
        """Return why nothing else can be read from this store; None if it can be."""

    @abstractmethod
    def explain(self, error: Exception) -> str:
        """Return what one of `read_errors` means, in plain words."""

    @abstractmethod
    def check_storage(self) -> Iterator[Finding]:
        """Check what only this kind of store has."""

    @abstractmethod
    def find_extents(self, topics: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return where the data of each topic begins and ends, without topics that have no data."""

    @abstractmethod
    def _scan(self, statement: str, *values: Any) -> Iterator[Any]:
        """Yield the rows of a SELECT with one page in memory at a time. Rows must be small; parameters are `?`."""

    @abstractmethod
    def _fetch(self, statement: str, *values: Any) -> list[Any]:
        """Return all rows of a SELECT."""

    @abstractmethod
    def _encode_text(self, text: str) -> str | bytes: ...

    @abstractmethod
    def _decode_text(self, stored: Any) -> str: ...

    # The log

    def noted_heads(self) -> list[int]:
        """Return the rows of the table `head`; a sound store has exactly one."""
        return [row[0] for row in self._fetch("SELECT committed_id FROM head LIMIT 2")]

    def find_head(self) -> int:
        """Return the head, even if the table `head` has lost its row."""
        ((newest,),) = self._fetch("SELECT max(committed_id) FROM records")
        return max(newest or 0, *self.noted_heads(), 0)

    def find_identity(self) -> LogIdentity | None:
        """Return the identity of the log; None if no server of this version has opened the store."""
        return self.find_states(IDENTITY, [IDENTITY_KEY.name]).get(IDENTITY_KEY.name)

    def measure(self) -> Figures:
        return Figures(self.find_head(), self._count("records"), self._count("states"), self.count_tags())

    def _count(self, table: str) -> int:
        ((number,),) = self._fetch(f"SELECT count(*) FROM {table}")
        return int(number)

    def scan_records(self) -> Iterator[RecordOutline]:
        """Yield all records in the order in which they are stored, which should be that of their ids."""
        columns = 'committed_id, kind, topic, "start", "end", messages, length(data)'
        rows = self._scan(f"SELECT {columns} FROM records ORDER BY committed_id")
        return (RecordOutline(*row) for row in rows)

    def scan_appends(self) -> Iterator[Append]:
        """Yield all appends, by topic and position."""
        appends = f'SELECT topic, "start", "end", committed_id FROM records WHERE kind = {Kind.APPEND:d}'
        return (Append(*row) for row in self._scan(f'{appends} ORDER BY topic, "end"'))

    def scan_topics(self, *kinds: Kind) -> Iterator[int]:
        """Yield each topic that has records of these kinds, once."""
        rows = self._scan(f"SELECT DISTINCT topic FROM records WHERE kind IN ({_list(kinds)}) ORDER BY topic")
        return (row[0] for row in rows)

    def scan_events(self) -> Iterator[list[Event]]:
        """Yield all events in committed order, in batches."""
        rows = self._scan(
            f"SELECT committed_id, length(data) FROM records WHERE kind = {Kind.EVENT:d} ORDER BY committed_id"
        )
        for ids in _batches_by_size((committed_id, size) for committed_id, size in rows):
            found = self._fetch(
                f"SELECT committed_id, source, data FROM records WHERE committed_id IN ({_marks(ids)})"
                " ORDER BY committed_id",
                *ids,
            )
            yield [
                Event(committed_id, None if source is None else self._decode_text(source), data)
                for committed_id, source, data in found
            ]

    def find_kinds(self, ids: Sequence[int]) -> dict[int, int]:
        """Return the kind of the record with each id, without ids that have no record."""
        return dict(self._fetch(f"SELECT committed_id, kind FROM records WHERE committed_id IN ({_marks(ids)})", *ids))

    def find_creates(self, topics: Sequence[int]) -> dict[int, bytes]:
        """Return the data of the records that created these topics."""
        creates = f"SELECT committed_id, data FROM records WHERE kind = {Kind.CREATE:d}"
        return dict(self._fetch(f"{creates} AND committed_id IN ({_marks(topics)})", *topics))

    # Tags

    def count_tags(self) -> int:
        return self._count("tags")

    def scan_tags(self) -> Iterator[tuple[str, int]]:
        rows = self._scan("SELECT tag, committed_id FROM tags ORDER BY tag, committed_id")
        return ((self._decode_text(tag), committed_id) for tag, committed_id in rows)

    def find_tags(self, tags: Sequence[str], first: int, last: int) -> set[tuple[str, int]]:
        """Return the index entries of these tags with ids from `first` to `last`."""
        found: set[tuple[str, int]] = set()
        for some in batches(tags):
            rows = self._fetch(
                f"SELECT tag, committed_id FROM tags WHERE tag IN ({_marks(some)}) AND committed_id BETWEEN ? AND ?",
                *map(self._encode_text, some),
                first,
                last,
            )
            found.update((self._decode_text(tag), committed_id) for tag, committed_id in rows)
        return found

    # States

    def scan_states(self, space: Space[S]) -> Iterator[tuple[str, S]]:
        """Yield all states of a space that can be decoded; `scan_stored_states` yields the others too."""
        rows = self._scan("SELECT name, length(value) FROM states WHERE space = ? ORDER BY name", space.number)
        for names in _batches_by_size((self._decode_text(name), size) for name, size in rows):
            states = self.find_states(space, names)
            yield from ((name, states[name]) for name in names if name in states)

    def find_states(self, space: Space[S], names: Sequence[str]) -> dict[str, S]:
        """Return the states that exist and can be decoded."""
        states: dict[str, S] = {}
        for state in self._fetch_states(space.number, names):
            try:
                states[state.name] = space.decode(state.value)
            except (msgspec.MsgspecError, ValueError):
                continue
        return states

    def scan_stored_states(self) -> Iterator[StoredState]:
        """Yield all states of all spaces, even of spaces unknown to this version."""
        for (space,) in self._fetch("SELECT DISTINCT space FROM states ORDER BY space"):
            rows = self._scan("SELECT name, length(value) FROM states WHERE space = ? ORDER BY name", space)
            for names in _batches_by_size((self._decode_text(name), size) for name, size in rows):
                yield from self._fetch_states(space, names)

    def _fetch_states(self, space: int, names: Sequence[str]) -> list[StoredState]:
        if not names:
            return []
        rows = self._fetch(
            f"SELECT name, due_us, value FROM states WHERE space = ? AND name IN ({_marks(names)}) ORDER BY name",
            space,
            *map(self._encode_text, names),
        )
        return [StoredState(space, self._decode_text(name), due_us, value) for name, due_us, value in rows]


def batches(items: Iterable[T], length_max: int = limits.CHECK_BATCH_MAX) -> Iterator[list[T]]:
    """Yield items in lists that are short enough for one lookup."""
    iterator = iter(items)
    while batch := list(islice(iterator, length_max)):
        yield batch


def _batches_by_size(items: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """Yield keys in lists whose values, given the size of each in bytes, fit into memory together."""
    batch: list[T] = []
    total = 0
    for item, size in items:
        if batch and (len(batch) == limits.CHECK_BATCH_MAX or total + size > limits.CHECK_BATCH_BYTES_MAX):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


def _list(kinds: Iterable[Kind]) -> str:
    return ", ".join(f"{kind:d}" for kind in kinds)


def _marks(values: Sequence[Any]) -> str:
    return ",".join("?" * len(values))
