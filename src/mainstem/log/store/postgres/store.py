"""The store for many nodes: one row, the head of the log, orders all commits, and every save leaves a note.

While no other node commits, a node commits with one statement that moves the head if it is where the node expects it.
When others commit too, the node loads the states it needs, then locks the head, and then reloads the states that others
have changed meanwhile, as their notes say. So committed ids are assigned in the order in which they become visible on
all nodes. The notes also keep the cache current, and through them the readers of a node receive other nodes' records,
each once and in committed order (`_apply_saves`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import asyncpg

from mainstem import limits
from mainstem.errors import RETRY_AFTER, StoreFailed, StoreFull, StoreUnreachable, StoreUnusable
from mainstem.log.commands import Key, State
from mainstem.log.records import CommittedId, Record
from mainstem.log.store.base import HeadMoved
from mainstem.log.store.postgres import statements
from mainstem.log.store.postgres.connections import ReconnectingConnection, connect, wait_to_retry
from mainstem.log.store.postgres.errors import CONNECTION_ERRORS, DATABASE_ERRORS, translate
from mainstem.log.store.postgres.listener import Listener
from mainstem.log.store.postgres.reads import NO_LIMIT
from mainstem.log.store.postgres.replication import PostgresReplication
from mainstem.log.store.postgres.schema import CHANNEL, migrate
from mainstem.log.store.postgres.urls import describe_url, explain

logger = logging.getLogger(__name__)
T = TypeVar("T")

STORED = "STORED"  # a commit that succeeded although its reply was lost


class PostgresStore(PostgresReplication):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.description = describe_url(url)
        self._connection = ReconnectingConnection(url)
        self._listener = Listener(url, self._node, self._on_save, self._drop_old_notes)
        self._origin = ""
        self._base = 0
        """The save that the current batch is based on."""
        self._held: Any = None
        """The connection that has locked the head."""
        self._tasks: list[asyncio.Task[None]] = []
        self._full: str | None = None
        self._full_until_s = 0.0

    @property
    def is_leader(self) -> bool:
        return self._listener.is_leader

    @property
    def broken(self) -> str | None:
        """Why the node is not ready; unlike with other stores, it recovers once the database can be reached again."""
        return None if self._listener.alive else "the database cannot be reached"

    @property
    def full(self) -> str | None:
        """Why there is no space. Only a write can find out that there is some again, so this expires after a while."""
        return self._full if asyncio.get_running_loop().time() < self._full_until_s else None

    @property
    def origin(self) -> str:
        return self._origin

    # Opening and closing

    async def open(self) -> None:
        deadline_s = asyncio.get_running_loop().time() + limits.DATABASE_START_S_MAX
        logged = ""
        while True:
            try:
                await self._open()
                break
            except ValueError as error:  # a wrong option or certificate: waiting would not help
                raise StoreUnusable(f"cannot use the {self.description}: {explain(error, self._url)}") from None
            except CONNECTION_ERRORS as error:
                reason = explain(error, self._url)
                if reason != logged:
                    logger.warning("waiting for the %s: %s", self.description, reason)
                    logged = reason
                if not await wait_to_retry(deadline_s):
                    raise StoreUnusable(f"cannot reach the {self.description}: {reason}") from None
            except asyncpg.PostgresError as error:
                raise StoreUnusable(f"cannot use the {self.description}: {explain(error, self._url)}") from None
        await self._listener.start()
        self._tasks = [asyncio.create_task(self._follow_saves(), name="mainstem-replication")]

    async def _open(self) -> None:
        db = await connect(self._url)
        try:
            await migrate(db)
            if await db.fetchval("SHOW fsync") == "off":
                logger.warning("the %s runs with fsync off: a crash may lose acknowledged writes", self.description)
            if await db.fetchval("SHOW data_checksums") == "off":
                logger.warning("the %s has no checksums: damage to its files may go unnoticed", self.description)
            (row,) = await db.fetch(statements.NEW_SAVES, NO_LIMIT, 1, [], 0, [])
            self._origin = await _find_origin(db)
        finally:
            await db.close(timeout=limits.CONNECT_S_MAX)
        self._save, self._head, self._last_us = row["head_save"], row["head_id"], row["head_at_us"]
        self._base = self._save
        self._set_clock(row["now_us"])
        await self._open_readers()
        self.metrics.follow_lag.read_with(lambda: max(self._announced_save - self._save, 0))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.stop()
        await self.release()
        await self._connection.close()
        await self._close_readers()

    # For the committer

    async def load(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        await self.release()
        wanted = list(keys)
        for key in wanted:
            self._cache.know(key.space)
        if self._alone:
            self._base = self._save
            early = await self._fetch([key for key in wanted if key not in self._cache])
        else:
            early = await self._load_and_hold(wanted)
            self._base = self._save
        return await self._complete(wanted, early)

    @property
    def holds_head(self) -> bool:
        return self._held is not None

    async def load_more(self, keys: Iterable[Key]) -> dict[Key, State | None]:
        wanted = list(keys)
        for key in wanted:
            self._cache.know(key.space)
        return await self._complete(wanted, {})

    async def _complete(self, wanted: Sequence[Key], early: Mapping[Key, State | None]) -> dict[Key, State | None]:
        states: dict[Key, State | None] = {}
        late: list[Key] = []
        for key in wanted:
            if key in self._cache:
                states[key] = self._cache[key]
            elif key in early:
                states[key] = early[key]
            else:
                late.append(key)
        if late and self._held is None:  # evicted from the cache while the others were fetched
            states.update(await self._fetch(late))
        elif late:  # changed by another node while this one waited for the head
            states.update(await self._guard(self._fetch_with, late))
        return states

    async def _load_and_hold(self, wanted: Sequence[Key]) -> dict[Key, State | None]:
        """Lock the head, and return the states that are not cached and that nobody changed before the lock."""
        self._changed_while_loading, skips = set(), self._skips
        try:
            early = await self._fetch([key for key in wanted if key not in self._cache])
            await self._take_head()
            for key in self._changed_while_loading if skips == self._skips else list(early):
                early.pop(key, None)
            return early
        finally:
            self._changed_while_loading = None

    async def _take_head(self) -> None:
        """Lock the head, so that no other node commits, and apply everything that was committed before."""
        head_wait = self._head_wait = asyncio.get_running_loop().create_future()
        began_s = time.perf_counter()
        try:
            await self._lock_head()
            self.metrics.head_wait_seconds.of().observe(time.perf_counter() - began_s)
        finally:
            self._head_wait = None
            head_wait.set_result(None)

    async def _lock_head(self) -> None:
        deadline_s = asyncio.get_running_loop().time() + limits.RECONNECT_S_MAX
        while True:
            try:
                self._held = await self._connection.get()
                await self._held.execute(statements.LOCK)
                async with self._applying_saves:
                    await self._apply_saves(self._held)
                return
            except CONNECTION_ERRORS as error:
                self._held = None
                self._connection.drop()
                if not await wait_to_retry(deadline_s):
                    raise translate(error) from error
            except DATABASE_ERRORS as error:
                await self.release()
                raise translate(error) from error
            except BaseException:
                await self.release()
                raise

    async def _guard(self, job: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a job on the connection that holds the head, and release the head if the job fails."""
        try:
            return await job(self._held, *args)
        except DATABASE_ERRORS as error:
            await self.release()
            raise translate(error) from error
        except BaseException:
            await self.release()
            raise

    async def confirm(self) -> None:
        """Confirm the batch: if the head is not locked, check that it has not moved."""
        if self._held is None:
            await self.catch_up()
            if self._save != self._base:
                raise HeadMoved
        await self.release()

    async def release(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await held.execute("ROLLBACK")
        except DATABASE_ERRORS as error:
            logger.warning("a rollback failed, so its connection was terminated: %s", type(error).__name__)
            self._connection.drop()

    async def save(self, changes: Mapping[Key, State | None], records: Sequence[Record], head: CommittedId) -> None:
        if self._save != self._base:
            await self.release()
            raise HeadMoved
        assert head == self._head + len(records), "the ids of a batch must follow the head"
        number = self._base + 1
        at_us = max(records[-1].committed_at_us if records else 0, self._last_us)
        values = await self._encode(changes, records, number, head, at_us)
        saving = self._saving = asyncio.get_running_loop().create_future()
        try:
            await (self._save_alone(number, values) if self._held is None else self._save_held(number, values))
            self._save, self._head, self._last_us = number, head, at_us
            self._base = number
            self._full = None
            for key in changes:
                self._cache.know(key.space)
            self._cache.remember(changes)
        except StoreFull as error:
            self._full, self._full_until_s = error.detail, asyncio.get_running_loop().time() + limits.FULL_TOLD_S
            raise
        finally:
            self._saving = None
            saving.set_result(None)

    async def _encode(
        self,
        changes: Mapping[Key, State | None],
        records: Sequence[Record],
        number: int,
        head: CommittedId,
        at_us: int,
    ) -> tuple[Any, ...]:
        try:
            gone = [key for key, state in changes.items() if state is None]
            return (
                *statements.record_columns(records),
                *statements.tag_columns(records),
                *statements.state_columns(changes),
                *statements.key_columns(gone),
                number,
                self._node,
                head,
                at_us,
                *statements.key_columns(changes),
                CHANNEL,
                f"{self._node} {number}",
            )
        except BaseException:
            await self.release()
            raise

    async def _save_alone(self, number: int, values: tuple[Any, ...]) -> None:
        """Save with one statement. If another node has committed, the next load locks the head."""
        db = await self._connect()
        if await self._make_durable(number, db.execute(statements.SAVE, *values)) == "SELECT 0":
            self._alone_after_s = asyncio.get_running_loop().time() + limits.ALONE_S
            raise HeadMoved

    async def _connect(self) -> Any:
        deadline_s = asyncio.get_running_loop().time() + limits.RECONNECT_S_MAX
        while True:
            try:
                return await self._connection.get()
            except DATABASE_ERRORS as error:
                if not await wait_to_retry(deadline_s):
                    raise translate(error) from error

    async def _save_held(self, number: int, values: tuple[Any, ...]) -> None:
        if await self._guard(_execute, statements.SAVE, values) != "SELECT 1":
            await self.release()
            raise StoreFailed("the head of the log moved while it was locked", headers=RETRY_AFTER)
        held, self._held = self._held, None
        done = await self._make_durable(number, held.execute("COMMIT"))
        if done not in ("COMMIT", STORED):
            raise StoreFailed(f"the database did not commit, but answered {done}", headers=RETRY_AFTER)

    async def _make_durable(self, number: int, commit: Awaitable[str]) -> str:
        """Wait for a commit; raise if it is not durable. After a broken connection, find out whether it was stored."""
        try:
            return await commit
        except CONNECTION_ERRORS as error:
            logger.warning(
                "the connection broke during a commit (%s): checking whether it was stored", type(error).__name__
            )
            if await self._was_stored(number):
                return STORED
            raise translate(error) from error
        except DATABASE_ERRORS as error:
            raise translate(error) from error

    async def _was_stored(self, number: int) -> bool:
        """Return whether the database has this node's save, and make sure that a missing one cannot be stored later.

        The old session may still be running. So this locks the head and, if the save is missing, stores an empty one
        under its number: if the old session goes on, it finds that the head has moved.
        """
        deadline_s = asyncio.get_running_loop().time() + limits.OUTCOME_S_MAX
        while True:
            self._connection.drop()
            try:
                db = await self._connection.get()
                await db.execute(statements.LOCK)
                node = await db.fetchval("SELECT node FROM mainstem.saves WHERE save = $1", number)
                if node is None:
                    await db.execute(statements.SAVE_NOTHING, number, f"{self._node} nothing")
                await db.execute("COMMIT")
                return bool(node == self._node)
            except DATABASE_ERRORS as error:
                if not await wait_to_retry(deadline_s):
                    raise StoreUnreachable(
                        "the database connection broke during a commit, and it is not known whether it was stored",
                        headers=RETRY_AFTER,
                    ) from error

    async def _drop_old_notes(self, db: Any) -> None:
        """Delete old notes of saves, as the leader: only nodes that lag by a moment need them."""
        before_us = self.now_us() - int(limits.SAVES_KEPT_S * 1_000_000)
        await db.execute(statements.DROP_SAVES, before_us, limits.SAVES_DROPPED_MAX)


async def _execute(db: Any, statement: str, values: tuple[Any, ...]) -> str:
    done: str = await db.execute(statement, *values)
    return done


async def _find_origin(db: Any) -> str:
    """Return what changes when a dump is restored, an older state recovered, or a standby promoted."""
    try:
        return str(await db.fetchval(statements.ORIGIN))
    except asyncpg.InsufficientPrivilegeError:  # of a managed database
        return str(await db.fetchval(statements.ORIGIN_OF_TABLES))
