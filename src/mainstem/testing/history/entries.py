"""What the calls of a history say about each message and each event: when it was sent, and where it was seen."""

from bisect import bisect_left
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
    Create,
    Delete,
    Event,
    Head,
    LogPage,
    PartitionPage,
    Prune,
    Read,
    Submit,
    SyncPage,
    size_of,
)
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation


class Incarnation(NamedTuple):
    """A stream from its creation to its deletion."""

    path: str
    read_seq: int


class Place(NamedTuple):
    stream: Incarnation
    position: int


class Fork(NamedTuple):
    """Where the beginning of a fork is stored: in another stream, up to a position."""

    source: Incarnation
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
        self.deaths: dict[str, list[float]] = defaultdict(list)
        """The starts of all deletes of a path that may have taken effect, and when its streams may have expired at the
        earliest, in order."""
        self.ttls: dict[str, float] = {}
        """The TTL of the streams of a path."""
        self.forks: dict[Incarnation, Fork] = {}
        self.earliest: dict[Incarnation, int] = {}
        """The position up to which the data of a stream was trimmed at the end of the history, as far as that is
        known."""
        calls = list(calls)
        self._floors = _find_floors(calls)
        for call in calls:
            self._take_write(call)
            self._take_stream(call)
        self._find_expiries(calls)
        for starts in self.deaths.values():
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

    def count_deaths(self, path: str, before: float) -> int:
        """Return how many streams of a path may have been deleted, or may have expired, before this time."""
        return bisect_left(self.deaths.get(path, ()), before)

    def may_be_deleted(self, stream: Incarnation, before: float) -> bool:
        """Return whether this incarnation may have been deleted, or may have expired, before this time."""
        if stream in self.forks:  # the number of its first incarnation is that of its source
            return self.count_deaths(stream.path, before) > 0
        return self.count_deaths(stream.path, before) > stream.read_seq

    def may_be_gone(self, place: Place, before: float) -> bool:
        """Return whether a message may have been deleted with its stream before this time, or trimmed at any time."""
        return place.position < self.earliest.get(place.stream, 0) or self.may_be_deleted(place.stream, before)

    def may_be_pruned(self, event: Event, before: float) -> bool:
        """Return whether enough prunes began before this time to have erased an event."""
        for name in event.partitions:
            floor = self._floors[name].before(before) if name in self._floors else None
            if floor is None or floor[0] < event.committed_id:
                return False
        return True

    def may_be_erased(self, entry: Entry, before: float) -> bool:
        """Return whether the log may be without an event or a message at this time."""
        if entry.event is not None:
            return self.may_be_pruned(entry.event, before)
        return entry.place is not None and self.may_be_gone(entry.place, before)

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
            self.deaths[call.path].append(call.start)

    def _take_stream(self, call: AnyCall) -> None:
        """Note what a call says about where a stream begins, and when it ends."""
        if isinstance(call, Create) and call.ttl is not None:
            self.ttls[call.path] = call.ttl
        if isinstance(call, Create) and call.accepted and call.fork_point is not None and call.next is not None:
            source = Incarnation(call.source, call.fork_point.read_seq)
            self.forks[Incarnation(call.path, call.next.read_seq)] = Fork(source, call.fork_point.position)
        elif isinstance(call, Head | Read) and call.earliest is not None:
            stream = Incarnation(call.path, call.earliest.read_seq)
            self.earliest[stream] = max(self.earliest.get(stream, 0), call.earliest.position)

    def _find_expiries(self, calls: Iterable[AnyCall]) -> None:
        """Note when each stream with a TTL may have expired: that long after the last write of which a client knows.

        Reads postpone it as well, but a crash may undo that.
        """
        used: dict[Incarnation, float] = {}
        ttls = self.ttls
        for call in calls:
            if not isinstance(call, Create | Append) or call.path not in ttls or call.refused:
                continue
            if call.next is not None:
                if isinstance(call, Append) or call.new:
                    stream = Incarnation(call.path, call.next.read_seq)
                    used[stream] = max(used.get(stream, 0.0), call.start)
            elif isinstance(call, Create):  # nobody knows whether it created one
                self.deaths[call.path].append(call.start + ttls[call.path])
        for stream, start in used.items():
            self.deaths[stream.path].append(start + ttls[stream.path])

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
        place = self._resolve(place)
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

    def _resolve(self, place: Place) -> Place:
        """Return where a message is stored: the beginning of a fork is in its source."""
        while (fork := self.forks.get(place.stream)) is not None and place.position < fork.position:
            place = Place(fork.source, place.position)
        return place

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
            possible = [write for write in entry.writes if isinstance(write, Submit) and not write.refused]
            if not possible:
                self._report("refused but stored", f"event {event.id!r}, as {event.committed_id}", *entry.proof)
            elif not any((write.partitions, write.content) == event[2:] for write in possible):
                self._report("changed event", f"{event.id!r} differs from what was submitted", *entry.proof)
            entry.event = event
        elif event[2:] != entry.event[2:]:
            self._report("changed event", f"{event.id!r} differs between two readers", *entry.proof, call)
        self._number(entry, event.committed_id, call)


def _name(place: Place) -> str:
    return f"{place.stream.path!r} at {Offset(place.stream.read_seq, place.position)}"


def _find_floors(calls: Iterable[AnyCall]) -> dict[str, Highest[Prune]]:
    """Return the highest floor of each partition that any client had asked for at any time."""
    asked: dict[str, list[tuple[float, int, Prune]]] = defaultdict(list)
    for call in calls:
        if isinstance(call, Prune) and not call.refused:
            for name, floor in call.floors.items():
                asked[name].append((call.start, floor, call))
    return {name: Highest(found) for name, found in asked.items()}
