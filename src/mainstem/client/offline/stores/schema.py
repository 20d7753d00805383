"""The tables of a client's store, and how an older file becomes a current one."""

import apsw

from mainstem.client.offline.core.errors import WrongStore

APPLICATION_ID = 0x4D535443  # "MSTC": other tools can tell whose database it is

# Step N brings a file from version N to N + 1. Steps are never edited once released, only added.
STEPS = [
    """
    CREATE TABLE client (
        client_id TEXT NOT NULL,
        cursor INTEGER NOT NULL
    ) STRICT;

    -- since: NULL once the cursor covers the partition, else how far its history was fetched
    CREATE TABLE partitions (name TEXT PRIMARY KEY, since INTEGER) STRICT, WITHOUT ROWID;

    -- AUTOINCREMENT: a clock is never used again, also when the newest draft has left
    CREATE TABLE drafts (
        clock INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        partitions TEXT NOT NULL,
        event BLOB NOT NULL,
        digest BLOB NOT NULL
    ) STRICT;

    CREATE TABLE rejections (
        clock INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        partitions TEXT NOT NULL,
        event BLOB NOT NULL,
        reason TEXT NOT NULL,
        errors TEXT NOT NULL
    ) STRICT;

    CREATE TABLE events (
        committed_id INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        client_id TEXT NOT NULL,
        partitions TEXT NOT NULL,
        event BLOB NOT NULL,
        committed_at TEXT NOT NULL
    ) STRICT;

    -- where an event is shown: in followed partitions, above their snapshots
    CREATE TABLE shown (
        partition TEXT NOT NULL,
        committed_id INTEGER NOT NULL,
        PRIMARY KEY (partition, committed_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX shown_by_id ON shown (committed_id);

    CREATE TABLE snapshots (
        partition TEXT PRIMARY KEY,
        committed_id INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE checkpoints (
        name TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        partitions TEXT,
        committed_id INTEGER NOT NULL,
        state BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
]


def migrate(db: apsw.Connection, path: str) -> None:
    """Bring the file to the current version, each step in its own transaction."""
    version, mark = int(db.pragma("user_version")), int(db.pragma("application_id"))
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if mark != APPLICATION_ID and (version or tables):
        raise WrongStore(f"{path} is a database of something else", hint="Give this client a file of its own.")
    if version > len(STEPS):
        raise WrongStore(
            f"{path} has schema version {version}, this program knows {len(STEPS)}", hint="Upgrade mainstem."
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        with db:
            db.execute(step)
            db.pragma("user_version", number)
            db.pragma("application_id", APPLICATION_ID)
