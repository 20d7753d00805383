"""What retention has erased, so that a reader who comes back late can tell that it has missed something."""

import msgspec

from mainstem.log.commands import Freeing, Key, Space, View
from mainstem.log.records import CommittedId


class Losses(msgspec.Struct, frozen=True, gc=False, array_like=True):
    until: CommittedId
    """The highest id that was given up. Data that went with its deleted stream does not count."""


LOSSES: Space[Losses] = Space(11, Losses)
LOSSES_KEY = Key(LOSSES, "")


def note_loss(view: View, committed_id: CommittedId) -> None:
    """Before records up to this id are erased. Whoever calls it needs `LOSSES_KEY`."""
    known: Losses | None = view.get(LOSSES_KEY)
    if known is None or known.until < committed_id:
        view.put(LOSSES_KEY, Losses(committed_id))


class NoteLoss(msgspec.Struct, Freeing, frozen=True, gc=False):
    """The same as a Command of its own."""

    committed_id: CommittedId
    size: int = 0

    def needs(self) -> list[Key]:
        return [LOSSES_KEY]

    def apply(self, view: View) -> None:
        note_loss(view, self.committed_id)
