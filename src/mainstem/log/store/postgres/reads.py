"""Reads, on a small pool of connections. Reads can be repeated, so they wait for a database that restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from mainstem import limits
from mainstem.log.commands import Space
from mainstem.log.records import Chunk, CommittedId, Counts, Extent, Outline, Record, Size, TopicId
from mainstem.log.store.base import DiskUsage, Store
from mainstem.log.store.postgres import statements
from mainstem.log.store.postgres.cache import NodeStateCache
from mainstem.log.store.postgres.connections import make_pool, wait_to_retry
from mainstem.log.store.postgres.errors import CONNECTION_ERRORS, DATABASE_ERRORS, translate
from mainstem.metrics.instruments import Reading

logger = logging.getLogger(__name__)
T = TypeVar("T")
FIRST_AFTER_ROWS = 200  # per page, from the newest: callers have usually seen all but a few
NO_LIMIT = 2**62


class PostgresReads(Store):
    """The part of the store that needs neither locks nor cached states."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._cache = NodeStateCache()
        self._readers: Any = None

    async def _open_readers(self) -> None:
        self._readers = await make_pool(self._url)
        self.metrics.pool_connections.read = self._count_connections

    def _count_connections(self) -> Reading:
        idle = self._readers.get_idle_size()
        return [(("idle",), idle), (("busy",), self._readers.get_size() - idle)]

    async def disk_usage(self) -> DiskUsage:
        ((tables, indexes),) = await self._rows(statements.DISK_USAGE)
        return DiskUsage({"tables": tables, "indexes": indexes})

    async def _close_readers(self) -> None:
        try:
            async with asyncio.timeout(limits.CONNECT_S_MAX):
                await self._readers.close()
        except DATABASE_ERRORS as error:
            logger.info("the connections to the database did not close cleanly: %s", type(error).__name__)
            self._readers.terminate()

    async def _with_reader(self, job: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a read on any connection, and retry it for a while if the connection breaks."""
        deadline_s = asyncio.get_running_loop().time() + limits.RECONNECT_S_MAX
        while True:
            try:
                async with self._readers.acquire(timeout=limits.CONNECT_S_MAX) as db:
                    return await job(db, *args)
            except CONNECTION_ERRORS as error:
                if not await wait_to_retry(deadline_s):
                    raise translate(error) from error
            except DATABASE_ERRORS as error:
                raise translate(error) from error

    async def _rows(self, statement: str, *args: Any) -> list[Any]:
        return await self._with_reader(_fetch_rows, statement, args)

    async def scan(self, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
        self._cache.know(space)
        start = prefix.encode()
        end = statements.prefix_end(start)
        rows = await self._rows(statements.SCAN, space.number, after.encode(), start, end, limit)
        return [(name.decode(), space.decode(value)) for name, value in rows]

    async def due(self, space: Space[Any], until_us: int, limit: int) -> list[str]:
        return [name.decode() for (name,) in await self._rows(statements.DUE, space.number, until_us, limit)]

    async def read(self, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
        (row,) = await self._rows(statements.READ, topic, start, start + bytes_max, until)
        if row[0] is None:
            row = next(iter(await self._rows(statements.READ_ONE, topic, start, until)), None)
        return None if row is None else Chunk(*row)

    async def first_after(self, topic: TopicId, committed_id: CommittedId) -> int | None:
        first: int | None = None
        before = NO_LIMIT
        while rows := await self._rows(statements.FIRST_AFTER, topic, before, FIRST_AFTER_ROWS):
            for start, end, number in rows:
                if number <= committed_id:
                    return first
                first, before = start, end
        return first

    async def outline(
        self, topic: TopicId, start: int, until: int, limit: int, *, newest_first: bool = False
    ) -> list[Outline]:
        rows = await self._rows(statements.outline_statement(newest_first), topic, start, until, limit)
        return [Outline(*row) for row in rows]

    async def read_log(
        self, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None = None
    ) -> list[Record]:
        limit = statements.limit_rows(bytes_max)
        only = None if topics is None else list(topics)
        rows = await self._rows(statements.READ_LOG, after, until, bytes_max, limit, only)
        return [statements.to_record(row) for row in rows]

    async def measure(self, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
        (row,) = await self._rows(statements.MEASURE, after, until, rows_max + 1, rows_max, bytes_max)
        last, rows, size = row
        if last is None:
            return Extent(until, 0, 0)
        more = await self._rows(statements.MORE_DATA, last, until)
        return Extent(last if more else until, rows, size)

    async def sizes(self, ranges: Sequence[tuple[int, int]], topics: Collection[TopicId] | None = None) -> list[Size]:
        begins, ends = [after for after, _ in ranges], [until for _, until in ranges]
        rows = await self._rows(statements.SIZES, begins, ends, None if topics is None else list(topics))
        return [Size(*row) for row in rows]

    async def first_record(self, after: CommittedId) -> Outline | None:
        rows = await self._rows(statements.FIRST_RECORD, after, self.head)
        return Outline(*rows[0]) if rows else None

    async def count(self) -> Counts:
        (row,) = await self._rows(statements.COUNT)
        return Counts(*row)

    async def read_tagged(
        self, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
    ) -> list[Record]:
        wanted = [tag.encode() for tag in tags]
        rows = await self._rows(statements.READ_TAGGED, wanted, after, until, limit, bytes_max)
        return [statements.to_record(row) for row in rows]

    async def last_tagged(self, tag: str) -> CommittedId:
        ((last,),) = await self._rows(statements.LAST_TAGGED, tag.encode())
        return CommittedId(last or 0)

    async def list_tags(self, prefix: str, after: str, limit: int) -> list[tuple[str, CommittedId]]:
        start = prefix.encode()
        rows = await self._rows(statements.LIST_TAGS, after.encode(), start, statements.prefix_end(start), limit)
        return [(tag.decode(), CommittedId(last)) for tag, last in rows]

    # Erasing

    async def erase_tagged(self, committed_ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
        names, ids = [tag.encode() for tag, _ in tags], [number for _, number in tags]
        await self._rows(statements.ERASE_TAGGED, list(committed_ids), names, ids)

    async def erase(self, topic: TopicId, until: int, limit: int) -> int:
        ((gone,),) = await self._rows(statements.ERASE, topic, until, limit)
        return int(gone)


async def _fetch_rows(db: Any, statement: str, args: tuple[Any, ...]) -> list[Any]:
    return list(await db.fetch(statement, *args))
