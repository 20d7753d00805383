"""PostgreSQL's errors in the words of the log: what a retry can mend is told apart from what it cannot."""

import asyncpg

from mainstem.errors import RETRY_AFTER, MainstemError, StoreBusy, StoreFailed, StoreFull, StoreUnreachable

# After these the connection is of no use, and a commit that was under way may have happened or not.
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
    asyncpg.ReadOnlySQLTransactionError,  # a standby answers: the primary is being replaced
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
        return StoreFull(f"nothing was stored: {error}", headers=RETRY_AFTER)
    if isinstance(error, CONNECTION_ERRORS):
        return StoreUnreachable(f"the database cannot be reached ({type(error).__name__})", headers=RETRY_AFTER)
    if isinstance(error, BUSY_ERRORS):
        return StoreBusy(f"the database did not take it in time ({type(error).__name__})", headers=RETRY_AFTER)
    return StoreFailed(f"the database refused it: {type(error).__name__}: {error}", headers=RETRY_AFTER)
