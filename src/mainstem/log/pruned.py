"""The id up to which records were pruned, so that a reader that resumes late can tell whether it missed any."""

import msgspec

from mainstem.log.commands import Freeing, Key, Space, View
from mainstem.log.records import CommittedId
from mainstem.log.spaces import SpaceNumber


class Pruned(msgspec.Struct, frozen=True, gc=False, array_like=True):
    until: CommittedId
    """The highest pruned id. Data that was erased along with its deleted stream does not count."""


PRUNED: Space[Pruned] = Space(SpaceNumber.PRUNED, Pruned)
PRUNED_KEY = Key(PRUNED, "")


def advance_pruned(view: View, committed_id: CommittedId) -> None:
    """Note that records up to an id are about to be erased. The calling command must need `PRUNED_KEY`."""
    known: Pruned | None = view.get(PRUNED_KEY)
    if known is None or known.until < committed_id:
        view.put(PRUNED_KEY, Pruned(committed_id))


class AdvancePruned(msgspec.Struct, Freeing, frozen=True, gc=False):
    """`advance_pruned` as a command of its own."""

    committed_id: CommittedId
    size: int = 0

    def needs(self) -> list[Key]:
        return [PRUNED_KEY]

    def apply(self, view: View) -> None:
        advance_pruned(view, self.committed_id)
