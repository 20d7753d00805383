"""Translate PostgreSQL's errors into those of the log, so that callers know whether a retry can help."""

import logging

import asyncpg

from mainstem.errors import RETRY_AFTER, MainstemError, StoreBusy, StoreFailed, StoreFull, StoreUnreachable

logger = logging.getLogger(__name__)

# After these the connection is unusable, and a commit that was in progress may or may not have been stored.
CONNECTION_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby answered: the primary is being replaced
)
BUSY_ERRORS = (
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InsufficientResourcesError,
)
DATABASE_ERRORS = (*CONNECTION_ERRORS, asyncpg.PostgresError)


def translate(error: BaseException) -> MainstemError:
    if isinstance(error, MainstemError):
        return error
    if isinstance(error, asyncpg.DiskFullError):
        return StoreFull("nothing was stored: the disk of the database is full", headers=RETRY_AFTER)
    if isinstance(error, CONNECTION_ERRORS):
        return StoreUnreachable(f"the database cannot be reached ({type(error).__name__})", headers=RETRY_AFTER)
    if isinstance(error, BUSY_ERRORS):
        return StoreBusy(f"the database did not answer in time ({type(error).__name__})", headers=RETRY_AFTER)
    logger.error("the database refused a statement", exc_info=error)
    return StoreFailed(f"the database refused a statement ({type(error).__name__})", headers=RETRY_AFTER)
