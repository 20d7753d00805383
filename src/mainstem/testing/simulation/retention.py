"""What must be true of a stream with a retention once its server had time to trim it."""

from collections.abc import Iterable, Iterator

from mainstem.testing.history.calls import AnyCall, Head, LogPage


def check_retention(head: Head, calls: Iterable[AnyCall], bytes_kept: int) -> Iterator[str]:
    """Yield what is still stored in excess. `head` is the last one, and all messages were appended before it.

    The history may show trimmed data in the log, because a crash may undo an erasure. But the server repeats that.
    """
    if head.earliest is None or head.next is None:
        return
    size = head.next.position - head.earliest.position
    if size > bytes_kept:
        yield f"{head.path!r} keeps {size} bytes, and not {bytes_kept}"
    for call in calls:
        if isinstance(call, LogPage):
            for row in call.rows:
                if row.path == head.path and row.start < head.earliest:
                    yield f"{row.message!r} of {head.path!r} was trimmed, but is in the log: {row.start}"
