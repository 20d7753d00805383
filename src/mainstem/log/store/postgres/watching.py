"""The connection that listens for other nodes' commits, and whose advisory lock says which node tends the log.

The lock belongs to the session: when a node dies, however it dies, PostgreSQL lets go of it, and another node takes it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mainstem import limits
from mainstem.log.store.postgres.connections import connect
from mainstem.log.store.postgres.errors import FAULTS
from mainstem.log.store.postgres.schema import CHANNEL, TENDING_LOCK

logger = logging.getLogger(__name__)


class Watch:
    def __init__(
        self, url: str, node: str, hear: Callable[[int], None], tend: Callable[[Any], Awaitable[None]]
    ) -> None:
        self.tending = False
        self.alive = True
        self._url = url
        self._node = node
        self._hear = hear
        self._tend = tend
        self._ended = asyncio.Event()
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Returns when it is known whether this node tends the log, or when that takes too long."""
        self._task = asyncio.create_task(self._run(), name="mainstem-watch")
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
                await self._watch()
            except FAULTS as error:
                if self.alive:  # once for each time that it broke
                    logger.warning("the connection that listens for other nodes broke: %s", type(error).__name__)
                self.alive = False
            except Exception:
                logger.exception("listening for other nodes failed and is tried again")
            finally:
                self.tending = False
            await asyncio.sleep(limits.RECONNECT_PAUSE_S)

    async def _watch(self) -> None:
        db = await connect(self._url)
        try:
            self._ended.clear()
            db.add_termination_listener(self._end)
            await db.add_listener(CHANNEL, self._notice)
            self.alive = True
            while True:
                if self.tending:
                    await self._tend(db)  # also shows that the connection, and with it the lock, is alive
                else:
                    self.tending = await db.fetchval("SELECT pg_try_advisory_lock($1)", TENDING_LOCK)
                    if self.tending:
                        logger.info("this node tends the log from now on")
                    self._tried.set()
                try:
                    async with asyncio.timeout(limits.TEND_CHECK_S):
                        await self._ended.wait()
                    return
                except TimeoutError:
                    pass
        finally:
            self.tending = False
            db.terminate()

    def _end(self, db: Any) -> None:
        self.tending = False
        self._ended.set()

    def _notice(self, db: Any, pid: int, channel: str, payload: object) -> None:
        node, _, number = str(payload).partition(" ")
        if node != self._node and number.isdigit():
            self._hear(int(number))
