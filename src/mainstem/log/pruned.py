"""The id up to which records were pruned, so that a reader that resumes late can tell whether it missed any."""

import msgspec

from mainstem.log.commands import Key, Space, View
from mainstem.log.records import CommittedId
from mainstem.log.spaces import SpaceNumber


class Pruned(msgspec.Struct, frozen=True, gc=False, array_like=True):
    until: CommittedId
    """The highest pruned id. Data that was erased along with its deleted stream does not count."""
    unattributed: CommittedId = CommittedId(0)
    """The part of it whose streams and partitions are unknown, because an older version pruned it."""


PRUNED: Space[Pruned] = Space(SpaceNumber.PRUNED, Pruned)
PRUNED_KEY = Key(PRUNED, "")


def advance_pruned(view: View, committed_id: CommittedId) -> None:
    """Note that records up to an id are about to be erased. The calling command must need `PRUNED_KEY`."""
    known: Pruned | None = view.get(PRUNED_KEY)
    if known is None or known.until < committed_id:
        unattributed = CommittedId(0) if known is None else known.unattributed
        view.put(PRUNED_KEY, Pruned(committed_id, unattributed))
