"""Trims: a stream loses whole appends from its beginning, never more than it may, and what is gone stays gone."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from mainstem.testing.history.calls import AnyCall, Append, Create, Head, Read, size_of
from mainstem.testing.history.entries import Entries, Incarnation
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation

GONE = "offset_gone"


def check_trims(calls: Iterable[AnyCall], entries: Entries) -> Iterator[Violation]:
    kept: dict[str, int] = {}
    by_path: dict[str, list[Head | Read]] = defaultdict(list)
    appends: dict[Incarnation, dict[int, Append]] = defaultdict(dict)
    for call in calls:
        if isinstance(call, Create) and call.bytes_kept is not None:
            kept[call.path] = call.bytes_kept
        elif isinstance(call, Head | Read):
            by_path[call.path].append(call)
        elif isinstance(call, Append) and call.messages and (place := entries.messages[call.messages[0]].place):
            appends[place.stream][place.position] = call
    for path, own in by_path.items():
        yield from _check_refusals(own)
        yield from _check_growth(path, own)
    for path, bytes_kept in kept.items():
        starts: dict[Incarnation, list[Head | Read]] = defaultdict(list)
        for call in by_path[path]:
            if call.earliest is not None:
                starts[Incarnation(path, call.earliest.read_seq)].append(call)
        for stream, found in starts.items():
            yield from _check_amounts(found, bytes_kept, appends[stream], _Ends(stream, entries))


def _check_refusals(own: list[Head | Read]) -> Iterator[Violation]:
    """A refusal names a later offset. Even a read from the beginning may be refused if a trim overtakes it."""
    for call in own:
        if not isinstance(call, Read) or call.refusal != GONE or call.since is None or call.earliest is None:
            continue
        if call.earliest <= call.since:
            yield Violation("offset refused", f"{call.since} is not before {call.earliest}", (call,))


def _check_growth(path: str, own: list[Head | Read]) -> Iterator[Violation]:
    """The start of a stream only moves forwards, and no page begins before it."""
    starts = Highest((call.latest, call.earliest, call) for call in own if call.earliest is not None)
    for call in own:
        known = starts.before(call.start)
        if known is None:
            continue
        if call.earliest is not None and call.earliest < known[0]:
            detail = f"{path!r} begins at {call.earliest}, although it began at {known[0]} before"
            yield Violation("trim undone", detail, (known[1], call))
        if isinstance(call, Read) and call.accepted and call.since is not None and call.since < known[0]:
            yield Violation("trimmed but readable", f"{path!r} began at {known[0]} before", (known[1], call))


class _Ends:
    """Where a stream may have ended at any time: after everything that had been sent by then."""

    def __init__(self, stream: Incarnation, entries: Entries) -> None:
        found = sorted(
            (entry.sent, position + size_of((entry.name,)))
            for position, entry in entries.streams.get(stream, {}).items()
        )
        self._sent = [sent for sent, _ in found]
        self._ends = list(accumulate((end for _, end in found), max))

    def before(self, time: float) -> int:
        at = bisect_left(self._sent, time)
        return self._ends[at - 1] if at else 0


def _check_amounts(
    starts: list[Head | Read], bytes_kept: int, appends: dict[int, Append], ends: _Ends
) -> Iterator[Violation]:
    """The last append that was trimmed was trimmed as a whole, because with it there was more than must be kept."""
    positions = sorted(appends)
    for call in starts:
        assert call.earliest is not None
        at = bisect_left(positions, call.earliest.position)
        if not at:
            continue
        position = positions[at - 1]
        append = appends[position]
        end = position + size_of(append.messages)
        if end > call.earliest.position:
            yield Violation("trim within an append", f"the stream begins at {call.earliest}", (append, call))
        there = ends.before(call.latest) - position
        if end == call.earliest.position and there <= bytes_kept:
            detail = f"an append was trimmed when there were at most {there} bytes, but {bytes_kept} are kept"
            yield Violation("trimmed too much", detail, (append, call))
