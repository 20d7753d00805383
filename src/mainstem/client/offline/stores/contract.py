"""The contract of a client's store: drafts, the committed copy, the cursor, and the checkpoints of views.

A store is synchronous: one thread makes one call at a time. Every call that changes something is one transaction, and
is durable when it returns.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from mainstem.client.offline.core.records import (
    Applied,
    Checkpoint,
    Committed,
    Draft,
    Facts,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
)
from mainstem.client.sync_protocol.errors import SyncClientError

Found = Draft | Committed | RejectedDraft


class ClientStore(ABC):
    @abstractmethod
    def open(self, client_id: str) -> None:
        """Open the store for a client.

        A store belongs to the first client that opens it. Raise `WrongStore` for any other client, and `StoreInUse` if
        the store is already open.
        """

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def facts(self) -> Facts: ...

    # Partitions

    @abstractmethod
    def follow(self, names: Sequence[str]) -> Facts:
        """Add partitions; those that are already followed do not change.

        The cursor of an empty store, which is 0, covers its first partitions. The history of later ones has to be
        fetched first.
        """

    # Drafts

    @abstractmethod
    def add_drafts(self, drafts: Sequence[Draft]) -> list[Found | SyncClientError]:
        """Store drafts in one transaction, each with the next clock, and return one result per draft.

        If the id is known with the same content, the result is what the store has. A rejected draft with other content
        is replaced. For any other id in use, and if a limit is reached, the result is an error; the other drafts are
        stored.
        """

    @abstractmethod
    def drafts(self, after: int, items_max: int, bytes_max: int) -> list[Draft]:
        """Return the first drafts after a clock, in order; at least one, even if it is larger than `bytes_max`."""

    @abstractmethod
    def find(self, id_: str) -> Found | None:
        """Return what the store has under an id."""

    @abstractmethod
    def rejections(self, limit: int) -> list[RejectedDraft]:
        """Return the rejected drafts, oldest first."""

    @abstractmethod
    def dismiss(self, ids: Sequence[str]) -> int:
        """Discard rejections, and return how many there were."""

    # The committed copy

    @abstractmethod
    def apply(self, updates: Sequence[StoreUpdate]) -> Applied:
        """Apply updates in one transaction. Applying an update again changes nothing.

        Raise `Diverged`, and change nothing, if an event contradicts the copy.
        """

    @abstractmethod
    def events(self, partitions: Sequence[str] | None, after: int, until: int | None, limit: int) -> list[Committed]:
        """Return the events with after < committed id <= until, in order.

        An event counts if it is in any of the partitions; None stands for all that are followed.
        """

    @abstractmethod
    def snapshots(self, partitions: Sequence[str] | None) -> list[Snapshot]:
        """Return the snapshots that the server sent in place of pruned history, ordered by partition."""

    # Views

    @abstractmethod
    def load_checkpoint(self, name: str) -> Checkpoint | None: ...

    @abstractmethod
    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint of a view."""
