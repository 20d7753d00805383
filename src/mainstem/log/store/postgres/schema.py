"""The tables and their migrations: the database holds its version, and there is one step per version."""

import asyncpg

from mainstem.errors import StoreTooNew, StoreUnusable
from mainstem.log.records import Kind

MIGRATION_LOCK = 0x4D53544D_0001  # "MSTM"; nodes that start together migrate one after the other
LEADER_LOCK = 0x4D53544D_0002
CHANNEL = "mainstem"

# Step N brings a database from version N to N + 1. Steps are never edited once released, only added.
# Names, tags and sources are bytea: PostgreSQL's text cannot hold NUL, and bytes sort by code point in every locale.
STEPS = [
    f"""
    CREATE TABLE mainstem.head (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        save bigint NOT NULL,
        committed_id bigint NOT NULL,
        committed_at_us bigint NOT NULL
    ) WITH (fillfactor = 10);
    INSERT INTO mainstem.head (save, committed_id, committed_at_us) VALUES (0, 0, 0);

    CREATE TABLE mainstem.records (
        committed_id bigint PRIMARY KEY,
        committed_at_us bigint NOT NULL,
        kind smallint NOT NULL,
        topic bigint NOT NULL,
        "start" bigint NOT NULL,
        "end" bigint NOT NULL,
        messages bigint NOT NULL,
        source bytea,
        tags bytea,
        data bytea NOT NULL
    );
    ALTER TABLE mainstem.records ALTER COLUMN data SET STORAGE EXTERNAL;
    CREATE INDEX records_by_topic ON mainstem.records (topic, "end") WHERE kind = {Kind.APPEND:d};

    CREATE TABLE mainstem.states (
        space integer NOT NULL,
        name bytea NOT NULL,
        due_us bigint,
        value bytea NOT NULL,
        PRIMARY KEY (space, name)
    ) WITH (fillfactor = 70);
    CREATE INDEX states_by_due ON mainstem.states (space, due_us, name) WHERE due_us IS NOT NULL;

    CREATE TABLE mainstem.tags (
        tag bytea NOT NULL,
        committed_id bigint NOT NULL,
        PRIMARY KEY (tag, committed_id)
    );

    CREATE TABLE mainstem.saves (
        save bigint PRIMARY KEY,
        node text NOT NULL,
        committed_id bigint NOT NULL,
        committed_at_us bigint NOT NULL,
        spaces integer[] NOT NULL,
        names bytea[] NOT NULL
    );
    ALTER TABLE mainstem.saves ALTER COLUMN names SET STORAGE EXTERNAL;
    """,
]


async def migrate(db: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Bring the database to the current version, all steps in one transaction, one node at a time."""
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        if await db.fetchval("SELECT to_regclass('mainstem.version')") is None:
            await db.execute("CREATE SCHEMA IF NOT EXISTS mainstem")
            await db.execute("CREATE TABLE mainstem.version (number integer NOT NULL)")
            await db.execute("INSERT INTO mainstem.version VALUES (0)")
        version: int | None = await db.fetchval("SELECT number FROM mainstem.version")
        if version is None:
            raise StoreUnusable(
                "the table mainstem.version is empty: restore the database, or drop the schema mainstem to start over"
            )
        if version > len(STEPS):
            raise StoreTooNew(
                f"the data has schema version {version}, but this mainstem only knows {len(STEPS)}: upgrade mainstem"
            )
        for step in STEPS[version:]:
            await db.execute(step)
        if version < len(STEPS):
            await db.execute("UPDATE mainstem.version SET number = $1", len(STEPS))
