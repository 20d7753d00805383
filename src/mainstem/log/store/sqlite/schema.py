"""The tables, and how an older file becomes a current one."""

import apsw

from mainstem.errors import StoreTooNew
from mainstem.log.records import Kind

APPLICATION_ID = 0x4D53544D  # "MSTM": `file` and other tools can tell whose database it is

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
]


def migrate(db: apsw.Connection) -> None:
    """Bring the file to the current version, each step in its own transaction."""
    version = int(db.pragma("user_version"))
    if version > len(STEPS):
        raise StoreTooNew(f"the data has schema version {version}, this program knows {len(STEPS)}: upgrade mainstem")
    for number, step in enumerate(STEPS[version:], start=version + 1):
        with db:
            db.execute(step)
            db.pragma("user_version", number)
            db.pragma("application_id", APPLICATION_ID)
