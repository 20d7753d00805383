"""The embedded store: a journal for commits, a SQLite database behind it, and a cache of durable states.

A commit is durable once the journal has it. The database gets it a moment later, together with many others; until then
readers find it in memory (`recent.py`). Everything that touches a file runs off the event loop.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, StoreDamaged, StoreFailed, StoreFull, StoreUnusable
from mainstem.log.commands import Key, Space, State
from mainstem.log.records import RECORD_BYTES, Chunk, CommittedId, Counts, Extent, Outline, Record, Size, TopicId
from mainstem.log.store.base import UNKNOWN, DiskUsage, Store
from mainstem.log.store.cache import StateCache
from mainstem.log.store.sqlite import queries
from mainstem.log.store.sqlite.connections import STORE_NAME, DirectoryLock, open_reader
from mainstem.log.store.sqlite.database import Database
from mainstem.log.store.sqlite.direct import whole_blocks
from mainstem.log.store.sqlite.errors import explain, explain_directory, explain_unusable, is_damage
from mainstem.log.store.sqlite.journal import (
    NO_SPACE,
    REAL_DISK,
    Batch,
    Content,
    Disk,
    Journal,
    choose_unfolded,
    encode_content,
    read_journal,
    remove_journal,
)
from mainstem.log.store.sqlite.recent import Recent
from mainstem.log.store.sqlite.usage import measure_files
from mainstem.private_files import prepare_database

logger = logging.getLogger(__name__)
T = TypeVar("T")
replace = msgspec.structs.replace
NO_PAGE = queries.Page([], 0, False)


class SqliteStore(Store):
    def __init__(self, directory: Path | str, disk: Disk = REAL_DISK) -> None:
        self.directory = Path(directory)
        self.path = self.directory / STORE_NAME
        self._disk = disk
        self._lock = DirectoryLock(self.directory)
        self._journal: Journal
        self._journal_broken: str | None = None
        self._committing = disk.make_writer("mainstem-journal")
        self._database = Database(self.path, disk.vfs)
        self._writer = disk.make_writer("mainstem-writer")
        self._reading = ThreadPoolExecutor(limits.READERS, "mainstem-reader")
        self._reader = threading.local()
        self._readers: list[apsw.Connection] = []
        self._head = CommittedId(0)
        self._cache = StateCache()
        self._saves = 0
        self._recent = Recent()
        self._folding: asyncio.Task[None] | None = None
        self._fold_timer: asyncio.TimerHandle | None = None
        self._space_watch: asyncio.Task[None] | None = None
        self._damage_log_s = 0.0
        """When damage is logged again at the earliest, on the monotonic clock."""

    @property
    def head(self) -> CommittedId:
        return self._head

    @property
    def broken(self) -> str | None:
        return self._journal_broken or self._database.broken

    @property
    def full(self) -> str | None:
        return self._database.full

    @property
    def nearly_full(self) -> bool:
        return self._database.nearly_full

    # Opening and closing

    async def open(self) -> None:
        self._writer.start()
        self._committing.start()
        try:
            self._head = await self._writer.run(self._open)
        except BaseException:
            self._writer.stop()
            self._committing.stop()
            raise
        self._journal.writer = self._disk.open_direct_writer()
        self._sync_seconds = self.metrics.sync_seconds.of()
        self._fold_seconds = self.metrics.fold_seconds.of()
        self.metrics.journal_bytes.read_with(lambda: self._recent.bytes)
        self._space_watch = asyncio.create_task(self._watch_space())

    def _open(self) -> CommittedId:
        self._database.checkpoint_seconds = self.metrics.checkpoint_seconds.of()
        try:
            # Private, because it holds the signing keys as well as the data.
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock.acquire()
            prepare_database(self.path)
            return self._recover()
        except OSError as error:
            self._lock.release()
            raise StoreUnusable(f"cannot use the data directory {self.directory}: {explain_directory(error)}") from None
        except apsw.Error as error:
            self._lock.release()
            raise StoreUnusable(f"cannot open {self.path}: {explain_unusable(error)}") from error
        except BaseException:
            self._lock.release()
            raise

    def _recover(self) -> CommittedId:
        """Open the database, and fold what a server that did not stop in an orderly way has left in the journal."""
        found = read_journal(self.directory)
        head, position = self._database.open()
        batches, folded = choose_unfolded(found, position), position.folded
        ids = [record.committed_id for batch in batches for record in batch.content.records]
        head = max([head, *ids])
        while batches:
            folded = self._database.fold(batches)
            batches = [batch for batch in batches if batch.number > folded]
        self._database.verify_newest()
        self._journal = Journal(self.directory, position.store_id, folded, self._disk)
        return head

    async def close(self) -> None:
        if self._space_watch is not None:
            self._space_watch.cancel()
            await asyncio.gather(self._space_watch, return_exceptions=True)
        try:
            await self.fold()
        except MainstemError as error:
            logger.warning("the journal was not folded and is kept for the next start: %s", error.detail)
        if self._fold_timer is not None:
            self._fold_timer.cancel()
        self._journal.close()
        self._committing.stop()
        await self._writer.run(self._close)
        self._writer.stop()

    def _close(self) -> None:
        self._reading.shutdown()
        for db in self._readers:
            db.close()
        self._database.close()
        if self._recent.first_number is None and not self._journal_broken:
            remove_journal(self.directory)
        self._lock.release()

    # Threads

    async def _read(self, job: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._with_reader, job, args)

    def _with_reader(self, job: Callable[..., T], args: tuple[Any, ...]) -> T:
        db: apsw.Connection | None = getattr(self._reader, "db", None)
        if db is None:
            db = self._reader.db = open_reader(self.path, self._disk.vfs)
            self._readers.append(db)
        try:
            return job(db, *args)
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError) as error:
            if not is_damage(error):
                raise
            if time.monotonic() >= self._damage_log_s:  # clients may read the damaged part again and again
                self._damage_log_s = time.monotonic() + limits.DAMAGE_LOG_S
                logger.error("the store is damaged: %s", explain(error), exc_info=error)
            raise StoreDamaged(f"the data cannot be read: {explain(error)}") from error

    # For the committer

    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        states: dict[Key, State | None] = {}
        missing: list[Key] = []
        cache, recent = self._cache, self._recent
        for key in keys:
            if key in cache:
                states[key] = cache[key]
            elif (state := recent.find_state(key, UNKNOWN)) is not UNKNOWN:
                states[key] = state
            else:
                missing.append(key)
        if missing:
            found = await self._read(queries.load, missing)
            states.update(found)
            self._cache.remember(found)
        return states

    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        while self._recent.bytes >= limits.UNFOLDED_BYTES_MAX:
            await asyncio.shield(self._start_folding())
        stored = await self._commit(changes, records)
        if stored is None and (self._recent.first_number is not None or not self._database.full):
            await self.fold()
            await self._writer.run(self._database.empty_wal)
            stored = await self._commit(changes, records)
        if stored is None:
            self._database.note_full("the disk is full")
            raise StoreFull("nothing was stored: the disk is full", headers=RETRY_AFTER)
        if self._database.full:
            await self._writer.run(self._database.update_full)
        # From here on readers find the batch. Nothing is awaited, so that it is published in the same moment.
        batch, size = stored
        self._saves += 1
        self._head = head
        self._cache.remember(changes)
        self._recent.add(batch, changes, size)
        self._fold_when_due()

    async def _commit(self, changes: Mapping[Key, State | None], records: Sequence[Record]) -> tuple[Batch, int] | None:
        """Append a batch to the journal, unless the disk has no room to fold it later.

        Raises if the batch cannot be made durable, and then refuses every further one.
        """
        self._require_sound()
        if sum([len(record.data) for record in records]) > limits.DIRECT_WRITE_BYTES_MAX:
            content, encoded = await self._committing.run(_encode, changes, records, self._database.erasures)
        else:
            content, encoded = _encode(changes, records, self._database.erasures)
        # On a nearly full disk only deletes come here.
        if not self._database.nearly_full and not self._database.has_room(self._recent.bytes + len(encoded)):
            return None
        began_s = time.perf_counter()
        try:
            number = await self._journal.append_directly(encoded)
            if number is None:
                number = await self._committing.run(self._journal.append, encoded)
            self._sync_seconds.observe(time.perf_counter() - began_s)
        except OSError as error:
            if error.errno in NO_SPACE:
                self._database.note_full("the disk is full")
                raise StoreFull("nothing was stored: the disk is full", headers=RETRY_AFTER) from error
            self._journal_broken = error.strerror or "the disk failed"
            logger.critical(
                "a write could not be made durable; writes are refused from now on: %s", self.broken, exc_info=error
            )
            raise StoreFailed(f"the write could not be made durable: {self.broken}", headers=RETRY_AFTER) from error
        return Batch(number, content), whole_blocks(len(encoded))

    def _require_sound(self) -> None:
        """Refuse to write anything after a write whose outcome is uncertain."""
        if self.broken:
            raise StoreFailed(f"writes are refused since an earlier failure: {self.broken}", headers=RETRY_AFTER)

    # Folding: the database gets what the journal holds

    def _fold_when_due(self) -> None:
        recent = self._recent
        if recent.records >= limits.FOLD_RECORDS or recent.bytes >= limits.FOLD_BYTES:
            self._start_folding()
        elif self._fold_timer is None and self._folding is None:
            self._fold_timer = asyncio.get_running_loop().call_later(limits.FOLD_DELAY_S, self._start_folding)

    def _start_folding(self) -> "asyncio.Task[None]":
        if self._fold_timer is not None:
            self._fold_timer.cancel()
            self._fold_timer = None
        if self._folding is None:
            self._folding = asyncio.create_task(self._fold_batches(), name="mainstem-folding")
            self._folding.add_done_callback(_log_unexpected)
        return self._folding

    async def _fold_batches(self) -> None:
        """Fold everything that is in the journal now. On a full disk, `_watch_space` tries again."""
        began_s = time.perf_counter()
        try:
            self._require_sound()
            folded = await self._writer.run(self._database.fold, self._recent.batches)
            self._fold_seconds.observe(time.perf_counter() - began_s)
        finally:
            self._folding = None
        self._journal.folded = folded
        self._recent.forget(folded)
        self._writer.post(self._database.checkpoint_when_due)
        if self._recent.first_number is not None:
            self._fold_when_due()

    async def fold(self, until: CommittedId | None = None) -> None:
        """Return once the database holds everything that was durable when this was called, or all of it that concerns
        readers up to an id."""
        if until is not None and self._recent.only_adds_after(until):
            return
        last = self._recent.last_number
        while self._recent.first_number is not None and self._recent.first_number <= last:
            await asyncio.shield(self._start_folding())

    # Disk space

    async def disk_usage(self) -> DiskUsage:
        return await asyncio.get_running_loop().run_in_executor(self._reading, measure_files, self.directory)

    async def make_room(self) -> bool:
        return await self._writer.run(self._database.make_room)

    async def _watch_space(self) -> None:
        while True:
            await asyncio.sleep(limits.ROOM_CHECK_S)
            if self.broken or not self._database.needs_space:
                continue
            try:
                await self._writer.run(self._database.look_for_space)
                await self.fold()
            except (MainstemError, apsw.Error, OSError) as error:
                logger.debug("the disk is still full: %s", error)

    # For readers

    async def get(self, key: Key) -> Any:
        if key in self._cache:
            return self._cache[key]
        return (await self.get_many([key]))[key]

    def peek(self, key: Key) -> Any:
        if key in self._cache:
            return self._cache[key]
        return self._recent.find_state(key, UNKNOWN)

    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        states = {key: self._cache[key] for key in keys if key in self._cache}
        missing: list[Key] = []
        for key in keys:
            if key not in states and (state := self._recent.find_state(key, UNKNOWN)) is not UNKNOWN:
                states[key] = state
            elif key not in states:
                missing.append(key)
        if missing:
            saves = self._saves
            found = await self._read(queries.load, missing)
            states.update(found)
            if saves == self._saves:  # otherwise a save may have cached newer states meanwhile
                self._cache.remember(found)
        return states

    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        recent = {
            name: state
            for name, state in self._recent.states(space).items()
            if name > after and name.startswith(prefix)
        }
        removed = sum([state is None for state in recent.values()])  # these may take the place of others in the page
        older = await self._read(queries.scan, space, prefix, after, limit + removed)
        if not recent:
            return older
        states = sorted((dict(older) | recent).items())
        return [(name, state) for name, state in states if state is not None][:limit]

    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        recent = self._recent.states(space)
        older = await self._read(queries.due, space, until_us, limit + len(recent))
        times = [(at, name) for at, name in older if name not in recent]
        for name, state in recent.items():
            at = None if state is None else space.due(state)
            if at is not None and at <= until_us:
                times.append((at, name))
        return [name for _, name in sorted(times)[:limit]]

    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        recent = self._recent.appends(topic, start)
        older: Chunk | None = None
        if not recent or start < recent[0].start:
            until_older = min(until, recent[0].start) if recent else until
            try:
                older = await self._read(queries.read, topic, start, until_older, bytes_max)
            except StoreDamaged:  # a single append may still be readable
                older = await self._read(queries.read, topic, start, until_older, 0)
        if older is not None and (not recent or older.end != recent[0].start):
            return older
        run: list[Record] = []
        for record in recent:
            if record.start >= until or ((run or older) and record.end > start + bytes_max):
                break
            run.append(record)
        if older is None:
            return Chunk(run[0].start, run[-1].end, b"".join([record.data for record in run])) if run else None
        if not run:
            return older
        return Chunk(older.start, run[-1].end, b"".join([older.data, *[record.data for record in run]]))

    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        recent = self._recent.appends(topic)
        first = next((record.start for record in recent if record.committed_id > committed_id), None)
        if recent and recent[0].committed_id <= committed_id:
            return first
        older = await self._read(queries.first_after, topic, committed_id)
        return first if older is None else older

    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        recent = [
            Outline(record.start, record.end, record.messages, record.committed_at_us, record.committed_id)
            for record in self._recent.appends(topic, start)
            if record.start < until
        ]
        if recent:
            until = min(until, recent[0].start)
        if newest_first:
            recent.reverse()
            found = recent[:limit]
            if len(found) < limit:
                found += await self._read(queries.outline, topic, start, until, limit - len(found), True)
            return found
        older = await self._read(queries.outline, topic, start, until, limit, False) if start < until else []
        return [*older, *recent[: limit - len(older)]]

    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        until = min(until, self.head)
        last_older = self._recent.last_older(until)
        recent = self._recent.log(after, until, topics)
        older = NO_PAGE
        if after < last_older:
            older = await self._read(queries.read_log, after, last_older, bytes_max, topics)
        return _extend_page(older, recent, bytes_max)

    async def measure(self, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
        await self.fold()
        return await self._read(queries.measure, after, min(until, self.head), rows_max, bytes_max)

    async def sizes(self, ranges: Sequence[tuple[int, int]], topics: Collection[TopicId] | None = None) -> list[Size]:
        await self.fold()
        return await self._read(queries.sizes, ranges, topics)

    async def first_record(self, after: CommittedId) -> Outline | None:
        await self.fold()
        return await self._read(queries.first_record, after)

    async def count(self) -> Counts:
        await self.fold()
        return await self._read(queries.count)

    async def read_tagged(
        self, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
    ) -> list[Record]:
        until = min(until, self.head)
        last_older = self._recent.last_older(until)
        recent = self._recent.tagged(tags, after, until)
        older = NO_PAGE
        if after < last_older:
            older = await self._read(queries.read_tagged, tags, after, last_older, limit, bytes_max)
        return _extend_page(older, recent[: limit - len(older.records)], bytes_max)

    async def last_tagged(self, tag: str) -> CommittedId:
        recent = self._recent.last_tagged(tag)
        return await self._read(queries.last_tagged, tag) if recent is None else recent

    async def list_tags(self, prefix: str, after: str, limit: int) -> list[tuple[str, CommittedId]]:
        recent = {tag: last for tag, last in self._recent.tags().items() if tag > after and tag.startswith(prefix)}
        older = await self._read(queries.list_tags, prefix, after, limit)
        return sorted((dict(older) | recent).items())[:limit]

    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        await self.fold()
        await self._writer.run(self._database.erase_tagged, committed_ids, tags)

    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        await self.fold()
        return await self._writer.run(self._database.erase, topic, until, limit)


def _encode(changes: Mapping[Key, State | None], records: Sequence[Record], erasures: int) -> tuple[Content, bytes]:
    content = Content(queries.list_states(changes), records, erasures)
    return content, encode_content(content)


def _log_unexpected(folding: "asyncio.Task[None]") -> None:
    """Log why folding failed, unless the database has reported that already."""
    error = None if folding.cancelled() else folding.exception()
    if error is not None and not isinstance(error, MainstemError):
        logger.error("the journal could not be folded", exc_info=error)


def _extend_page(older: queries.Page, recent: list[Record], bytes_max: int) -> list[Record]:
    """Return a page of the database, extended by as many recent records as fit."""
    if older.full:
        return older.records
    page, size = list(older.records), older.size
    for record in recent:
        size += len(record.data) + RECORD_BYTES
        if page and size > bytes_max:
            break
        page.append(replace(record, tags=(), origin=0) if record.tags or record.origin else record)
    return page


class ReadOnlySqliteStore(SqliteStore):
    """Reads the file of a store that a server writes. It knows no head, so its callers must pass the last id."""

    @property
    def head(self) -> CommittedId:
        return CommittedId(limits.INTEGER_MAX)

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._reading.shutdown()
        for db in self._readers:
            db.close()
