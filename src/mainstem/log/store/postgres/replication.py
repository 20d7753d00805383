"""Replication: the notes of other nodes' saves keep the cache of a node current and wake its readers.

`_save` is the newest save that this node has applied: the cache is current as of it, everything up to it has been
published, and `_head` is its last id. The committer applies its own saves; `_apply_saves` applies those of others.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.log.commands import Key, Space, State
from mainstem.log.records import CommittedId, Record, TopicId
from mainstem.log.store.base import CommitListener
from mainstem.log.store.postgres import statements
from mainstem.log.store.postgres.reads import PostgresReads

logger = logging.getLogger(__name__)
SAVES_FETCHED_MAX = 100  # notes per query, each with the states that its save changed
WATCHED_TOPICS_MAX = 100  # watched topics that are sent with every query; beyond that, all records are read


def _wall_clock_us() -> int:
    return time.time_ns() // 1000


class PostgresReplication(PostgresReads):
    """The view that one node has of a log to which other nodes write too."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._node = secrets.token_hex(8)
        self._commit_listener: CommitListener | None = None
        self._head = CommittedId(0)
        self._save = 0
        self._last_us = 0
        self._ahead_us = 0
        self._local_us: Callable[[], int] = _wall_clock_us
        self._alone_after_s = 0.0
        self._changed_while_loading: set[Key] | None = None
        self._skips = 0
        """How often notes of saves were already deleted, so that the cache had to be cleared."""
        self._saving: asyncio.Future[None] | None = None
        """Pending while a commit of this node has no known outcome."""
        self._applying_saves = asyncio.Lock()
        self._next_refresh: asyncio.Task[None] | None = None
        self._save_announced = asyncio.Event()
        self._announced_save = 0
        """The newest save that a notification has announced."""
        self._head_wait: asyncio.Future[None] | None = None
        """Pending while the committer waits for the lock on the head. It then applies new saves itself."""

    @property
    def head(self) -> CommittedId:
        return self._head

    @property
    def shared(self) -> bool:
        return True

    @property
    def _alone(self) -> bool:
        """Whether no other node has committed for a while, so that a commit need not lock the head first."""
        return asyncio.get_running_loop().time() >= self._alone_after_s

    # The clock

    def clock(self, local: Callable[[], int]) -> Callable[[], int]:
        database_us = self._local_us() + self._ahead_us
        self._local_us, self._ahead_us = local, database_us - local()
        return self.now_us

    def now_us(self) -> int:
        """Return this node's estimate of the database's time, but never a time before the newest commit."""
        return max(self._local_us() + self._ahead_us, self._last_us)

    def _set_clock(self, database_us: int) -> None:
        ahead_us = database_us - self._local_us()
        if abs(ahead_us - self._ahead_us) > limits.CLOCK_STEP_US:
            self._ahead_us = ahead_us

    # Other nodes' commits

    def listen(self, listener: CommitListener) -> None:
        self._commit_listener = listener

    def watch_spaces(self, *spaces: Space[Any]) -> None:
        for space in spaces:
            self._cache.know(space)

    def _on_save(self, number: int) -> None:
        """Receive the announcement of another node's save."""
        self._announced_save = max(self._announced_save, number)
        if number > self._save:
            self._save_announced.set()

    async def _follow_saves(self) -> None:
        while True:
            try:
                # Not wait_for: before Python 3.12 it may swallow a cancellation that comes with the event.
                async with asyncio.timeout(limits.FOLLOW_POLL_S):
                    await self._save_announced.wait()
                self._save_announced.clear()
                if await self._leave_to_committer():
                    continue
            except TimeoutError:
                pass
            try:
                await self.catch_up()
            except MainstemError as error:
                logger.warning("cannot follow other nodes' commits at the moment: %s", error.detail)
            except Exception:
                logger.exception("cannot follow other nodes' commits at the moment")

    async def _leave_to_committer(self) -> bool:
        """Wait briefly for a committer that is about to lock the head: it has to apply all saves anyway.

        Returns whether it has applied the announced one.
        """
        if self._head_wait is not None:
            await asyncio.wait([self._head_wait], timeout=limits.FOLLOW_YIELD_S_MAX)
        return self._announced_save <= self._save

    async def catch_up(self) -> None:
        """Apply all saves so far. All calls that arrive during one refresh share the next one."""
        if self._next_refresh is None:
            self._next_refresh = asyncio.create_task(self._refresh())
            self._next_refresh.add_done_callback(_retrieve)
        await asyncio.shield(self._next_refresh)

    async def _refresh(self) -> None:
        try:
            await self._applying_saves.acquire()
        finally:
            self._next_refresh = None
        try:
            await self._with_reader(self._apply_saves)
        finally:
            self._applying_saves.release()

    async def _apply_saves(self, db: Any) -> None:
        """Apply and publish everything that other nodes have committed. The caller holds `_applying_saves`."""
        while True:
            known, spaces, watched = self._save, self._cache.find_spaces(), self._watched()
            only = watched if len(watched) <= WATCHED_TOPICS_MAX else None
            rows = await db.fetch(statements.NEW_SAVES, known, SAVES_FETCHED_MAX, spaces, self._head, only)
            head = rows[0]
            self._set_clock(head["now_us"])
            if known <= head["head_save"] <= self._save:
                return  # nothing new, except perhaps saves of this node that were committed during the query
            if self._save != known:
                continue  # this node has committed meanwhile, and others after it; it cannot again until it sees them
            saves = [row for row in rows if row["save"] is not None]
            if self._saving is not None and any(row["node"] == self._node for row in saves):
                await asyncio.shield(self._saving)  # the committer publishes its own save first
                continue
            if not saves or saves[0]["save"] != self._save + 1:
                await self._skip_to_head(db, head)
                continue
            last = saves[-1]
            records = await self._read_new_records(db, last["committed_id"]) if head["has_records"] else []
            states: dict[Key, State | None] = {}
            for row in saves:
                states.update(self._cache.decode(spaces, row["spaces"], row["names"], row["states"]))
                if self._changed_while_loading is not None:
                    self._changed_while_loading.update(self._cache.find_keys(row["spaces"], row["names"]))
            self._alone_after_s = asyncio.get_running_loop().time() + limits.ALONE_S
            self._cache.remember(states)
            self._save, self._last_us = last["save"], max(self._last_us, last["committed_at_us"])
            self._publish(states, records, last["committed_id"])
            if last["save"] == head["head_save"]:
                return

    async def _skip_to_head(self, db: Any, head: Any) -> None:
        """Go on without the notes that say which states changed: clear the cache, and publish the records as usual."""
        if head["head_save"] < self._save:
            logger.critical("the database has lost commits that this node has seen: was it restored from an old copy?")
        else:
            logger.warning("this node was disconnected for too long: it clears its cache of states")
        records = await self._read_new_records(db, head["head_id"])
        self._cache.clear()
        self._skips += 1
        self._save, self._last_us = head["head_save"], max(self._last_us, head["head_at_us"])
        self._publish({}, records, head["head_id"])
        if self._commit_listener is not None:
            self._commit_listener.reset_observers()

    async def _read_new_records(self, db: Any, until: CommittedId) -> list[Record]:
        """Publish new records up to `until` page by page, and return the last page instead of publishing it."""
        limit = statements.limit_rows(limits.FOLLOW_BYTES_MAX)
        while True:
            rows = await db.fetch(
                statements.READ_WANTED, self._head, until, limits.FOLLOW_BYTES_MAX, limit, self._watched()
            )
            records = [statements.to_record(row[:-1], tagged=True) for row in map(tuple, rows)]
            if not rows or len(rows) == rows[0]["found"] < limit:
                return records
            self._publish({}, records, records[-1].committed_id)

    def _watched(self) -> list[TopicId]:
        return [] if self._commit_listener is None else list(self._commit_listener.watched_topics())

    def _publish(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        self._head = head
        if self._commit_listener is not None:
            self._commit_listener.publish(changes, records)

    # States

    async def _fetch(self, keys: Sequence[Key]) -> dict[Key, State | None]:
        return await self._with_reader(self._fetch_with, keys) if keys else {}

    @staticmethod
    async def _fetch_with(db: Any, keys: Sequence[Key]) -> dict[Key, State | None]:
        states: dict[Key, State | None] = dict.fromkeys(keys)
        if not states:
            return states
        wanted = {(key.space.number, key.name.encode()): key for key in states}
        for space, name, value in await db.fetch(statements.LOAD, *statements.key_columns(states)):
            key = wanted[space, name]
            states[key] = key.space.decode(value)
        return states

    async def get(self, key: Key) -> Any:
        return (await self.get_many([key]))[key]

    async def get_many(self, keys: Sequence[Key]) -> dict[Key, Any]:
        for key in keys:
            self._cache.know(key.space)
        if any(key.space.cached for key in keys):
            await self.catch_up()  # a read must see everything that any node has acknowledged before it
        states = {key: self._cache[key] for key in keys if key in self._cache}
        missing = [key for key in keys if key not in states]
        if missing:
            save = self._save
            found = await self._fetch(missing)
            states.update(found)
            if save == self._save:  # otherwise newer states may have been cached meanwhile
                self._cache.remember(found)
        return states


def _retrieve(task: "asyncio.Task[None]") -> None:
    """Mark the exception of a task as retrieved, in case all its callers have left."""
    if not task.cancelled():
        task.exception()
