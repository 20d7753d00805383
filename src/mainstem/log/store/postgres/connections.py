"""Connections to the database: the settings of every session, and a connection that is replaced after it broke."""

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
    "idle_session_timeout": "0",  # the listener's session is idle for long, and holds the leader's lock
    "default_transaction_isolation": "read committed",  # a snapshot from before the lock on the head would be outdated
    # Every statement has an index to use. A plan made while a table was small must not scan it once it is large.
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
    """Do not reset a session that returns to the pool: it holds no state, and a reset would cost a round trip."""


def make_pool(url: str) -> Any:
    return asyncpg.create_pool(
        url,
        min_size=0,  # a pool with a minimum raises its own errors while the database is unreachable
        max_size=limits.POSTGRES_READERS,
        timeout=limits.CONNECT_S_MAX,
        command_timeout=limits.COMMAND_S_MAX,
        server_settings=SESSION,
        reset=_keep,
    )


class ReconnectingConnection:
    """One connection for one kind of work. After it broke, the next use opens another."""

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
        if await db.fetchval("SHOW synchronous_commit") == "off":  # acknowledged writes must be durable
            await db.execute("SET synchronous_commit = on")

    def drop(self) -> None:
        """Terminate the connection, whatever it is doing."""
        if self._db is not None:
            self._db.terminate()
            self._db = None

    async def close(self) -> None:
        if self._db is None:
            return
        try:
            await self._db.close(timeout=limits.CONNECT_S_MAX)
        except DATABASE_ERRORS as error:
            logger.info("a connection to the database did not close cleanly: %s", type(error).__name__)
            self._db.terminate()
        self._db = None


async def wait_to_retry(deadline_s: float) -> bool:
    """Wait a moment before another attempt, and return True; return False at once if the deadline has passed."""
    if asyncio.get_running_loop().time() >= deadline_s:
        return False
    await asyncio.sleep(limits.RECONNECT_PAUSE_S)
    return True
