"""`/v1/log/id`: which record follows a committed id, begins a time, or holds an offset of a stream."""

from mainstem.errors import BadOffset, StreamNotFound
from mainstem.log.records import CommittedId, Outline
from mainstem.log.store import Store
from mainstem.streams.rules.forks import segment_at
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key


async def find_time(store: Store, after: int, time_us: int) -> Outline | None:
    """Return the first record after a committed id that was committed at or after a time; None if there is none.

    This bisects ids, so it looks at few records. If the clock of the server was ever set back, there are several
    records that begin the time, and the result is one of them.
    """
    low, high = after, int(store.head)
    found: Outline | None = None
    while low < high:
        middle = (low + high) // 2
        record = await store.first_record(CommittedId(middle))
        if record is None or record.committed_id > high:  # everything in between was erased
            high = middle
        elif record.committed_at_us < time_us:
            low = record.committed_id
        else:
            high, found = middle, record
    return found


async def find_offset(store: Store, path: str, offset: Offset) -> Outline | None:
    """Return the record with the message that begins at an offset, or with the first one after it that is kept; None
    at the end of the stream."""
    state: StreamState | None = await store.get(stream_key(path))
    if state is None or state.deleted or state.soft_deleted:
        raise StreamNotFound(f"there is no stream at {path!r}")
    if offset.read_seq != state.read_seq or offset > state.next_offset:
        raise BadOffset(f"{offset} is not an offset of the stream {path!r}, which ends at {state.next_offset}")
    position = max(offset.position, state.earliest)
    if position >= state.tail:
        return None
    topic, end = segment_at(state, position)
    records = await store.outline(topic, position, end, 1)
    if not records:
        raise StreamNotFound(f"the stream {path!r} was deleted meanwhile")
    return records[0]
