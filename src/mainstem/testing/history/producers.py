"""Producers: each sequence number is stored once, in order and without a gap, and a newer epoch ends older ones."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf
from typing import NamedTuple

from mainstem.streams.states import ProducerTuple
from mainstem.testing.history.calls import AnyCall, Append
from mainstem.testing.history.entries import Entries, Incarnation
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation


class _Number(NamedTuple):
    """One sequence number of one producer of one path."""

    path: str
    id: str
    epoch: int
    seq: int


def check_producers(calls: Iterable[AnyCall], entries: Entries) -> Iterator[Violation]:
    attempts: dict[_Number, list[Append]] = defaultdict(list)
    for call in calls:
        if isinstance(call, Append) and call.producer is not None:
            attempts[_number(call.path, call.producer)].append(call)
    for number, own in attempts.items():
        yield from _check_replies(number, own)
        yield from _check_memory(number, own, attempts, entries)
    yield from _check_epochs(attempts)
    yield from _check_sequences(attempts, entries)


def _number(path: str, producer: ProducerTuple) -> _Number:
    return _Number(path, producer.id, producer.epoch, producer.seq)


def _check_replies(number: _Number, own: list[Append]) -> Iterator[Violation]:
    """The server stores one attempt, and recognises the others as duplicates."""
    new: dict[int, Append] = {}
    for call in own:
        if not call.accepted or call.next is None:
            continue
        if not call.duplicate:
            other = new.setdefault(call.next.read_seq, call)
            if other is not call:
                yield Violation("sequence accepted twice", f"{number} was new both times", (other, call))
        elif not any(other is not call and not other.refused and other.start < call.latest for other in own):
            yield Violation("duplicate of nothing", f"{number} was sent only once", (call,))


def _check_memory(
    number: _Number, own: list[Append], attempts: dict[_Number, list[Append]], entries: Entries
) -> Iterator[Violation]:
    """A gap is refused only if the number before it was not stored."""
    refused = [call for call in own if call.refusal == "producer_gap"]
    if not refused or not number.seq:
        return
    before = attempts.get(number._replace(seq=number.seq - 1), [])
    stored = Highest((call.latest, 0, call) for call in before if call.accepted)
    for call in refused:
        known = stored.before(call.start)
        if known is not None and not entries.count_deaths(number.path, call.latest):
            yield Violation("producer forgotten", f"the number before {number} was stored", (known[1], call))


def _check_epochs(attempts: dict[_Number, list[Append]]) -> Iterator[Violation]:
    """After a newer epoch, the server accepts nothing from an older one, not even a retry."""
    accepted: dict[tuple[Incarnation, str], list[tuple[_Number, Append]]] = defaultdict(list)
    for number, own in attempts.items():
        for call in own:
            if call.accepted and call.next is not None:
                accepted[Incarnation(number.path, call.next.read_seq), number.id].append((number, call))
    for found in accepted.values():
        epochs = Highest((call.latest, number.epoch, call) for number, call in found)
        for number, call in found:
            known = epochs.before(call.start)
            if known is not None and known[0] > number.epoch:
                yield Violation("fenced producer", f"{number} was accepted after epoch {known[0]}", (known[1], call))


def _check_sequences(attempts: dict[_Number, list[Append]], entries: Entries) -> Iterator[Violation]:
    """A stream holds the numbers of a producer in their order: all of them, unless it was deleted or trimmed."""
    stored: dict[tuple[Incarnation, str], dict[_Number, tuple[int, Append]]] = defaultdict(dict)
    for number, own in attempts.items():
        for call in own:
            place = entries.messages[call.messages[0]].place if call.messages else None
            if place is not None:
                stored[place.stream, number.id][number] = place.position, call
    for (stream, _), numbers in stored.items():
        in_order = sorted(numbers.items(), key=lambda item: item[0])
        first, (_, first_call) = in_order[0]
        complete = not entries.earliest.get(stream) and not entries.may_be_deleted(stream, inf)
        if complete and first.seq:
            yield Violation("producer gap", f"{stream.path!r} begins with {first}", (first_call,))
        for (number, (at, call)), (following, (next_at, next_call)) in pairwise(in_order):
            if at >= next_at:
                yield Violation("producer out of order", f"{following} comes before {number}", (call, next_call))
            same = number.epoch == following.epoch
            if complete and following.seq != (number.seq + 1 if same else 0):
                yield Violation("producer gap", f"{following} comes right after {number}", (call, next_call))
