"""Checks a PostgreSQL store for faults, in one snapshot, beside running nodes: what is stored must fit together."""

import asyncpg
import msgspec

from mainstem.errors import StoreUnusable
from mainstem.log.records import Kind
from mainstem.log.store.postgres.connections import connect
from mainstem.log.store.postgres.errors import FAULTS
from mainstem.log.store.postgres.schema import STEPS
from mainstem.log.store.postgres.statements import decode_tags
from mainstem.log.store.postgres.urls import describe_url, explain

SHOWN_MAX = 5  # examples of each fault
TAGS_PAGE = 10_000
KINDS = ", ".join(f"{kind:d}" for kind in Kind)

# Each finds what must not be there; the text says what it is.
RULES = {
    "records lie beyond the head": "SELECT r.committed_id FROM mainstem.records r, mainstem.head h"
    " WHERE r.committed_id > h.committed_id OR r.committed_id < 1",
    "records are of no known kind": f"SELECT committed_id FROM mainstem.records WHERE kind NOT IN ({KINDS})",
    "appends do not hold as many bytes as they say": "SELECT committed_id FROM mainstem.records"
    f' WHERE kind = {Kind.APPEND:d} AND "end" - "start" <> length(data)',
    "records of a topic overlap, or are not in committed order": "SELECT committed_id FROM (SELECT committed_id,"
    ' "start", lag("end") OVER by_end AS before, lag(committed_id) OVER by_end AS earlier FROM mainstem.records'
    f' WHERE kind = {Kind.APPEND:d} WINDOW by_end AS (PARTITION BY topic ORDER BY "end")) AS r'
    ' WHERE "start" < before OR committed_id < earlier',
    "records have a hole before them within their topic": "SELECT committed_id FROM (SELECT committed_id,"
    ' "start", lag("end") OVER (PARTITION BY topic ORDER BY "end") AS before FROM mainstem.records'
    f' WHERE kind = {Kind.APPEND:d}) AS r WHERE "start" > before',
    "times go back": "SELECT committed_id FROM (SELECT committed_id, committed_at_us,"
    " lag(committed_at_us) OVER (ORDER BY committed_id) AS before FROM mainstem.records) AS r"
    " WHERE committed_at_us < before",
    "times lie behind the head's": "SELECT r.committed_id FROM mainstem.records r, mainstem.head h"
    " WHERE r.committed_at_us > h.committed_at_us",
    "tags name no record": "SELECT t.committed_id FROM mainstem.tags t"
    " WHERE NOT EXISTS (SELECT 1 FROM mainstem.records r WHERE r.committed_id = t.committed_id)",
    "notes of saves are missing": "SELECT save FROM (SELECT save, lag(save) OVER (ORDER BY save) AS before"
    " FROM mainstem.saves) AS s WHERE save <> before + 1",
    "notes of saves lie beyond the head": "SELECT s.save FROM mainstem.saves s, mainstem.head h"
    " WHERE s.save > h.save OR s.committed_id > h.committed_id",
}


async def check(url: str) -> list[str]:
    """Every fault that was found, each in a sentence; none is a healthy store."""
    try:
        db = await connect(url)
        try:
            # The checks look at everything, so they may scan, and take their time.
            await db.execute("SET statement_timeout = 0; SET enable_seqscan = on; SET enable_hashjoin = on")
            async with db.transaction(isolation="repeatable_read", readonly=True):
                return await _find_faults(db)
        finally:
            await db.close()
    except (*FAULTS, ValueError) as error:
        raise StoreUnusable(f"cannot check the {describe_url(url)}: {explain(error, url)}") from None


async def _find_faults(db: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    if await db.fetchval("SELECT to_regclass('mainstem.version')") is None:
        return ["there is no log in this database: it has no table mainstem.version"]
    version = await db.fetchval("SELECT number FROM mainstem.version")
    if version != len(STEPS):
        return [f"the schema has version {version}, this program knows {len(STEPS)}"]
    faults: list[str] = []
    if await db.fetchval("SELECT count(*) FROM mainstem.head") != 1:
        faults.append("there is not exactly one head")
    for name, rule in RULES.items():
        found = await db.fetch(f"SELECT count(*) OVER () AS number, found.* FROM ({rule}) AS found LIMIT {SHOWN_MAX}")
        if found:
            examples = ", ".join(str(row[1]) for row in found)
            faults.append(f"{found[0]['number']} {name}: {examples}{' ...' if found[0]['number'] > SHOWN_MAX else ''}")
    return faults + await _find_untagged(db)


async def _find_untagged(db: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    """A record's own tags must be those of the index."""
    wrong: list[int] = []
    after = 0
    while rows := await db.fetch(
        "SELECT committed_id, tags FROM mainstem.records"
        " WHERE tags IS NOT NULL AND committed_id > $1 ORDER BY committed_id LIMIT $2",
        after,
        TAGS_PAGE,
    ):
        after = rows[-1]["committed_id"]
        wrong += await _compare_tags(db, rows)
    if not wrong:
        return []
    return [f"{len(wrong)} records are not found by their tags: {', '.join(map(str, wrong[:SHOWN_MAX]))}"]


async def _compare_tags(db: "asyncpg.Connection[asyncpg.Record]", rows: "list[asyncpg.Record]") -> list[int]:
    pairs: list[tuple[bytes, int]] = []
    wrong: set[int] = set()
    for committed_id, tags in rows:
        try:
            pairs += [(tag.encode(), committed_id) for tag in decode_tags(tags)]
        except msgspec.MsgspecError:
            wrong.add(committed_id)
    missing = await db.fetch(
        "SELECT p.committed_id FROM unnest($1::bytea[], $2::bigint[]) AS p (tag, committed_id) WHERE NOT EXISTS"
        " (SELECT 1 FROM mainstem.tags t WHERE t.tag = p.tag AND t.committed_id = p.committed_id)",
        [tag for tag, _ in pairs],
        [committed_id for _, committed_id in pairs],
    )
    return sorted(wrong | {row[0] for row in missing})
