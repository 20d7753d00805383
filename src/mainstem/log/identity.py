"""The identity of a log: an id for ever, and the epochs that tell its restored copies apart.

A copy that was restored from a backup begins a new epoch after the last record of the backup. Each record belongs to
the epoch in which it was committed, so the id of the log, an epoch and a committed id together name one record and
everything before it, even among copies of the same log. See docs/adr/0024-identity-of-a-log.md.
"""

from collections.abc import Sequence

import msgspec

from mainstem import limits
from mainstem.log.commands import Freeing, Key, Sizeless, Space, View
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.spaces import SpaceNumber

replace = msgspec.structs.replace


class Epoch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The records after a committed id, up to the beginning of the next epoch."""

    after: int
    name: str
    """How often the log had been restored by then and, except for the first epoch, a random part."""


FIRST_EPOCH = Epoch(0, "0")


class LogIdentity(msgspec.Struct, frozen=True, gc=False, array_like=True):
    id: str
    epochs: tuple[Epoch, ...] = (FIRST_EPOCH,)
    """In ascending order of `after`. There are no two with the same `after`, since an epoch has at least one record,
    except for the last one."""
    origin: str = ""
    """The `Store.origin` of the store that served the log last."""

    @property
    def epoch(self) -> Epoch:
        """The current epoch."""
        return self.epochs[-1]


IDENTITY: Space[LogIdentity] = Space(SpaceNumber.IDENTITY, LogIdentity)
IDENTITY_KEY = Key(IDENTITY, "")


def make_id(bits: int) -> str:
    """Return the id of a log, made of 128 random bits."""
    return f"{bits:032x}"


def make_tag(bits: int) -> str:
    """Return the random part of the name of an epoch, made of 32 random bits."""
    return f"{bits:08x}"


def find_epoch(epochs: Sequence[tuple[int, str]], committed_id: int) -> str | None:
    """Return the name of the epoch that a record belongs to, of pairs of `after` and name; None if it is unknown."""
    return next((name for after, name in reversed(epochs) if after < committed_id), None)


def begin_epoch(identity: LogIdentity, head: int, tag: str) -> LogIdentity:
    """Return the identity of a copy that ends at `head` and from now on has its own records."""
    number = int(identity.epoch.name.partition("-")[0]) + 1
    kept = [epoch for epoch in identity.epochs if epoch.after < head]
    epochs = (*kept, Epoch(head, f"{number}-{tag}"))
    return replace(identity, epochs=epochs[-limits.EPOCHS_MAX :])


class SettleIdentity(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Give the log an identity if it has none. Begin an epoch if the store has another origin than the last time.

    It counts as freeing, so that a store on a full disk gets its identity, which is small, from the reserve.
    """

    new_id: str
    tag: str
    origin: str

    def needs(self) -> list[Key]:
        return [IDENTITY_KEY, PRUNED_KEY]

    def apply(self, view: View) -> LogIdentity:
        known: LogIdentity | None = view.get(IDENTITY_KEY)
        identity = LogIdentity(self.new_id, origin=self.origin) if known is None else known
        if known is None:
            pruned: Pruned | None = view.get(PRUNED_KEY)
            if pruned is not None:  # by a version that did not note of which streams and partitions
                view.put(PRUNED_KEY, replace(pruned, unattributed=pruned.until))
        elif known.origin != self.origin:
            identity = replace(known, origin=self.origin)
            if known.origin:
                identity = begin_epoch(identity, view.head, self.tag)
        if identity != known:
            view.put(IDENTITY_KEY, identity)
        return identity
