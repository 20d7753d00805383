"""Applies updates to the committed copy in SQL, within one transaction of the durable store."""

from typing import Any

import apsw
import msgspec

from mainstem.client.offline.core.records import (
    Applied,
    Commit,
    Committed,
    Diverged,
    Draft,
    Refusal,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
    is_stale,
)
from mainstem.client.offline.core.rules import is_same, visible_partitions

_encode = msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(tuple[str, ...]).decode


class UpdateWriter:
    def __init__(self, db: apsw.Connection, client_id: str) -> None:
        self.applied = Applied()
        self.drafts_gone = 0
        self.drafts_bytes_gone = 0
        self._db = db
        self._client_id = client_id
        self._load()

    def _load(self) -> None:
        db = self._db
        self._followed = {name for (name,) in db.execute("SELECT name FROM partitions")}
        self._covered: dict[str, int] = {}
        for name, committed_id in db.execute("SELECT partition, committed_id FROM snapshots"):
            self._covered[name] = committed_id
        self._has_drafts = bool(db.execute("SELECT EXISTS (SELECT 1 FROM drafts)").get)

    def apply(self, update: StoreUpdate) -> None:
        if update.reset:
            self._reset()
        for snapshot in update.snapshots:
            self._cover(snapshot)
        for event in update.events:
            self._insert(event)
        for commit in update.commits:
            self._commit(commit)
        for refusal in update.refusals:
            self._refuse(refusal)
        db = self._db
        if update.cursor is not None:
            db.execute("UPDATE client SET cursor = ?", (update.cursor,))
        for name, since in update.fetched:
            db.execute("UPDATE partitions SET since = ? WHERE name = ? AND since IS NOT NULL", (since, name))
        for name in update.joined:
            db.execute("UPDATE partitions SET since = NULL WHERE name = ?", (name,))
        for name in update.left:
            self._leave(name)
        self.applied.truncated += update.truncated

    def drop_stale_checkpoints(self) -> None:
        if not self.applied.lowest:
            return
        rows: list[Any] = self._db.execute("SELECT name, partitions, committed_id FROM checkpoints").fetchall()
        for name, names, committed_id in rows:
            if is_stale(committed_id, None if names is None else _names(names), self.applied.lowest):
                self._db.execute("DELETE FROM checkpoints WHERE name = ?", (name,))

    def _reset(self) -> None:
        for table in ("events", "shown", "snapshots", "checkpoints"):
            self._db.execute(f"DELETE FROM {table}")
        self._db.execute("UPDATE client SET cursor = 0")
        self._db.execute("UPDATE partitions SET since = NULL")
        self._covered.clear()
        for name in self._followed:
            self.applied.touch(name, 0)
        self.applied.reset = True

    def _cover(self, snapshot: Snapshot) -> None:
        name = snapshot.partition
        if name not in self._followed or self._covered.get(name, 0) >= snapshot.committed_id:
            return
        self._covered[name] = snapshot.committed_id
        self._db.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (name, snapshot.committed_id, snapshot.state)
        )
        self._hide(name, snapshot.committed_id)
        self.applied.touch(name, 0)

    def _hide(self, name: str, until: int) -> None:
        hidden = "SELECT committed_id FROM shown WHERE partition = ?1 AND committed_id <= ?2"
        self._db.execute(
            f"DELETE FROM events WHERE committed_id IN ({hidden}) AND NOT EXISTS"
            " (SELECT 1 FROM shown s WHERE s.committed_id = events.committed_id AND s.partition <> ?1)",
            (name, until),
        )
        self._db.execute("DELETE FROM shown WHERE partition = ? AND committed_id <= ?", (name, until))

    def _leave(self, name: str) -> None:
        if name in self._followed:
            self._followed.discard(name)
            self._covered.pop(name, None)
            self._hide(name, 2**62)
            self._db.execute("DELETE FROM snapshots WHERE partition = ?", (name,))
            self._db.execute("DELETE FROM partitions WHERE name = ?", (name,))
            self.applied.touch(name, 0)

    def _insert(self, event: Committed) -> None:
        db, position = self._db, event.committed_id
        if self._has_drafts:
            self._settle(event)
        names = visible_partitions(event, self._followed, self._covered)
        if names or event.client_id == self._client_id:
            db.execute(
                "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (
                    position,
                    event.id,
                    event.client_id,
                    _encode(event.partitions).decode(),
                    event.event,
                    event.committed_at,
                ),
            )
            if not db.changes():
                self._compare(event)
        elif db.execute(
            "SELECT EXISTS (SELECT 1 FROM events WHERE id = ? OR committed_id = ?)", (event.id, position)
        ).get:
            self._compare(event)
        fresh: list[str] = []
        for name in names:
            db.execute("INSERT INTO shown VALUES (?, ?) ON CONFLICT DO NOTHING", (name, position))
            if db.changes():
                fresh.append(name)
        if fresh:
            self.applied.show(position, fresh)

    def _compare(self, event: Committed) -> None:
        held = self._db.execute(
            "SELECT committed_id, id FROM events WHERE id = ? OR committed_id = ?", (event.id, event.committed_id)
        ).fetchall()
        if held != [(event.committed_id, event.id)]:
            raise Diverged(f"the event {event.id} at committed id {event.committed_id} contradicts the local copy")

    def _settle(self, event: Committed) -> None:
        """Remove the draft of a committed event. An event of another client with the same id does not count."""
        draft = self._draft(event.id)
        if draft is not None and is_same(draft, event):
            self._drop(draft)
            self.applied.settled.append((event.id, event.committed_id))

    def _commit(self, commit: Commit) -> None:
        draft = self._draft(commit.id)
        if draft is not None:
            self._insert(
                Committed(
                    commit.committed_id,
                    draft.id,
                    self._client_id,
                    draft.partitions,
                    draft.event,
                    commit.committed_at,
                )
            )

    def _refuse(self, refusal: Refusal) -> None:
        draft = self._draft(refusal.id)
        if draft is None:
            return
        self._drop(draft)
        self._db.execute(
            "INSERT INTO rejections VALUES (?, ?, ?, ?, ?, ?)",
            (
                draft.clock,
                draft.id,
                _encode(draft.partitions).decode(),
                draft.event,
                refusal.reason,
                _encode(refusal.errors).decode(),
            ),
        )
        self.applied.rejected.append(
            RejectedDraft(draft.clock, draft.id, draft.partitions, draft.event, refusal.reason, refusal.errors)
        )

    def _draft(self, id_: str) -> Draft | None:
        query = "SELECT clock, id, partitions, event, digest FROM drafts WHERE id = ?"
        for clock, _, partitions, event, digest in self._db.execute(query, (id_,)):
            return Draft(clock, id_, _names(partitions), event, digest)
        return None

    def _drop(self, draft: Draft) -> None:
        self._db.execute("DELETE FROM drafts WHERE clock = ?", (draft.clock,))
        self.drafts_gone += 1
        self.drafts_bytes_gone += len(draft.event)
