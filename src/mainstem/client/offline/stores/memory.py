"""A store in memory, for tests and for clients that do not have to survive a restart."""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence

from mainstem.client.offline.core.errors import StoreInUse, WrongStore
from mainstem.client.offline.core.records import (
    Applied,
    Checkpoint,
    Commit,
    Committed,
    Diverged,
    Draft,
    Facts,
    Followed,
    Refusal,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
    is_stale,
)
from mainstem.client.offline.core.rules import (
    check_capacity,
    is_same,
    replaces_rejection,
    resolve_known,
    visible_partitions,
)
from mainstem.client.offline.stores.contract import ClientStore, Found
from mainstem.client.sync_protocol.errors import SyncClientError


class MemoryClientStore(ClientStore):
    """Keeps its content as long as the object exists. Opening it again simulates a restart."""

    def __init__(self) -> None:
        self._client_id: str | None = None
        self._is_open = False
        self._cursor = 0
        self._clock = 0
        self._partitions: dict[str, int | None] = {}
        self._drafts: dict[str, Draft] = {}
        self._rejections: dict[str, RejectedDraft] = {}
        self._events: dict[int, Committed] = {}
        self._order: list[int] = []
        self._positions: dict[str, int] = {}
        self._shown: dict[int, set[str]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._checkpoints: dict[str, Checkpoint] = {}

    def open(self, client_id: str) -> None:
        if self._is_open:
            raise StoreInUse("another client is using this store")
        if self._client_id not in (None, client_id):
            raise WrongStore(f"this store belongs to the client {self._client_id!r}, not to {client_id!r}")
        self._client_id = client_id
        self._is_open = True

    def close(self) -> None:
        self._is_open = False

    def facts(self) -> Facts:
        partitions = tuple(Followed(name, since) for name, since in sorted(self._partitions.items()))
        return Facts(self._cursor, self._order[-1] if self._order else 0, partitions, len(self._drafts))

    def follow(self, names: Sequence[str]) -> Facts:
        since = None if not self._partitions and not self._cursor else 0
        for name in names:
            self._partitions.setdefault(name, since)
        return self.facts()

    # Drafts

    def add_drafts(self, drafts: Sequence[Draft]) -> list[Found | SyncClientError]:
        return [self._add_draft(draft) for draft in drafts]

    def _add_draft(self, draft: Draft) -> Found | SyncClientError:
        known = self.find(draft.id)
        replaces = replaces_rejection(draft, known)
        if known is not None and not replaces:
            return resolve_known(draft, known)
        size = sum(len(waiting.event) for waiting in self._drafts.values())
        error = check_capacity(len(self._drafts), size, len(self._rejections) - replaces, draft)
        if error is not None:
            return error
        self._rejections.pop(draft.id, None)
        self._clock += 1
        kept = Draft(self._clock, draft.id, draft.partitions, draft.event, draft.digest)
        self._drafts[draft.id] = kept
        return kept

    def drafts(self, after: int, items_max: int, bytes_max: int) -> list[Draft]:
        found: list[Draft] = []
        for draft in self._drafts.values():
            if draft.clock <= after:
                continue
            bytes_max -= len(draft.event)
            if len(found) == items_max or (found and bytes_max < 0):
                break
            found.append(draft)
        return found

    def find(self, id_: str) -> Found | None:
        if id_ in self._positions:
            return self._events[self._positions[id_]]
        return self._drafts.get(id_) or self._rejections.get(id_)

    def rejections(self, limit: int) -> list[RejectedDraft]:
        return list(self._rejections.values())[:limit]

    def dismiss(self, ids: Sequence[str]) -> int:
        return sum(self._rejections.pop(id_, None) is not None for id_ in ids)

    # The committed copy

    def apply(self, updates: Sequence[StoreUpdate]) -> Applied:
        self._check(updates)
        applied = Applied()
        for update in updates:
            self._apply(update, applied)
        self._checkpoints = {
            name: checkpoint
            for name, checkpoint in self._checkpoints.items()
            if not is_stale(checkpoint.committed_id, checkpoint.partitions, applied.lowest)
        }
        return applied

    def _check(self, updates: Sequence[StoreUpdate]) -> None:
        """Raise `Diverged` for a contradiction before anything changes."""
        positions: Mapping[str, int] = self._positions
        events: Mapping[int, Committed] = self._events
        new_positions: dict[str, int] = {}
        new_ids: dict[int, str] = {}
        for update in updates:
            if update.reset:
                positions, events, new_positions, new_ids = {}, {}, {}, {}
            pairs = [(event.id, event.committed_id) for event in update.events]
            pairs += [(commit.id, commit.committed_id) for commit in update.commits if commit.id in self._drafts]
            for id_, position in pairs:
                held = events.get(position)
                at = new_positions.setdefault(id_, positions.get(id_, position))
                if at != position or new_ids.setdefault(position, held.id if held else id_) != id_:
                    raise Diverged(f"the event {id_} at committed id {position} contradicts the local copy")

    def _apply(self, update: StoreUpdate, applied: Applied) -> None:
        if update.reset:
            self._reset(applied)
        for snapshot in update.snapshots:
            self._cover(snapshot, applied)
        for event in update.events:
            self._insert(event, applied)
        for commit in update.commits:
            self._commit(commit, applied)
        for refusal in update.refusals:
            self._refuse(refusal, applied)
        if update.cursor is not None:
            self._cursor = update.cursor
        for name, since in update.fetched:
            if self._partitions.get(name) is not None:
                self._partitions[name] = since
        for name in update.joined:
            if name in self._partitions:
                self._partitions[name] = None
        for name in update.left:
            self._leave(name, applied)
        applied.truncated += update.truncated

    def _reset(self, applied: Applied) -> None:
        for held in (self._events, self._order, self._positions, self._shown, self._snapshots, self._checkpoints):
            held.clear()
        self._cursor = 0
        self._partitions = dict.fromkeys(self._partitions)
        for name in self._partitions:
            applied.touch(name, 0)
        applied.reset = True

    def _cover(self, snapshot: Snapshot, applied: Applied) -> None:
        name = snapshot.partition
        known = self._snapshots.get(name)
        if name not in self._partitions or (known is not None and known.committed_id >= snapshot.committed_id):
            return
        self._snapshots[name] = snapshot
        self._hide(name, snapshot.committed_id)
        applied.touch(name, 0)

    def _hide(self, name: str, until: int | None) -> None:
        for position in [position for position in self._order if until is None or position <= until]:
            names = self._shown[position]
            if name in names:
                names.discard(name)
                if not names:
                    self._order.remove(position)
                    del self._shown[position], self._positions[self._events.pop(position).id]

    def _insert(self, event: Committed, applied: Applied) -> None:
        position = event.committed_id
        held = self._events.get(position)
        covered = {name: snapshot.committed_id for name, snapshot in self._snapshots.items()}
        names = visible_partitions(event, self._partitions, covered)
        draft = self._drafts.get(event.id)
        if draft is not None and is_same(draft, event):
            del self._drafts[event.id]
            applied.settled.append((event.id, position))
        if held is None and (names or event.client_id == self._client_id):
            self._events[position] = event
            self._positions[event.id] = position
            self._shown[position] = set()
            insort(self._order, position)
        fresh = [name for name in names if name not in self._shown[position]]
        if fresh:
            self._shown[position].update(fresh)
            applied.show(position, fresh)

    def _commit(self, commit: Commit, applied: Applied) -> None:
        draft = self._drafts.get(commit.id)
        if draft is not None:
            event = Committed(
                commit.committed_id,
                draft.id,
                self._client_id or "",
                draft.partitions,
                draft.event,
                commit.committed_at,
            )
            self._insert(event, applied)

    def _refuse(self, refusal: Refusal, applied: Applied) -> None:
        draft = self._drafts.pop(refusal.id, None)
        if draft is not None:
            rejection = RejectedDraft(
                draft.clock, draft.id, draft.partitions, draft.event, refusal.reason, refusal.errors
            )
            self._rejections[draft.id] = rejection
            applied.rejected.append(rejection)

    def _leave(self, name: str, applied: Applied) -> None:
        if name in self._partitions:
            del self._partitions[name]
            self._snapshots.pop(name, None)
            self._hide(name, None)
            applied.touch(name, 0)

    def events(self, partitions: Sequence[str] | None, after: int, until: int | None, limit: int) -> list[Committed]:
        found: list[Committed] = []
        for position in self._order[bisect_right(self._order, after) :]:
            if len(found) == limit or (until is not None and position > until):
                break
            names = self._shown[position]
            if names and (partitions is None or not names.isdisjoint(partitions)):
                found.append(self._events[position])
        return found

    def snapshots(self, partitions: Sequence[str] | None) -> list[Snapshot]:
        return [
            snapshot for name, snapshot in sorted(self._snapshots.items()) if partitions is None or name in partitions
        ]

    # Views

    def load_checkpoint(self, name: str) -> Checkpoint | None:
        return self._checkpoints.get(name)

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._checkpoints[checkpoint.name] = checkpoint
