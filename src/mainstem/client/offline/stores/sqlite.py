"""The durable store: one SQLite file in WAL mode, synced at every commit."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec

from mainstem import limits
from mainstem.client.offline.core.errors import StoreFailed, StoreFull, WrongStore
from mainstem.client.offline.core.records import (
    Applied,
    Checkpoint,
    Committed,
    Draft,
    Facts,
    Followed,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
)
from mainstem.client.offline.core.rules import check_capacity, replaces_rejection, resolve_known
from mainstem.client.offline.stores.contract import ClientStore, Found
from mainstem.client.offline.stores.lock import StoreLock
from mainstem.client.offline.stores.schema import migrate
from mainstem.client.offline.stores.writes import UpdateWriter
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import FieldFault
from mainstem.private_files import prepare_database

logger = logging.getLogger(__name__)

EVENT = "committed_id, id, client_id, partitions, event, committed_at"
STATEMENTS_CACHED = 128
FAILURES: list[tuple[type[apsw.Error], str]] = [
    (apsw.NotADBError, "the file is not an SQLite database"),
    (apsw.CorruptError, "the file is corrupt"),
    (apsw.IOError, "the disk reports an I/O error"),
    (apsw.ReadOnlyError, "the file is read-only"),
    (apsw.CantOpenError, "SQLite cannot open the file"),
    (apsw.PermissionsError, "the file's permissions do not allow it"),
    (apsw.BusyError, "another program has locked the file"),
    (apsw.LockedError, "another program has locked the file"),
    (apsw.NoMemError, "there is not enough memory"),
]

_encode = msgspec.json.Encoder().encode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_faults = msgspec.json.Decoder(tuple[FieldFault, ...]).decode


def names_text(names: Sequence[str]) -> str:
    return _encode(names).decode()


def draft_of(row: Any) -> Draft:
    clock, id_, partitions, event, digest = row
    return Draft(clock, id_, _names(partitions), event, digest)


def committed_of(row: Any) -> Committed:
    committed_id, id_, client_id, partitions, event, committed_at = row
    return Committed(committed_id, id_, client_id, _names(partitions), event, committed_at)


def rejected_of(row: Any) -> RejectedDraft:
    clock, id_, partitions, event, reason, errors = row
    return RejectedDraft(clock, id_, _names(partitions), event, reason, _faults(errors))


def describe_failure(error: apsw.Error) -> str:
    """Return in our own words what SQLite could not do."""
    for kind, words in FAILURES:
        if isinstance(error, kind):
            return words
    return "SQLite reports an unexpected error"


class SqliteClientStore(ClientStore):
    """A store in one SQLite file; `path.lock` beside it keeps a second client out."""

    def __init__(self, path: Path | str, vfs: str | None = None) -> None:
        self.path = Path(path)
        self._vfs = vfs
        self._lock = StoreLock(self.path)
        self._db: apsw.Connection
        self._broken: str | None = None
        self._client_id = ""
        self._drafts = 0
        self._drafts_bytes = 0
        self._rejections = 0

    # Opening and closing

    def open(self, client_id: str) -> None:
        self._lock.acquire()
        try:
            prepare_database(self.path)
            self._db = self._connect()
            migrate(self._db, str(self.path))
            self._bind(client_id)
            self._count()
        except apsw.FullError as error:
            self._lock.release()
            raise StoreFull(f"cannot open {self.path}: the disk is full") from error
        except apsw.Error as error:
            self._lock.release()
            hint = "Check the path, its permissions and the disk; the file must be the store of an offline client."
            raise WrongStore(f"cannot open {self.path}: {describe_failure(error)}", hint=hint) from error
        except OSError as error:
            self._lock.release()
            hint = "Check the path and its permissions."
            raise WrongStore(f"cannot open {self.path}: {error.strerror}", hint=hint) from None
        except BaseException:
            self._db.close()
            self._lock.release()
            raise
        self._broken = None

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self.path), vfs=self._vfs, statementcachesize=STATEMENTS_CACHED)
        db.pragma("journal_mode", "wal")
        # FULL syncs the journal at every commit; with NORMAL, a power loss could lose drafts that submit has returned.
        db.pragma("synchronous", "full")
        db.pragma("journal_size_limit", limits.WAL_BYTES_MAX)
        db.pragma("cache_size", -8 * limits.KIB)
        return db

    def _bind(self, client_id: str) -> None:
        owner = self._db.execute("SELECT client_id FROM client").get
        if owner is None:
            with self._transaction() as db:
                db.execute("INSERT INTO client VALUES (?, 0)", (client_id,))
        elif owner != client_id:
            hint = "A store holds the drafts of one client: use one file per client_id."
            raise WrongStore(f"{self.path} belongs to the client {owner!r}, not to {client_id!r}", hint=hint)
        self._client_id = client_id

    def close(self) -> None:
        try:
            self._db.close()
        except apsw.Error:
            logger.exception("the store did not close cleanly; SQLite recovers it from its journal at the next open")
        self._lock.release()

    def _count(self) -> None:
        self._drafts, self._drafts_bytes = self._db.execute(
            "SELECT count(*), coalesce(sum(length(event)), 0) FROM drafts"
        ).get
        self._rejections = self._db.execute("SELECT count(*) FROM rejections").get

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        """Run a transaction. After any failure but a full disk, refuse further writes: the state on disk is unknown."""
        if self._broken:
            raise StoreFailed(f"{self.path} accepts no writes since an earlier one failed: {self._broken}")
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except apsw.FullError as error:
            self._roll_back()
            raise StoreFull(f"{self.path}: the disk is full") from error
        except apsw.Error as error:
            self._broken = describe_failure(error)
            self._roll_back()
            raise StoreFailed(f"{self.path}: {self._broken}") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as error:
                self._broken = self._broken or describe_failure(error)

    # Facts and partitions

    def facts(self) -> Facts:
        db = self._db
        cursor = db.execute("SELECT cursor FROM client").get
        highest = db.execute("SELECT max(committed_id) FROM events").get or 0
        partitions = tuple(
            Followed(name, since) for name, since in db.execute("SELECT name, since FROM partitions ORDER BY name")
        )
        return Facts(cursor, highest, partitions, self._drafts)

    def follow(self, names: Sequence[str]) -> Facts:
        with self._transaction() as db:
            fresh = not db.execute("SELECT (SELECT cursor FROM client) OR EXISTS (SELECT 1 FROM partitions)").get
            for name in names:
                db.execute("INSERT OR IGNORE INTO partitions VALUES (?, ?)", (name, None if fresh else 0))
        return self.facts()

    # Drafts

    def add_drafts(self, drafts: Sequence[Draft]) -> list[Found | SyncClientError]:
        counts = self._drafts, self._drafts_bytes, self._rejections
        try:
            with self._transaction():
                return [self._add_draft(draft) for draft in drafts]
        except BaseException:
            self._drafts, self._drafts_bytes, self._rejections = counts
            raise

    def _add_draft(self, draft: Draft) -> Found | SyncClientError:
        known = self.find(draft.id)
        replaces = replaces_rejection(draft, known)
        if known is not None and not replaces:
            return resolve_known(draft, known)
        error = check_capacity(self._drafts, self._drafts_bytes, self._rejections - replaces, draft)
        if error is not None:
            return error
        if replaces:
            self._db.execute("DELETE FROM rejections WHERE id = ?", (draft.id,))
            self._rejections -= 1
        self._db.execute(
            "INSERT INTO drafts (id, partitions, event, digest) VALUES (?, ?, ?, ?)",
            (draft.id, names_text(draft.partitions), draft.event, draft.digest),
        )
        self._drafts += 1
        self._drafts_bytes += len(draft.event)
        return Draft(self._db.last_insert_rowid(), draft.id, draft.partitions, draft.event, draft.digest)

    def drafts(self, after: int, items_max: int, bytes_max: int) -> list[Draft]:
        found: list[Draft] = []
        query = "SELECT clock, id, partitions, event, digest FROM drafts WHERE clock > ? ORDER BY clock LIMIT ?"
        for row in self._db.execute(query, (after, items_max)):
            draft = draft_of(row)
            bytes_max -= len(draft.event)
            if found and bytes_max < 0:
                break
            found.append(draft)
        return found

    def find(self, id_: str) -> Found | None:
        db = self._db
        for row in db.execute(f"SELECT {EVENT} FROM events WHERE id = ?", (id_,)):
            return committed_of(row)
        for row in db.execute("SELECT clock, id, partitions, event, digest FROM drafts WHERE id = ?", (id_,)):
            return draft_of(row)
        for row in db.execute("SELECT * FROM rejections WHERE id = ?", (id_,)):
            return rejected_of(row)
        return None

    def rejections(self, limit: int) -> list[RejectedDraft]:
        return [
            rejected_of(row) for row in self._db.execute("SELECT * FROM rejections ORDER BY clock LIMIT ?", (limit,))
        ]

    def dismiss(self, ids: Sequence[str]) -> int:
        with self._transaction() as db:
            db.execute("DELETE FROM rejections WHERE id IN (SELECT value FROM json_each(?))", (names_text(ids),))
            gone = db.changes()
        self._rejections -= gone
        return gone

    # The committed copy

    def apply(self, updates: Sequence[StoreUpdate]) -> Applied:
        with self._transaction() as db:
            writer = UpdateWriter(db, self._client_id)
            for update in updates:
                writer.apply(update)
            writer.drop_stale_checkpoints()
        self._drafts -= writer.drafts_gone
        self._drafts_bytes -= writer.drafts_bytes_gone
        self._rejections += len(writer.applied.rejected)
        return writer.applied

    def events(self, partitions: Sequence[str] | None, after: int, until: int | None, limit: int) -> list[Committed]:
        last = limits.INTEGER_MAX if until is None else until
        columns = ", ".join(f"e.{name}" for name in EVENT.split(", "))
        if partitions is not None and len(partitions) == 1:
            query = (
                f"SELECT {columns} FROM shown s JOIN events e USING (committed_id)"
                " WHERE s.partition = ?1 AND s.committed_id > ?2 AND s.committed_id <= ?3"
                " ORDER BY s.committed_id LIMIT ?4"
            )
            wanted: str | None = partitions[0]
        else:
            query = (
                f"SELECT {columns} FROM events e WHERE e.committed_id > ?2 AND e.committed_id <= ?3 AND EXISTS"
                " (SELECT 1 FROM shown s WHERE s.committed_id = e.committed_id"
                " AND (?1 IS NULL OR s.partition IN (SELECT value FROM json_each(?1))))"
                " ORDER BY e.committed_id LIMIT ?4"
            )
            wanted = None if partitions is None else names_text(partitions)
        return [committed_of(row) for row in self._db.execute(query, (wanted, after, last, limit))]

    def snapshots(self, partitions: Sequence[str] | None) -> list[Snapshot]:
        rows = self._db.execute("SELECT partition, committed_id, state FROM snapshots ORDER BY partition")
        return [Snapshot(*row) for row in rows if partitions is None or row[0] in partitions]

    # Views

    def load_checkpoint(self, name: str) -> Checkpoint | None:
        query = "SELECT version, partitions, committed_id, state FROM checkpoints WHERE name = ?"
        for version, partitions, committed_id, state in self._db.execute(query, (name,)):
            return Checkpoint(name, version, None if partitions is None else _names(partitions), committed_id, state)
        return None

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        names = None if checkpoint.partitions is None else names_text(checkpoint.partitions)
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)",
                (checkpoint.name, checkpoint.version, names, checkpoint.committed_id, checkpoint.state),
            )
