"""Expiries: a stream with a TTL ends that long after its last use. `tails` checks that it does not end earlier."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from mainstem.testing.history.calls import AnyCall, Append, Create, Head, Read
from mainstem.testing.history.entries import Entries
from mainstem.testing.history.times import Highest
from mainstem.testing.history.violations import Violation

Sight = Create | Append | Head | Read

NOT_FOUND = "stream_not_found"
TOLERANCE = 1e-5
"""Servers round times to microseconds."""


def check_expiries(calls: Iterable[AnyCall], entries: Entries) -> Iterator[Violation]:
    by_path: dict[str, list[Sight]] = defaultdict(list)
    for call in calls:
        if isinstance(call, Create | Append | Head | Read) and call.path in entries.ttls and call.refusal != NOT_FOUND:
            by_path[call.path].append(call)
    for path, ttl in entries.ttls.items():
        own = by_path[path]
        for read_seq in sorted({call.next.read_seq for call in own if call.next is not None}):
            # A call without an answer, or with another refusal, may have used any incarnation.
            yield from _check_incarnation(
                ttl, [call for call in own if call.next is None or call.next.read_seq == read_seq]
            )


def _check_incarnation(ttl: float, own: list[Sight]) -> Iterator[Violation]:
    uses = Highest((call.start, call.latest, call) for call in own if not isinstance(call, Head))
    creates = [call for call in own if isinstance(call, Create) and (call.new or call.end is None)]
    for call in own:
        last = uses.before(call.start)
        if call.next is None or last is None or last[0] + ttl + TOLERANCE >= call.start:
            continue
        if not any(call.start <= create.start < call.latest for create in creates):
            detail = f"{call.path!r} was last used by {last[0]:.6f}, and expires {ttl:g} later"
            yield Violation("expired but alive", detail, (last[1], call))
