"""Exactly-once producers: the table of protocol section 5.2.1, as one function.

epoch < known                       403 stale epoch (a newer instance has taken over)
epoch > known, seq != 0             400 a new epoch starts at 0
epoch > known, seq == 0             accept
unknown producer, seq == 0          accept
unknown producer, seq != 0          409 gap, 0 expected
seq <= last                         duplicate: already stored, nothing to do
seq == last + 1                     accept
seq > last + 1                      409 gap
"""

from mainstem.errors import BadEpochStart, ProducerGap, StaleEpoch
from mainstem.streams.states import ProducerState, ProducerTuple


def is_duplicate(known: ProducerState | None, request: ProducerTuple) -> bool:
    """True for a retry of what is stored, False for the next request; everything else raises."""
    if known is None:
        if request.seq != 0:
            raise _gap(0, request.seq)
        return False
    if request.epoch < known.epoch:
        raise StaleEpoch(
            f"epoch {request.epoch} of producer {request.id!r} has been replaced by {known.epoch}",
            headers={"Producer-Epoch": str(known.epoch)},
            current_epoch=known.epoch,
        )
    if request.epoch > known.epoch:
        if request.seq != 0:
            raise BadEpochStart(f"epoch {request.epoch} is new, but its first seq is {request.seq}")
        return False
    if request.seq <= known.last_seq:
        return True
    if request.seq > known.last_seq + 1:
        raise _gap(known.last_seq + 1, request.seq)
    return False


def _gap(expected: int, received: int) -> ProducerGap:
    return ProducerGap(
        f"expected seq {expected}, received {received}",
        headers={"Producer-Expected-Seq": str(expected), "Producer-Received-Seq": str(received)},
        expected_seq=expected,
        received_seq=received,
    )
