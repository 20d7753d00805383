"""The contents of streams: every reader sees a prefix of one sequence, without a gap, and nothing is lost."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from mainstem.testing.history.calls import AnyCall, Append, LogPage, Read, size_of
from mainstem.testing.history.entries import Entries, Entry, Incarnation, Place
from mainstem.testing.history.violations import Violation


def check_contents(calls: Iterable[AnyCall], entries: Entries) -> Iterator[Violation]:
    for call in calls:
        if isinstance(call, Read):
            yield from _check_read(call)
        elif isinstance(call, Append):
            yield from _check_append(call, entries)
    for stream, by_position in entries.streams.items():
        yield from _check_overlaps(stream, by_position)


def _check_read(call: Read) -> Iterator[Violation]:
    first = call.first
    if call.refusal == "invalid_offset":
        yield Violation("offset refused", f"{call.since} is the end of an earlier page", (call,))
    if not call.accepted or first is None or call.next is None:
        return
    if first.read_seq != call.next.read_seq or first.position + size_of(call.messages) != call.next.position:
        detail = f"the messages between {first} and {call.next} take {size_of(call.messages)} bytes"
        yield Violation("gap or repeat in a page", detail, (call,))
    if call.tail is not None:
        number = len(call.messages)
        if number > call.tail or (number < call.tail and call.up_to_date and first.position > 0):
            yield Violation("wrong number of messages", f"{number} in place of the last {call.tail}", (call,))


def _check_append(call: Append, entries: Entries) -> Iterator[Violation]:
    """An append is stored as a whole, and where its condition requires."""
    if call.refusal == "tail_moved" and call.if_match is not None and call.next == call.if_match:
        yield Violation("condition refused", f"the stream ended at {call.if_match}, as required", (call,))
    if not call.messages or call.refused:
        return
    start, stored = 0, None
    for message in call.messages:
        entry = entries.messages[message]
        place = entry.place
        if place is not None and stored is None:
            stored = place.stream, place.position - start
        elif place is not None and stored != (place.stream, place.position - start):
            yield Violation("torn append", f"{message!r} does not follow the message before it", (call, *entry.proof))
            return
        start += size_of((message,))
    if stored is None:
        return
    stream, position = stored
    if call.if_match is not None and call.if_match != (stream.read_seq, position):
        detail = f"stored at {position} of incarnation {stream.read_seq}, and not at {call.if_match}"
        yield Violation("condition ignored", detail, (call, *entries.messages[call.messages[0]].proof))


def _check_overlaps(stream: Incarnation, by_position: dict[int, Entry]) -> Iterator[Violation]:
    for (start, entry), (next_start, following) in pairwise(sorted(by_position.items(), key=lambda item: item[0])):
        if start + size_of((entry.name,)) > next_start:
            detail = f"{entry.name!r} at {start} of {stream.path!r} overlaps {following.name!r} at {next_start}"
            yield Violation("readers disagree", detail, (*entry.proof, *following.proof))


def check_final_log(pages: Iterable[LogPage], entries: Entries, began: float, ended: float) -> Iterator[Violation]:
    """Check a reading of the whole log: it holds everything that was known before it began, and no stream has a gap."""
    shown: set[str] = set()
    events: set[str] = set()
    for page in pages:
        shown.update(row.message for row in page.rows)
        events.update(event.id for event in page.events)
    for entry in entries.events.values():
        if entry.known < began and entry.name not in events and not entries.may_be_erased(entry, ended):
            yield Violation("lost event", f"{entry.name!r} is not in the log", entry.proof)
    kept: dict[Incarnation, list[Entry]] = {}
    for entry in entries.messages.values():
        stream = _find_stream(entry, entries)
        # A message that nobody has seen may have been at the beginning of its stream.
        if stream is None or entries.may_be_gone(entry.place or Place(stream, 0), ended):
            continue
        if entry.name in shown:
            kept.setdefault(stream, []).append(entry)
        elif entry.known < began:
            yield Violation("lost message", f"{entry.name!r} of {stream.path!r} is not in the log", entry.proof)
        elif not shown.isdisjoint(_list_siblings(entry)):
            yield Violation(
                "torn append", f"{entry.name!r} is missing, but others of its append are there", entry.proof
            )
    for stream, found in kept.items():
        fork = entries.forks.get(stream)
        yield from _check_gaps(stream, found, entries.earliest.get(stream, 0) if fork is None else fork.position)


def _check_gaps(stream: Incarnation, found: list[Entry], end: int) -> Iterator[Violation]:
    """Check that each message begins where the one before it ends, and the first of them at the given position."""
    placed = [(entry.place.position, entry) for entry in found if entry.place is not None]
    for position, entry in sorted(placed, key=lambda item: item[0]):
        if position > end:
            detail = f"{stream.path!r}: nothing is between {end} and {position}, the start of {entry.name!r}"
            yield Violation("gap in a stream", detail, entry.proof)
        end = max(end, position + size_of((entry.name,)))


def _find_stream(entry: Entry, entries: Entries) -> Incarnation | None:
    """Return the stream that accepted a message or holds a part of its append; None if no client knows of one."""
    if entry.place is not None:
        return entry.place.stream
    for write in entry.writes:
        if isinstance(write, Append) and write.accepted and write.next is not None:
            return Incarnation(write.path, write.next.read_seq)
    places = (entries.messages[message].place for message in _list_siblings(entry))
    return next((place.stream for place in places if place is not None), None)


def _list_siblings(entry: Entry) -> Iterator[str]:
    """Yield the messages that were sent in the same appends."""
    for write in entry.writes:
        if isinstance(write, Append):
            yield from write.messages
