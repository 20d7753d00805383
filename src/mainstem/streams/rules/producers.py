"""Exactly-once producers: the table of protocol section 5.2.1 as one function.

epoch < known                       403 stale epoch (a newer instance has taken over)
epoch > known, seq != 0             400 a new epoch must start at 0
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
    """Return True for a retry of a stored request, and False for the next request. Raise an error for any other."""
    if known is None:
        if request.seq != 0:
            raise _gap(0, request.seq)
        return False
    if request.epoch < known.epoch:
        raise StaleEpoch(
            f"epoch {request.epoch} of producer {request.id!r} was replaced by epoch {known.epoch}",
            headers={"Producer-Epoch": str(known.epoch)},
            current_epoch=known.epoch,
        )
    if request.epoch > known.epoch:
        if request.seq != 0:
            raise BadEpochStart(
                f"epoch {request.epoch} of producer {request.id!r} is new, so Producer-Seq must be 0, not {request.seq}"
            )
        return False
    if request.seq <= known.last_seq:
        return True
    if request.seq > known.last_seq + 1:
        raise _gap(known.last_seq + 1, request.seq)
    return False


def _gap(expected: int, received: int) -> ProducerGap:
    return ProducerGap(
        f"expected Producer-Seq {expected}, but received {received}",
        headers={"Producer-Expected-Seq": str(expected), "Producer-Received-Seq": str(received)},
        expected_seq=expected,
        received_seq=received,
    )
