"""The contract of a client's store: drafts, the committed copy, one cursor, and views' checkpoints.

A store is plain and synchronous: one thread calls it, one call at a time. Every call that changes something is one
transaction, and is durable when it returns.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from mainstem.client.offline.core.records import (
    Applied,
    Checkpoint,
    Committed,
    Draft,
    Facts,
    Rejection,
    Snapshot,
    StoreUpdate,
)
from mainstem.client.sync_protocol.errors import SyncClientError

Found = Draft | Committed | Rejection


class ClientStore(ABC):
    @abstractmethod
    def open(self, client_id: str) -> None:
        """Make it ready. A store belongs to the first client that opens it: another is `WrongStore`, a second one at
        the same time `StoreInUse`."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def facts(self) -> Facts: ...

    # Partitions

    @abstractmethod
    def follow(self, names: Sequence[str]) -> Facts:
        """Add partitions. Those that a fresh store begins with are covered by its cursor, 0; later ones have to be
        fetched from 0 first. Known ones stay as they are."""

    # Drafts

    @abstractmethod
    def add_drafts(self, drafts: Sequence[Draft]) -> list[Found | SyncClientError]:
        """Keep drafts, each with the next clock, in one transaction.

        An id that is known with the same content gives what is known of it; with other content, or when there is no
        place, the error is in its place and the others are kept.
        """

    @abstractmethod
    def drafts(self, after: int, items_max: int, bytes_max: int) -> list[Draft]:
        """The first drafts behind a clock, in its order. The first one is given even if it is larger than the bytes."""

    @abstractmethod
    def find(self, id_: str) -> Found | None:
        """What is known of an id."""

    @abstractmethod
    def rejections(self, limit: int) -> list[Rejection]:
        """The oldest first."""

    @abstractmethod
    def dismiss(self, ids: Sequence[str]) -> int:
        """Forget rejections; how many there were."""

    # The committed copy

    @abstractmethod
    def apply(self, updates: Sequence[StoreUpdate]) -> Applied:
        """Apply all in one transaction; what was applied before changes nothing.

        An event that contradicts the copy raises `Diverged`, and then nothing has changed.
        """

    @abstractmethod
    def events(self, partitions: Sequence[str] | None, after: int, until: int | None, limit: int) -> list[Committed]:
        """Events of any of these partitions (None: of all that are followed) with after < committed id <= until, in
        order."""

    @abstractmethod
    def snapshots(self, partitions: Sequence[str] | None) -> list[Snapshot]:
        """What the server sent in place of pruned history, by partition."""

    # Views

    @abstractmethod
    def load_checkpoint(self, name: str) -> Checkpoint | None: ...

    @abstractmethod
    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace a view's checkpoint: its state and the id up to which it counts, together."""
