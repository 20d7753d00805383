"""A snapshot of a PostgreSQL store: a read-only transaction of its own. Nodes may run meanwhile."""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import msgspec

from mainstem import limits
from mainstem.errors import StoreUnusable
from mainstem.log.records import Kind
from mainstem.log.store.postgres.connections import connect
from mainstem.log.store.postgres.errors import DATABASE_ERRORS
from mainstem.log.store.postgres.schema import STEPS
from mainstem.log.store.postgres.statements import decode_tags
from mainstem.log.store.postgres.urls import describe_url, explain
from mainstem.log.store.snapshot import Finding, StoreSnapshot, batches

T = TypeVar("T")
EXAMPLES_MAX = 5  # per violation

# Each statement finds rows that must not exist; the key describes them.
VIOLATIONS = {
    "records are beyond the head": "SELECT r.committed_id FROM records r, head h"
    " WHERE r.committed_id > h.committed_id OR r.committed_id < 1",
    "records are older than the record before them": "SELECT committed_id FROM (SELECT committed_id, committed_at_us,"
    " lag(committed_at_us) OVER (ORDER BY committed_id) AS before FROM records) AS r WHERE committed_at_us < before",
    "records are newer than the head": "SELECT r.committed_id FROM records r, head h"
    " WHERE r.committed_at_us > h.committed_at_us",
    "saves follow a missing note": "SELECT save FROM (SELECT save, lag(save) OVER (ORDER BY save) AS before"
    " FROM saves) AS s WHERE save <> before + 1",
    "notes of saves are beyond the head": "SELECT s.save FROM saves s, head h"
    " WHERE s.save > h.save OR s.committed_id > h.committed_id",
}
MISSING_TAGS = """
    SELECT DISTINCT p.committed_id FROM unnest($1::bytea[], $2::bigint[]) AS p (tag, committed_id)
    WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.tag = p.tag AND t.committed_id = p.committed_id)"""
EXTENTS = f"""
    SELECT wanted.topic, first."start", last."end" FROM unnest($1::bigint[]) AS wanted (topic)
    CROSS JOIN LATERAL (
        SELECT "start" FROM records WHERE kind = {Kind.APPEND:d} AND topic = wanted.topic ORDER BY "end" LIMIT 1
    ) AS first CROSS JOIN LATERAL (
        SELECT "end" FROM records WHERE kind = {Kind.APPEND:d} AND topic = wanted.topic ORDER BY "end" DESC LIMIT 1
    ) AS last"""


@contextmanager
def open_snapshot(url: str) -> Iterator["PostgresSnapshot"]:
    """Open a snapshot of the store as it is now. This runs its own event loop, so do not call it from one."""
    with asyncio.Runner() as runner:
        try:
            db = runner.run(_begin(url))
        except (*DATABASE_ERRORS, ValueError) as error:  # the driver raises ValueError for an invalid URL
            raise _cannot_check(url, error) from None
        try:
            yield PostgresSnapshot(url, runner, db)
        finally:
            db.terminate()


class PostgresSnapshot(StoreSnapshot):
    storage = "store"
    read_errors = (UnicodeDecodeError,)

    def __init__(self, url: str, runner: asyncio.Runner, db: Any) -> None:
        self._url = url
        self._runner = runner
        self._db = db

    def _run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        try:
            return self._runner.run(wait())
        except DATABASE_ERRORS as error:
            raise _cannot_check(self._url, error) from None

    def find_obstacle(self) -> str | None:
        ((table,),) = self._fetch("SELECT to_regclass('mainstem.version')")
        if table is None:
            return "there is no log in this database: it has no table mainstem.version"
        version = next((row[0] for row in self._fetch("SELECT number FROM version")), None)
        if version != len(STEPS):
            return f"the schema has version {version}, but this version of mainstem needs {len(STEPS)}"
        return None

    def explain(self, error: Exception) -> str:
        return "a name in it is not valid UTF-8"

    def check_storage(self) -> Iterator[Finding]:
        """Check the head, the notes of saves, the times, and that each record's own tags are in the index of tags."""
        for what, statement in VIOLATIONS.items():
            found = self._fetch(
                f"SELECT count(*) OVER () AS number, found.* FROM ({statement}) AS found LIMIT {EXAMPLES_MAX}"
            )
            if found:
                yield _describe(found[0][0], what, [row[1] for row in found])
        number, examples = 0, []
        for committed_id in self._scan_untagged():
            number += 1
            if number <= EXAMPLES_MAX:
                examples.append(committed_id)
        if number:
            yield _describe(number, "records have tags that are missing in the index of tags", examples)

    def _scan_untagged(self) -> Iterator[int]:
        """Yield the ids of records whose own tags are not all in the index."""
        rows = self._scan("SELECT committed_id, tags FROM records WHERE tags IS NOT NULL ORDER BY committed_id")
        for batch in batches(rows):
            tags: list[bytes] = []
            ids: list[int] = []
            for committed_id, encoded in batch:
                try:
                    own = decode_tags(encoded)
                except msgspec.MsgspecError:
                    yield committed_id
                    continue
                tags += [tag.encode() for tag in own]
                ids += [committed_id] * len(own)
            yield from sorted(row[0] for row in self._run(self._db.fetch(MISSING_TAGS, tags, ids)))

    def find_extents(self, topics: Sequence[int]) -> dict[int, tuple[int, int]]:
        rows = self._run(self._db.fetch(EXTENTS, list(topics)))
        return {topic: (start, end) for topic, start, end in rows}

    def _scan(self, statement: str, *values: Any) -> Iterator[Any]:
        cursor = self._run(self._db.cursor(_number_parameters(statement), *values))
        while rows := self._run(cursor.fetch(limits.CHECK_SCAN_ROWS)):
            yield from rows

    def _fetch(self, statement: str, *values: Any) -> list[Any]:
        return list(self._run(self._db.fetch(_number_parameters(statement), *values)))

    def _encode_text(self, text: str) -> bytes:
        return text.encode()

    def _decode_text(self, stored: bytes) -> str:
        return stored.decode()


def _cannot_check(url: str, error: BaseException) -> StoreUnusable:
    return StoreUnusable(f"cannot check the {describe_url(url)}: {explain(error, url)}")


async def _begin(url: str) -> Any:
    db = await connect(url, command_timeout_s=None)
    try:
        # A check reads everything, so it may take long.
        await db.execute(
            "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET search_path = mainstem;"
            " BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        )
        await db.fetchval("SELECT 1")  # the first statement fixes what the transaction sees
    except BaseException:
        db.terminate()
        raise
    return db


@lru_cache(100)
def _number_parameters(statement: str) -> str:
    """Replace each ? with $1, $2 and so on."""
    numbers = count(1)
    return "".join(part if part != "?" else f"${next(numbers)}" for part in statement)


def _describe(number: int, what: str, examples: Sequence[int]) -> Finding:
    more = " ..." if number > len(examples) else ""
    return Finding(PostgresSnapshot.storage, f"{number} {what}: {', '.join(map(str, examples))}{more}")
