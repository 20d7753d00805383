"""What the calls of a history say about each message and each event: when it was sent, and where it was seen."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import (
    AnyCall,
    Append,
    Broadcast,
    Delete,
    Event,
    LogPage,
    PartitionPage,
    Read,
    Submit,
    SyncPage,
    size_of,
)
from mainstem.testing.history.violations import Violation


class Incarnation(NamedTuple):
    """A stream from its creation to its deletion."""

    path: str
    read_seq: int


class Place(NamedTuple):
    stream: Incarnation
    position: int


class Entry(msgspec.Struct):
    """A message or an event. Its times include everything that is known of it."""

    name: str
    writes: list[Append | Submit]
    sent: float = inf
    """The start of the first write that the server did not refuse."""
    known: float = inf
    """The first time at which a client knew that it was stored."""
    witness: AnyCall | None = None
    """The call from which that client knew."""
    committed_id: int | None = None
    place: Place | None = None
    event: Event | None = None

    def see(self, call: AnyCall) -> None:
        if call.latest < self.known or self.witness is None:
            self.known, self.witness = call.latest, call

    @property
    def proof(self) -> tuple[AnyCall, ...]:
        """The calls that show when it was sent, and that it was stored."""
        calls = [*self.writes[:1], *([] if self.witness is None else [self.witness])]
        return tuple({id(call): call for call in calls}.values())


class Entries:
    """All messages and events of a history. `violations` holds what cannot be true of a single one of them."""

    def __init__(self, calls: Iterable[AnyCall]) -> None:
        self.violations: list[Violation] = []
        self.messages: dict[str, Entry] = {}
        self.events: dict[str, Entry] = {}
        self.streams: dict[Incarnation, dict[int, Entry]] = defaultdict(dict)
        """The messages of each stream by their positions."""
        self.by_id: dict[int, list[Entry]] = defaultdict(list)
        """The messages of each append, and each event, by committed id."""
        self.deletes: dict[str, list[float]] = defaultdict(list)
        """The starts of all deletes of a path that may have taken effect, in order."""
        calls = list(calls)
        for call in calls:
            self._take_write(call)
        for starts in self.deletes.values():
            starts.sort()
        for call in calls:
            self._take_sights(call)
        for entry in self._all():
            if entry.known < entry.sent < inf:
                self._report(
                    "known before it was sent", f"{entry.name!r} was seen before anybody sent it", *entry.proof
                )

    def _all(self) -> Iterator[Entry]:
        yield from self.messages.values()
        yield from self.events.values()

    def may_be_deleted(self, stream: Incarnation, before: float) -> bool:
        """Return whether enough deletes of its path began before this time to have deleted this incarnation."""
        starts = self.deletes.get(stream.path, ())
        return stream.read_seq < len(starts) and starts[stream.read_seq] < before

    def _report(self, rule: str, detail: str, *calls: AnyCall) -> None:
        self.violations.append(Violation(rule, detail, calls))

    # Writes

    def _take_write(self, call: AnyCall) -> None:
        if isinstance(call, Append):
            for message in call.messages:
                self._take_attempt(self.messages, message, call)
        elif isinstance(call, Submit):
            self._take_attempt(self.events, call.id, call)
        elif isinstance(call, Delete) and not call.refused:
            self.deletes[call.path].append(call.start)

    def _take_attempt(self, known: dict[str, Entry], name: str, call: Append | Submit) -> None:
        entry = known.get(name)
        if entry is None:
            entry = known[name] = Entry(name, [])
        entry.writes.append(call)
        if not call.refused:
            entry.sent = min(entry.sent, call.start)
        if call.accepted:
            entry.see(call)

    # Where they were seen

    def _take_sights(self, call: AnyCall) -> None:
        if isinstance(call, Append):
            if call.known_start is not None:
                self._place(call.path, call.known_start, call.messages, call)
        elif isinstance(call, Read):
            if call.accepted and call.first is not None:
                self._place(call.path, call.first, call.messages, call)
        elif isinstance(call, Submit):
            if call.accepted and call.committed_id is not None:
                self._see_event(Event(call.committed_id, call.id, call.partitions, call.content), call)
        elif isinstance(call, Broadcast):
            self._see_event(call.event, call)
        elif isinstance(call, SyncPage | PartitionPage):
            for event in call.events:
                self._see_event(event, call)
        elif isinstance(call, LogPage):
            for row in call.rows:
                entry = self._place_one(
                    Place(Incarnation(row.path, row.start.read_seq), row.start.position), row.message, call
                )
                if entry is not None:
                    self._number(entry, row.committed_id, call)
            for event in call.events:
                self._see_event(event, call)

    def _place(self, path: str, start: Offset, messages: Iterable[str], call: AnyCall) -> None:
        stream, position = Incarnation(path, start.read_seq), start.position
        for message in messages:
            self._place_one(Place(stream, position), message, call)
            position += size_of((message,))

    def _place_one(self, place: Place, message: str, call: AnyCall) -> Entry | None:
        entry = self.messages.get(message)
        if entry is None:
            self._report("invented message", f"nobody sent {message!r}, which is in {_name(place)}", call)
            return None
        entry.see(call)
        if entry.place == place:
            return entry
        if entry.place is not None:
            others = tuple(other for other in (entry.witness, call) if other is not None)
            self._report("stored twice", f"{message!r} is in {_name(entry.place)} and in {_name(place)}", *others)
            return None
        entry.place = place
        write = entry.writes[0]
        if isinstance(write, Append) and write.path != place.stream.path:
            self._report(
                "wrong stream", f"{message!r} was sent to {write.path!r}, but is in {_name(place)}", write, call
            )
        if entry.sent == inf:
            self._report("refused but stored", f"{message!r} is in {_name(place)}", write, call)
        other = self.streams[place.stream].setdefault(place.position, entry)
        if other is not entry:
            self._report(
                "readers disagree", f"{_name(place)} holds {other.name!r} and {message!r}", *entry.proof, *other.proof
            )
        return entry

    def _number(self, entry: Entry, committed_id: int, call: AnyCall) -> None:
        if entry.committed_id is None:
            entry.committed_id = committed_id
            self.by_id[committed_id].append(entry)
        elif entry.committed_id != committed_id:
            self._report(
                "two committed ids", f"{entry.name!r} has {entry.committed_id} and {committed_id}", *entry.proof, call
            )

    def _see_event(self, event: Event, call: AnyCall) -> None:
        entry = self.events.get(event.id)
        if entry is None:
            self._report("invented event", f"nobody submitted {event.id!r}, which has id {event.committed_id}", call)
            return
        entry.see(call)
        if entry.event is None:
            if entry.sent == inf:
                self._report("refused but stored", f"event {event.id!r}, as {event.committed_id}", *entry.proof)
            if not any(
                isinstance(write, Submit) and (write.partitions, write.content) == event[2:] for write in entry.writes
            ):
                self._report("changed event", f"{event.id!r} differs from what was submitted", *entry.proof)
            entry.event = event
        elif event[2:] != entry.event[2:]:
            self._report("changed event", f"{event.id!r} differs between two readers", *entry.proof, call)
        self._number(entry, event.committed_id, call)


def _name(place: Place) -> str:
    return f"{place.stream.path!r} at {Offset(place.stream.read_seq, place.position)}"
