"""The tables of a client's store, and the migrations of older files."""

import apsw

from mainstem.client.offline.core.errors import WrongStore

APPLICATION_ID = 0x4D535443  # "MSTC": tools such as file(1) show which program the database belongs to

# Step N migrates a file from version N to N + 1. Released steps are never edited; new ones are added.
STEPS = [
    """
    CREATE TABLE client (
        client_id TEXT NOT NULL,
        cursor INTEGER NOT NULL
    ) STRICT;

    -- since: NULL once the cursor covers the partition; before that, the committed id up to which it was fetched
    CREATE TABLE partitions (name TEXT PRIMARY KEY, since INTEGER) STRICT, WITHOUT ROWID;

    -- AUTOINCREMENT: a clock is never used again, even if the newest draft was removed
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

    -- the partitions that show an event: followed ones whose snapshot does not include it
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
    """Migrate the file to the current version, with one transaction per step."""
    version, mark = int(db.pragma("user_version")), int(db.pragma("application_id"))
    tables = db.execute("SELECT count(*) FROM sqlite_schema").get
    if mark != APPLICATION_ID and (version or tables):
        raise WrongStore(f"{path} is the database of another program", hint="Give this client a file of its own.")
    if version > len(STEPS):
        raise WrongStore(
            f"{path} has schema version {version}, and this program supports {len(STEPS)}", hint="Upgrade Mainstem."
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        with db:
            db.execute(step)
            db.pragma("user_version", number)
            db.pragma("application_id", APPLICATION_ID)
