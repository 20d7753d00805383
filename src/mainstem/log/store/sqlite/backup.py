"""Back up a store while its server runs, and restore it. Copies are verified and replace their target in one step."""

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from mainstem import limits
from mainstem.errors import BackupFailed, BackupTargetFull, StoreTooNew, StoreUnusable
from mainstem.log.identity import IDENTITY_KEY, LogIdentity, begin_epoch, make_tag
from mainstem.log.store.snapshot import Figures, Report, StoreSnapshot
from mainstem.log.store.sqlite.checksums import add_checksums, begin_with_checksums, has_checksums, use_checksums
from mainstem.log.store.sqlite.connections import STORE_NAME, DirectoryLock, open_writer
from mainstem.log.store.sqlite.database import insert_batches
from mainstem.log.store.sqlite.errors import explain
from mainstem.log.store.sqlite.journal import choose_unfolded, read_journal, remove_journal, sync_path
from mainstem.log.store.sqlite.queries import (
    change_store_id,
    head,
    journal_position,
    list_states,
    load,
    save_states,
)
from mainstem.log.store.sqlite.schema import migrate
from mainstem.log.store.sqlite.snapshot import open_snapshot

LOCK_NAME = "lock"

Progress = Callable[[int, int], None]
"""Called with the number of bytes copied so far, and the total."""
Verify = Callable[[StoreSnapshot], Report]


class Copy(NamedTuple):
    path: Path
    size_bytes: int
    figures: Figures
    identity: LogIdentity | None = None
    """None if no server of this version has opened the store."""


def ignore_progress(done_bytes: int, total_bytes: int) -> None:
    """Do nothing."""


def back_up(
    source: Path,
    target: Path,
    verify: Verify,
    *,
    force: bool = False,
    progress: Progress = ignore_progress,
    vfs: str | None = None,
) -> Copy:
    """Copy a consistent snapshot of a store that may be in use. If that fails, no partial file is left."""
    if target.exists() and not force:
        raise BackupFailed(f"{target} already exists; choose another file, or replace it with --force")
    if target.exists() and target.samefile(source):
        raise BackupFailed(f"{target} is the store itself; choose another file")
    with partial_file(target) as partial:
        _copy(source, partial, progress, vfs)
        copied = _verify(source, partial, verify)
        move_into_place(partial, target)
    return Copy(target, target.stat().st_size, *copied)


def restore(
    backup: Path, directory: Path, verify: Verify, *, force: bool = False, progress: Progress = ignore_progress
) -> Copy:
    """Verify a backup, and make it the store of a data directory that no server uses.

    The restored log begins an epoch of its own, since the server may have committed more after the backup.
    """
    with open_snapshot(backup) as snapshot:
        if snapshot.is_current:  # an older backup is verified after its copy has been migrated
            _require_no_findings(backup, verify(snapshot))
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BackupFailed(f"cannot create the data directory {directory}: {error.strerror}") from None
    taken = sorted(entry.name for entry in directory.iterdir() if entry.name != LOCK_NAME)
    if taken and not force:
        raise BackupFailed(
            f"the data directory {directory} is not empty (it holds {taken[0]}); choose another one, or replace its "
            "store with --force"
        )
    target = directory / STORE_NAME
    if target.exists() and target.samefile(backup):
        raise BackupFailed(f"{backup} is the store itself; there is nothing to restore")
    lock = DirectoryLock(directory)
    lock.acquire()
    try:
        with partial_file(target) as partial:
            _copy(backup, partial, progress, None)
            _prepare_store(partial)
            copied = _verify(backup, partial, verify)
            _merge_journals(target)
            move_into_place(partial, target)
    finally:
        lock.release()
    return Copy(target, target.stat().st_size, *copied)


@contextmanager
def partial_file(target: Path) -> Iterator[Path]:
    """Yield the path of an empty file for a copy until it is complete. The file is removed if the copy fails."""
    partial = target.with_name(target.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        # Created here, so that no other user can ever read it: it holds the signing keys as well as the data.
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield partial
    except apsw.FullError:
        raise _full(target) from None
    except apsw.Error as error:
        raise BackupFailed(f"the copy to {target} failed: {explain(error)}; nothing was changed") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(target) from None
        raise BackupFailed(f"the copy to {target} failed: {error.strerror}; nothing was changed") from error
    finally:
        for leftover in (partial, *_journals(partial)):
            leftover.unlink(missing_ok=True)


def _full(target: Path) -> BackupTargetFull:
    return BackupTargetFull(
        f"the disk of {target} is full; nothing was changed and the unfinished copy was removed: free some space, or "
        "choose a file on another disk"
    )


def _journals(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("-journal", "-wal", "-shm")]


def _copy(source: Path, partial: Path, progress: Progress, vfs: str | None) -> None:
    """Copy the pages in steps, then add what is only in the journal of the source.

    A snapshot of the source stays open, or each write to it would restart the copy.
    """
    with open_snapshot(source) as snapshot:
        expected = snapshot.measure()
        unfolded = snapshot.find_unfolded()
        reader = snapshot.db
        page_bytes: int = reader.pragma("page_size")
        writer = apsw.Connection(str(partial), vfs=vfs)
        try:
            writer.pragma("synchronous", "off")  # the whole file is synced once, before it replaces the target
            if has_checksums(reader):
                begin_with_checksums(writer, page_bytes)
            with writer.backup("main", reader, "main") as copying:
                while not copying.done:
                    copying.step(limits.BACKUP_STEP_PAGES)
                    total = copying.page_count
                    progress((total - copying.remaining) * page_bytes, total * page_bytes)
            # One file that can be read even on a read-only file system. The server turns the WAL on again.
            writer.pragma("journal_mode", "delete")
            _compare(partial, expected)
            if unfolded:
                with writer:
                    insert_batches(writer, unfolded)
        finally:
            writer.close()


def _compare(partial: Path, expected: Figures) -> None:
    with open_snapshot(partial) as snapshot:
        found = snapshot.measure()
    if found != expected:
        raise BackupFailed(
            f"the copy differs from its source: {_describe(found)} instead of {_describe(expected)}; try again"
        )


def _prepare_store(partial: Path) -> None:
    """Migrate a copy, and make it a store of its own, for which no journal of another store is meant."""
    use_checksums()
    db = apsw.Connection(str(partial))
    try:
        migrate(db)
        change_store_id(db)
        _begin_epoch(db)
    finally:
        db.close()
    add_checksums(partial)


def _begin_epoch(db: apsw.Connection) -> None:
    """Begin an epoch in a copy. A backup of an older version has no identity: each server that opens it makes one."""
    identity = load(db, [IDENTITY_KEY])[IDENTITY_KEY]
    if isinstance(identity, LogIdentity):
        save_states(db, list_states({IDENTITY_KEY: begin_epoch(identity, head(db), make_tag(secrets.randbits(32)))}))


def _verify(source: Path, partial: Path, verify: Verify) -> tuple[Figures, LogIdentity | None]:
    """Check a copy. A fault is reported as one of its source: the pages are the same, and the copy is removed."""
    with open_snapshot(partial) as snapshot:
        _require_no_findings(source, verify(snapshot))
        return snapshot.measure(), snapshot.find_identity()


def _describe(figures: Figures) -> str:
    return f"head {figures.head}, {figures.records} records, {figures.states} states and {figures.tags} tags"


def _require_no_findings(path: Path, report: Report) -> None:
    if report.findings:
        number = f"more than {len(report.findings)}" if report.more else str(len(report.findings))
        raise BackupFailed(
            f"{path} has faults ({number}), the first: {report.findings[0].detail}; nothing was changed: list all of "
            "them with `mainstem check`"
        )


def _merge_journals(store: Path) -> None:
    """Merge leftover journals into their own store, so that they cannot be applied to the store that replaces it."""
    found = read_journal(store.parent)
    if found or any(journal.exists() for journal in _journals(store)):
        try:
            db = open_writer(store, None)
            try:
                migrate(db)
                unfolded = choose_unfolded(found, journal_position(db))
                if unfolded:
                    with db:
                        insert_batches(db, unfolded)
            finally:
                db.close()
        except (apsw.Error, StoreUnusable, StoreTooNew):
            pass  # the store is damaged; it is about to be replaced, and its journals with it
        for journal in _journals(store):
            journal.unlink(missing_ok=True)
        remove_journal(store.parent)


def move_into_place(partial: Path, target: Path) -> None:
    """Make the copy durable, then replace the target with it in one step."""
    sync_path(partial)
    os.replace(partial, target)
    sync_path(target.parent)
