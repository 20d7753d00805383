"""The connection that listens for other nodes' saves. Its advisory lock decides which node is the leader.

The lock belongs to the session: when a node ends, even by a crash, PostgreSQL releases it and another node takes it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mainstem import limits
from mainstem.log.store.postgres.connections import connect
from mainstem.log.store.postgres.errors import DATABASE_ERRORS
from mainstem.log.store.postgres.schema import CHANNEL, LEADER_LOCK

logger = logging.getLogger(__name__)


class Listener:
    """Calls `on_save` with the number of each save of another node, and `lead` once a second while it is the leader."""

    def __init__(
        self, url: str, node: str, on_save: Callable[[int], None], lead: Callable[[Any], Awaitable[None]]
    ) -> None:
        self.is_leader = False
        self.alive = True
        self._url = url
        self._node = node
        self._on_save = on_save
        self._lead = lead
        self._ended = asyncio.Event()
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start listening. Returns once it is known whether this node is the leader, or after a timeout."""
        self._task = asyncio.create_task(self._run(), name="mainstem-listener")
        try:
            async with asyncio.timeout(limits.CONNECT_S_MAX):
                await self._tried.wait()
        except TimeoutError:
            pass

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except DATABASE_ERRORS as error:
                if self.alive:  # log each break once, not each attempt to reconnect
                    logger.warning("the connection that listens for other nodes broke: %s", type(error).__name__)
                self.alive = False
            except Exception:
                logger.exception("listening for other nodes failed; retrying")
            finally:
                self.is_leader = False
            await asyncio.sleep(limits.RECONNECT_PAUSE_S)

    async def _listen(self) -> None:
        db = await connect(self._url)
        try:
            self._ended.clear()
            db.add_termination_listener(self._end)
            await db.add_listener(CHANNEL, self._notice)
            self.alive = True
            while True:
                if self.is_leader:
                    await self._lead(db)  # this also proves that the connection, and so the lock, still exists
                else:
                    self.is_leader = await db.fetchval("SELECT pg_try_advisory_lock($1)", LEADER_LOCK)
                    if self.is_leader:
                        logger.info("this node is now the leader")
                    self._tried.set()
                try:
                    async with asyncio.timeout(limits.LEADER_CHECK_S):
                        await self._ended.wait()
                    return
                except TimeoutError:
                    pass
        finally:
            self.is_leader = False
            db.terminate()

    def _end(self, db: Any) -> None:
        self.is_leader = False
        self._ended.set()

    def _notice(self, db: Any, pid: int, channel: str, payload: object) -> None:
        node, _, number = str(payload).partition(" ")
        if node != self._node and number.isdigit():
            self._on_save(int(number))
