"""The tables, and the migration of older files."""

import apsw

from mainstem.errors import StoreTooNew
from mainstem.log.records import Kind

APPLICATION_ID = 0x4D53544D  # "MSTM": lets `file` and other tools recognise the database

# Step N brings a file from version N to N + 1. Steps are never edited once released, only added.
STEPS = [
    f"""
    CREATE TABLE head (committed_id INTEGER NOT NULL) STRICT;
    INSERT INTO head VALUES (0);

    CREATE TABLE records (
        committed_id INTEGER PRIMARY KEY,
        committed_at_us INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        topic INTEGER NOT NULL,
        "start" INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        messages INTEGER NOT NULL,
        source TEXT,
        data BLOB NOT NULL
    ) STRICT;
    CREATE INDEX records_by_topic ON records (topic, "end") WHERE kind = {Kind.APPEND:d};

    CREATE TABLE states (
        space INTEGER NOT NULL,
        name TEXT NOT NULL,
        due_us INTEGER,
        value BLOB NOT NULL,
        PRIMARY KEY (space, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX states_by_due ON states (space, due_us) WHERE due_us IS NOT NULL;
    """,
    """
    CREATE TABLE tags (
        tag TEXT NOT NULL,
        committed_id INTEGER NOT NULL,
        PRIMARY KEY (tag, committed_id)
    ) STRICT, WITHOUT ROWID;
    """,
    # An index of the appends of each topic, in two tables. A commit writes to the small table, which has only a few
    # pages; its entries are merged into the large table by the thousand.
    f"""
    CREATE TABLE old_places (
        topic INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        committed_id INTEGER NOT NULL,
        PRIMARY KEY (topic, "end", committed_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE new_places (
        topic INTEGER NOT NULL,
        "end" INTEGER NOT NULL,
        committed_id INTEGER NOT NULL,
        PRIMARY KEY (topic, "end", committed_id)
    ) STRICT, WITHOUT ROWID;
    CREATE VIEW places AS SELECT topic, "end", committed_id FROM old_places
        UNION ALL SELECT topic, "end", committed_id FROM new_places;
    INSERT INTO old_places SELECT topic, "end", committed_id FROM records INDEXED BY records_by_topic
        WHERE kind = {Kind.APPEND:d} ORDER BY topic, "end";
    DROP INDEX records_by_topic;
    """,
    # The last batch of the journal that is in these tables. The id keeps the journal of another store out.
    """
    CREATE TABLE journal (folded INTEGER NOT NULL, store_id BLOB NOT NULL) STRICT;
    INSERT INTO journal VALUES (0, randomblob(8));
    """,
    # The number of transactions that have erased records. The journal notes it too.
    """
    ALTER TABLE journal ADD COLUMN erasures INTEGER NOT NULL DEFAULT 0;
    """,
]


def migrate(db: apsw.Connection) -> None:
    """Bring the file to the current version, each step in its own transaction.

    The steps do not stay in the write-ahead log: if SQLite undid them because of damage, the store would look new.
    """
    version = int(db.pragma("user_version"))
    if version > len(STEPS):
        raise StoreTooNew(
            f"the data has schema version {version}, but this mainstem only knows {len(STEPS)}: upgrade mainstem"
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        with db:
            db.execute(step)
            db.pragma("user_version", number)
            db.pragma("application_id", APPLICATION_ID)
    if version < len(STEPS):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
