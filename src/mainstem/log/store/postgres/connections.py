"""Connections to the database: what every session is told at its start, and one that is made again when it broke."""

import asyncio
import logging
from typing import Any

import asyncpg

from mainstem import limits
from mainstem.log.store.postgres.errors import DATABASE_ERRORS

logger = logging.getLogger(__name__)
Connection = asyncpg.Connection

SESSION = {
    "application_name": "mainstem",
    "statement_timeout": f"{limits.STATEMENT_S_MAX:.0f}s",
    "lock_timeout": f"{limits.HEAD_WAIT_S_MAX:.0f}s",
    "idle_in_transaction_session_timeout": f"{limits.HEAD_HOLD_S_MAX:.0f}s",
    "idle_session_timeout": "0",  # one session listens, and holds the lock of the leader
    "default_transaction_isolation": "read committed",  # the head is the lock; a snapshot of before it would be old
    # Every statement has its index. A plan made while a table was small must not scan it when it is large.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}


async def connect(url: str, command_timeout_s: float | None = limits.COMMAND_S_MAX) -> Any:
    return await asyncpg.connect(
        url, timeout=limits.CONNECT_S_MAX, command_timeout=command_timeout_s, server_settings=SESSION
    )


async def _keep(connection: Any) -> None:
    """Sessions hold nothing that would have to be reset, and a reset would be one more way there and back."""


def make_pool(url: str) -> Any:
    return asyncpg.create_pool(
        url,
        min_size=0,  # a pool that keeps some ready would complain in its own words while the database is away
        max_size=limits.POSTGRES_READERS,
        timeout=limits.CONNECT_S_MAX,
        command_timeout=limits.COMMAND_S_MAX,
        server_settings=SESSION,
        reset=_keep,
    )


class ReconnectingConnection:
    """One connection for one kind of work. When it broke, the next use makes another."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._db: Any = None

    async def get(self) -> Any:
        if self._db is None or self._db.is_closed():
            self._db = None
            db = await connect(self._url)
            try:
                await self._begin(db)
            except BaseException:
                db.terminate()
                raise
            self._db = db
        return self._db

    async def _begin(self, db: Any) -> None:
        if await db.fetchval("SHOW synchronous_commit") == "off":  # what is acknowledged must be durable
            await db.execute("SET synchronous_commit = on")

    def drop(self) -> None:
        """Whatever this connection was doing: it is over."""
        if self._db is not None:
            self._db.terminate()
            self._db = None

    async def close(self) -> None:
        if self._db is None:
            return
        try:
            await self._db.close(timeout=limits.CONNECT_S_MAX)
        except DATABASE_ERRORS as error:
            logger.info("a connection to the database did not end well: %s", type(error).__name__)
            self._db.terminate()
        self._db = None


async def wait_to_retry(deadline_s: float) -> bool:
    """Wait a moment before another attempt; False when the time is up."""
    if asyncio.get_running_loop().time() >= deadline_s:
        return False
    await asyncio.sleep(limits.RECONNECT_PAUSE_S)
    return True
