"""One order for everything: committed ids follow real time, and every stream has the order of the log."""

from collections.abc import Iterator
from itertools import pairwise

from mainstem.testing.history.calls import Append
from mainstem.testing.history.entries import Entries, Entry
from mainstem.testing.history.violations import Violation


def check_order(entries: Entries) -> Iterator[Violation]:
    for committed_id, sharing in sorted(entries.by_id.items()):
        yield from _check_sharing(committed_id, sharing)
    yield from check_real_time(entry for _, group in sorted(entries.by_id.items()) for entry in group)
    for stream, by_position in entries.streams.items():
        in_order = [entry for _, entry in sorted(by_position.items(), key=lambda item: item[0])]
        yield from check_real_time(iter(in_order))
        numbered = [entry for entry in in_order if entry.committed_id is not None]
        for entry, following in pairwise(numbered):
            assert entry.committed_id is not None
            assert following.committed_id is not None
            if entry.committed_id > following.committed_id:
                detail = f"{stream.path!r} has {entry.name!r} before {following.name!r}, but the log has them after"
                yield Violation("order differs", detail, (*entry.proof, *following.proof))


def _check_sharing(committed_id: int, sharing: list[Entry]) -> Iterator[Violation]:
    """Only the messages of one append share a committed id."""
    first = sharing[0]
    own = {message for write in first.writes if isinstance(write, Append) for message in write.messages}
    for other in sharing[1:]:
        if other.name not in own:
            detail = f"{committed_id} belongs to {first.name!r} and to {other.name!r}"
            yield Violation("committed id reused", detail, (*first.proof, *other.proof))


def check_real_time(in_order: Iterator[Entry]) -> Iterator[Violation]:
    """Check that nothing was stored before something that was known before it was sent. One pass is enough."""
    latest: Entry | None = None
    for entry in in_order:
        if latest is not None and entry.known < latest.sent:
            detail = f"{latest.name!r} comes before {entry.name!r}, which was stored before the other was sent"
            yield Violation("real-time order", detail, (*entry.proof, *latest.writes[:1]))
        if latest is None or entry.sent > latest.sent:
            latest = entry
