"""The end of a stream only moves forwards: through its data, to its closure, and on to its next incarnation.

So the offset, and after it whether the stream is closed, are one value that only grows. A client that asks for it gets
at least what any client knew before. This one rule covers stale reads, a closed stream that opens again, and a deleted
one that comes back with its old offsets.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf
from typing import NamedTuple

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import AnyCall, Append, Create, Delete, Head, Read
from mainstem.testing.history.entries import Entries, Incarnation
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation

MISSING = frozenset(["stream_not_found", "stream_gone"])
"""The codes of errors that say that a stream does not exist any more."""


class Sight(NamedTuple):
    """What a call says about the end of a stream."""

    tail: Offset
    closed: bool
    exact: bool
    """Whether it was the end while the call ran. If not, the end was at least here."""
    call: AnyCall

    @property
    def level(self) -> tuple[Offset, bool]:
        return self.tail, self.closed


def sight_of(call: AnyCall) -> Sight | None:
    """Return what a call says about the end of its stream, if it says anything."""
    if call.end is None or not isinstance(call, Create | Append | Head | Read) or call.next is None:
        return None
    if isinstance(call, Create):
        return Sight(call.next, False, exact=True, call=call)  # a PUT of an open stream conflicts with a closed one
    if isinstance(call, Read):
        return Sight(call.next, call.closed, exact=call.up_to_date and not call.live, call=call)
    closes = isinstance(call, Append) and call.closes and call.accepted  # whatever the reply says about it
    return Sight(call.next, call.closed or closes, exact=True, call=call)


def check_tails(calls: Iterable[AnyCall], entries: Entries) -> Iterator[Violation]:
    by_path: dict[str, list[AnyCall]] = defaultdict(list)
    for call in calls:
        if isinstance(call, Create | Append | Delete | Head | Read):
            by_path[call.path].append(call)
    for path, own in by_path.items():
        sights = [sight for call in own if (sight := sight_of(call)) is not None]
        yield from _check_growth(sights)
        yield from _check_incarnations(path, own, sights, entries)
        yield from _check_closure(path, own, sights, entries)
        yield from _check_origins(path, sights, entries)


def _check_growth(sights: list[Sight]) -> Iterator[Violation]:
    highest = Highest((sight.call.latest, sight.level, sight) for sight in sights)
    for sight in sights:
        known = highest.before(sight.call.start) if sight.exact else None
        if known is not None and sight.level < known[0]:
            detail = f"the end is {_say(sight)}, although it was {_say(known[1])} before"
            rule = "reopened" if sight.tail == known[1].tail else "stale end"
            yield Violation(rule, detail, (known[1].call, sight.call))


def _say(sight: Sight) -> str:
    return f"{sight.tail}{', closed' if sight.closed else ''}"


# Deletes and expiries


def _check_incarnations(path: str, own: list[AnyCall], sights: list[Sight], entries: Entries) -> Iterator[Violation]:
    alive = Highest((sight.call.latest, sight.tail.read_seq, sight) for sight in sights)
    dead: list[tuple[float, int, AnyCall]] = []
    for call in own:
        known = alive.before(call.start)
        if known is None or (path in entries.ttls and _overlaps_append(call, own)):
            continue
        read_seq, sight = known
        if call.refusal in MISSING or (isinstance(call, Delete) and call.accepted):
            dead.append((call.latest, read_seq, call))
        if call.refusal in MISSING and not entries.may_be_deleted(Incarnation(path, read_seq), call.latest):
            detail = f"{path!r} is missing, but nobody has deleted its incarnation {read_seq}, nor has it expired"
            yield Violation("vanished", detail, (sight.call, call))
    yield from _check_dead(path, sights, Highest(dead))
    for sight in sights:
        stream = Incarnation(path, sight.tail.read_seq)
        deaths = entries.count_deaths(path, sight.call.latest)
        if stream not in entries.forks and stream.read_seq > deaths:
            detail = f"{path!r} has incarnation {stream.read_seq}, but at most {deaths} ended before"
            yield Violation("incarnation without a delete", detail, (sight.call,))
    yield from _check_counts(path, own, sights)


def _overlaps_append(call: AnyCall, own: list[AnyCall]) -> bool:
    """Return whether an append was on its way during a call. It may have been accepted in time, but not yet be durable:
    then the server takes the stream for expired until it is."""
    return any(
        isinstance(other, Append) and not other.refused and other.start < call.latest and call.start < other.latest
        for other in own
        if other is not call
    )


def _check_dead(path: str, sights: list[Sight], dead: Highest[AnyCall]) -> Iterator[Violation]:
    """What was deleted, or was not found any more, does not come back."""
    for sight in sights:
        gone = dead.before(sight.call.start)
        if gone is not None and sight.tail.read_seq <= gone[0]:
            detail = f"{path!r}: incarnation {sight.tail.read_seq} was gone before"
            yield Violation("deleted but alive", detail, (gone[1], sight.call))


def _check_counts(path: str, own: list[AnyCall], sights: list[Sight]) -> Iterator[Violation]:
    """Each incarnation is created once, and deleted once."""
    created: dict[int, AnyCall] = {}
    for call in own:
        if isinstance(call, Create) and call.accepted and call.new and call.next is not None:
            other = created.setdefault(call.next.read_seq, call)
            if other is not call:
                yield Violation("created twice", f"{path!r}: incarnation {call.next.read_seq}", (other, call))
    deleted = [call for call in own if isinstance(call, Delete) and call.accepted]
    existed = 1 + max((sight.tail.read_seq for sight in sights), default=-1)
    # A PUT without an answer may have created one more.
    existed += sum(isinstance(call, Create) and call.end is None for call in own)
    if len(deleted) > existed:
        yield Violation("deleted twice", f"{path!r} was deleted {len(deleted)} times", tuple(deleted))


# Closure


def _check_closure(path: str, own: list[AnyCall], sights: list[Sight], entries: Entries) -> Iterator[Violation]:
    closes = [call for call in own if isinstance(call, Append) and call.closes and not call.refused]
    begun: dict[int | None, float] = {}  # by incarnation; None is any, because a close without an answer names none
    for close in closes:
        read_seq = close.next.read_seq if close.accepted and close.next is not None else None
        begun[read_seq] = min(close.start, begun.get(read_seq, inf))
    ends: dict[int, Sight] = {}
    for sight in sights:
        if not sight.closed:
            continue
        if min(begun.get(sight.tail.read_seq, inf), begun.get(None, inf)) >= sight.call.latest:
            yield Violation("closed by nobody", f"{path!r} is closed, but nobody closed it", (sight.call,))
        known = ends.setdefault(sight.tail.read_seq, sight)
        if known.tail != sight.tail:
            yield Violation(
                "append after close",
                f"{path!r} is closed at {known.tail} and at {sight.tail}",
                (known.call, sight.call),
            )
    for sight in sights:
        end = ends.get(sight.tail.read_seq)
        if end is not None and sight.tail > end.tail:
            detail = f"{path!r} was closed at {end.tail}, but reaches {sight.tail}"
            yield Violation("append after close", detail, (end.call, sight.call))
    for read_seq, end in ends.items():
        for position, entry in entries.streams.get(Incarnation(path, read_seq), {}).items():
            if position >= end.tail.position:
                detail = f"{path!r} was closed at {end.tail}, but holds {entry.name!r} at {position}"
                yield Violation("append after close", detail, (end.call, *entry.proof))


# What the end consists of


def _check_origins(path: str, sights: list[Sight], entries: Entries) -> Iterator[Violation]:
    """Everything before an end was sent before a client saw the end."""
    sent: dict[int, tuple[list[int], list[float]]] = {}
    for sight in sights:
        read_seq, position = sight.tail
        if read_seq not in sent:
            found = sorted(
                (at, entry.sent) for at, entry in entries.streams.get(Incarnation(path, read_seq), {}).items()
            )
            sent[read_seq] = [at for at, _ in found], list(accumulate((start for _, start in found), max))
        positions, starts = sent[read_seq]
        at = bisect_left(positions, position)
        if at and starts[at - 1] >= sight.call.latest:
            detail = f"{path!r} reached {sight.tail} before all of its messages were sent"
            yield Violation("end from the future", detail, (sight.call,))
