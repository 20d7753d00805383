"""Every SQL statement of the embedded store, each as a function that takes a connection."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from mainstem.log.commands import Key, Space, State
from mainstem.log.records import (
    DATA_KINDS,
    KINDS,
    RECORD_BYTES,
    Chunk,
    CommittedId,
    Counts,
    Extent,
    Kind,
    Outline,
    Record,
    Size,
    TopicId,
)
from mainstem.log.store.sqlite.journal import Position, StateRow

T = TypeVar("T")
COLUMNS = 'committed_id, committed_at_us, kind, topic, "start", "end", messages, source, data'
APPEND = Kind.APPEND  # looking up a member of an enum takes longer than the rest of a comparison
LOADED_MAX = 500  # keys in one SELECT

# apsw releases the interpreter lock for every step, and on a busy server it has to wait to get it back. So rows are
# inserted in few steps, with prepared statements for powers of two; with more rows, a statement itself is slower. OR
# ROLLBACK spares SQLite the statement journal of a multi-row INSERT; a conflict is a broken invariant, so the whole
# transaction must be undone.
ROWS_PER_STEP = 256
STATEMENTS_CACHED = 4 * ROWS_PER_STEP.bit_length() + 50


def _groups(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the rows in groups of 256, then in ever smaller powers of two."""
    at, size = 0, ROWS_PER_STEP
    while at < len(rows):
        while size > len(rows) - at:
            size //= 2
        yield rows[at : at + size]
        at += size


@cache
def _insert_records(rows: int) -> str:
    return f"INSERT OR ROLLBACK INTO records ({COLUMNS}) VALUES {','.join(['(?,?,?,?,?,?,?,?,?)'] * rows)}"


@cache
def _index_appends(rows: int) -> str:
    return f'INSERT OR ROLLBACK INTO new_places (topic, "end", committed_id) VALUES {",".join(["(?,?,?)"] * rows)}'


@cache
def _insert_tags(rows: int) -> str:
    return f"INSERT OR ROLLBACK INTO tags (tag, committed_id) VALUES {','.join(['(?,?)'] * rows)}"


@cache
def _save_states(rows: int) -> str:
    return (
        f"INSERT OR ROLLBACK INTO states (space, name, due_us, value) VALUES {','.join(['(?,?,?,?)'] * rows)}"
        " ON CONFLICT DO UPDATE SET due_us = excluded.due_us, value = excluded.value"
    )


def head(db: apsw.Connection) -> CommittedId:
    """Return the newest record's id or, if newer records were erased, the head that was noted before."""
    newest, noted = db.execute("SELECT (SELECT max(committed_id) FROM records), committed_id FROM head").get
    return CommittedId(max(newest or 0, noted))


def keep_head(db: apsw.Connection) -> None:
    """Note the newest id before records are erased. Saves do not: that would cost one more page in every commit."""
    db.execute("UPDATE head SET committed_id = max(committed_id, (SELECT ifnull(max(committed_id), 0) FROM records))")


# Rows are collected without a line of Python per row, so that the interpreter lock is held as briefly as possible.
_record_values = attrgetter(
    "committed_id", "committed_at_us", "kind", "topic", "start", "end", "messages", "source", "data"
)
_place_values = attrgetter("topic", "end", "committed_id")


def insert_records(db: apsw.Connection, records: Sequence[Record]) -> None:
    for group in _groups(records):
        db.execute(_insert_records(len(group)), list(chain.from_iterable(map(_record_values, group))))


def index_appends(db: apsw.Connection, records: Sequence[Record]) -> int:
    """Add appends to the index by topic (the tables `*_places`), and return how many there were."""
    appends = [record for record in records if record.kind is APPEND]
    for group in _groups(appends):
        db.execute(_index_appends(len(group)), list(chain.from_iterable(map(_place_values, group))))
    return len(appends)


def count_unmerged_appends(db: apsw.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM new_places").get)


def merge_append_index(db: apsw.Connection) -> None:
    """Move the new entries into the large table, sorted, so that the entries of a topic share one or two pages."""
    db.execute('INSERT INTO old_places SELECT * FROM new_places ORDER BY topic, "end"')
    db.execute("DELETE FROM new_places")


def insert_tags(db: apsw.Connection, records: Sequence[Record]) -> None:
    rows = [(tag, record.committed_id) for record in records for tag in record.tags]
    for group in _groups(rows):
        db.execute(_insert_tags(len(group)), [value for row in group for value in row])


def list_states(changes: Mapping[Key, State | None]) -> list[StateRow]:
    return [
        (key.space.number, key.name, None if state is None else key.space.due(state), state)
        for key, state in changes.items()
    ]


encode_state = msgspec.msgpack.Encoder().encode
NO_STATE = encode_state(None)


def save_states(db: apsw.Connection, rows: Sequence[StateRow]) -> None:
    kept: list[tuple[int, str, int | None, bytes]] = []
    gone: list[tuple[int, str]] = []
    for space, name, due_us, state in rows:
        value = encode_state(state)  # of a Raw, these are its bytes
        if value == NO_STATE:
            gone.append((space, name))
        else:
            kept.append((space, name, due_us, value))
    insert_states(db, kept)
    if gone:
        db.executemany("DELETE FROM states WHERE space = ? AND name = ?", gone)


def insert_states(db: apsw.Connection, rows: Sequence[tuple[int, str, int | None, bytes]]) -> None:
    for group in _groups(rows):
        db.execute(_save_states(len(group)), [value for row in group for value in row])


def journal_position(db: apsw.Connection) -> Position:
    store_id, folded, erasures = db.execute("SELECT store_id, folded, erasures FROM journal").get
    return Position(bytes(store_id), int(folded), int(erasures))


def change_store_id(db: apsw.Connection) -> None:
    db.execute("UPDATE journal SET store_id = randomblob(8)")


def set_folded(db: apsw.Connection, number: int) -> None:
    db.execute("UPDATE journal SET folded = ?", (number,))


def set_erasures(db: apsw.Connection, number: int) -> None:
    db.execute("UPDATE journal SET erasures = ?", (number,))


def load(db: apsw.Connection, keys: Sequence[Key]) -> dict[Key, State | None]:
    states: dict[Key, State | None] = dict.fromkeys(keys)
    wanted = {(key.space.number, key.name): key for key in keys}
    pairs = list(wanted)
    for at in range(0, len(pairs), LOADED_MAX):
        some = pairs[at : at + LOADED_MAX]
        marks = ",".join(["(?,?)"] * len(some))
        rows = db.execute(
            f"SELECT space, name, value FROM states WHERE (space, name) IN (VALUES {marks})",
            [value for pair in some for value in pair],
        )
        for space, name, value in rows:
            key = wanted[space, name]
            states[key] = key.space.decode(value)
    return states


def read_newest(db: apsw.Connection, records_max: int, bytes_max: int) -> None:
    """Read the newest records completely, and discard them: an error shows that one of them is damaged."""
    rows = db.execute("SELECT data FROM records ORDER BY committed_id DESC LIMIT ?", (records_max,))
    for (data,) in rows:
        bytes_max -= len(data)
        if bytes_max < 0:
            break
    rows.close()


def scan(db: apsw.Connection, space: Space[Any], prefix: str, after: str, limit: int) -> list[tuple[str, Any]]:
    rows = db.execute(
        "SELECT name, value FROM states WHERE space = ? AND name > ? AND name >= ? ORDER BY name LIMIT ?",
        (space.number, after, prefix, limit),
    )
    found: list[tuple[str, Any]] = []
    for name, value in rows:
        if not name.startswith(prefix):  # names are sorted, so no later one has the prefix
            break
        found.append((name, space.decode(value)))
    rows.close()
    return found


def due(db: apsw.Connection, space: Space[Any], until_us: int, limit: int) -> list[tuple[int, str]]:
    """Return the times and names of the states that are due, the longest due first."""
    rows = db.execute(
        "SELECT due_us, name FROM states WHERE space = ? AND due_us <= ? ORDER BY due_us, name LIMIT ?",
        (space.number, until_us, limit),
    )
    return [(due_us, name) for due_us, name in rows]


# Positions count bytes, so a page is a range of positions, and SQLite can join its data in one step without the
# interpreter lock. Each index table yields its rows in order; merging both tables would make a page an eighth slower.
READS = [
    f"""
    SELECT min("start"), max("end"), CAST(group_concat(data, '') AS BLOB) FROM (
        SELECT "start", place."end" AS "end", data FROM {table} AS place CROSS JOIN records USING (committed_id)
        WHERE place.topic = ? AND place."end" > ? AND place."end" <= ? AND "start" < ? ORDER BY place."end"
    )"""
    for table in ("old_places", "new_places")
]
APPENDS = "places AS place CROSS JOIN records USING (committed_id)"
READ_ONE = f"""
    SELECT "start", place."end", data FROM {APPENDS}
    WHERE place.topic = ? AND place."end" > ? AND "start" < ? ORDER BY place."end" LIMIT 1"""
BACKWARDS = f"""
    SELECT "start", committed_id, place."end" FROM {APPENDS} WHERE place.topic = ? ORDER BY place."end" DESC"""
OUTLINE = f"""
    SELECT "start", place."end", messages, committed_at_us, committed_id FROM {APPENDS}
    WHERE place.topic = ? AND place."end" > ? AND "start" < ? ORDER BY place."end" {{order}} LIMIT ?"""


def read(db: apsw.Connection, topic: TopicId, start: int, until: int, bytes_max: int) -> Chunk | None:
    db.execute("BEGIN")  # or entries that are merged between the two statements would be missed
    try:
        found = [db.execute(part, (topic, start, start + bytes_max, until)).get for part in READS]
        parts = [Chunk(*row) for row in found if row[0] is not None]
        if not parts:
            row = db.execute(READ_ONE, (topic, start, until)).fetchone()
            return None if row is None else Chunk(*row)
    finally:
        if db.in_transaction:  # some errors end it
            db.execute("COMMIT")
    return Chunk(parts[0].start, parts[-1].end, b"".join(part.data for part in parts))


def first_after(db: apsw.Connection, topic: TopicId, committed_id: CommittedId) -> int | None:
    """Return the start of the first append after an id. Scans backwards: callers have usually seen all but a few."""
    first: int | None = None
    rows = db.execute(BACKWARDS, (topic,))
    for start, number, _ in rows:
        if number <= committed_id:
            break
        first = start
    rows.close()
    return first


def outline(
    db: apsw.Connection, topic: TopicId, start: int, until: int, limit: int, newest_first: bool
) -> list[Outline]:
    order = "DESC" if newest_first else "ASC"
    rows = db.execute(OUTLINE.format(order=order), (topic, start, until, limit))
    return [Outline(*row) for row in rows]


class Page(NamedTuple):
    records: list[Record]
    size: int
    """In bytes, as pages are measured."""
    full: bool
    """Whether the next record did not fit."""


def read_log(
    db: apsw.Connection, after: CommittedId, until: CommittedId, bytes_max: int, topics: Collection[TopicId] | None
) -> Page:
    only = "" if topics is None else " AND topic IN (SELECT value FROM json_each(?))"
    rows = db.execute(
        f"SELECT {COLUMNS} FROM records WHERE committed_id > ? AND committed_id <= ?{only} ORDER BY committed_id",
        (after, until) if topics is None else (after, until, f"[{','.join(map(str, topics))}]"),
    )
    page = _read_page(rows, bytes_max)
    rows.close()
    return page


# The result is one row, so that the interpreter lock is released for the whole statement.
DATA = f"kind IN ({', '.join(f'{kind:d}' for kind in DATA_KINDS)})"
MEASURE = f"""
    SELECT max(committed_id), max(so_far), max(bytes) FROM (
        SELECT committed_id,
            sum(messages) OVER (ORDER BY committed_id) AS so_far,
            sum(length(data)) OVER (ORDER BY committed_id) AS bytes,
            row_number() OVER (ORDER BY committed_id) AS number
        FROM (
            SELECT committed_id, messages, data FROM records
            WHERE committed_id > ? AND committed_id <= ? AND {DATA} ORDER BY committed_id LIMIT ?
        )
    ) WHERE number = 1 OR (so_far <= ? AND bytes <= ?)"""


def measure(db: apsw.Connection, after: CommittedId, until: CommittedId, rows_max: int, bytes_max: int) -> Extent:
    last, rows, size = db.execute(MEASURE, (after, until, rows_max + 1, rows_max, bytes_max)).get
    if last is None:
        return Extent(until, 0, 0)
    more = db.execute(
        f"SELECT 1 FROM records WHERE committed_id > ? AND committed_id <= ? AND {DATA} LIMIT 1", (last, until)
    ).get
    return Extent(last if more else until, rows, size)


def sizes(db: apsw.Connection, ranges: Sequence[tuple[int, int]], topics: Collection[TopicId] | None) -> list[Size]:
    """One statement per range: SQLite would sort all records for one statement with groups."""
    only = "" if topics is None else f" AND topic IN ({','.join(map(str, topics))})"
    statement = (
        "SELECT ifnull(sum(messages), 0), ifnull(sum(length(data)), 0) FROM records"
        f" WHERE committed_id > ? AND committed_id <= ? AND {DATA}{only}"
    )
    return [Size(*db.execute(statement, one).get) for one in ranges]


def first_record(db: apsw.Connection, after: CommittedId) -> Outline | None:
    row = db.execute(
        'SELECT "start", "end", messages, committed_at_us, committed_id FROM records WHERE committed_id > ?'
        " ORDER BY committed_id LIMIT 1",
        (after,),
    ).get
    return None if row is None else Outline(*row)


def count(db: apsw.Connection) -> Counts:
    appends, events, rows, size = db.execute(
        f"SELECT count(*) FILTER (WHERE kind = {Kind.APPEND:d}), count(*) FILTER (WHERE kind = {Kind.EVENT:d}),"
        f" ifnull(sum(messages), 0), ifnull(sum(length(data)), 0) FROM records WHERE {DATA}"
    ).get
    return Counts(appends, events, rows, size)


def _read_page(rows: Iterable[Any], bytes_max: int) -> Page:
    page: list[Record] = []
    size = 0
    for committed_id, at_us, kind, topic, start, end, messages, source, data in rows:
        more = len(data) + RECORD_BYTES
        if page and size + more > bytes_max:
            return Page(page, size, True)
        size += more
        page.append(Record(committed_id, at_us, KINDS[kind], topic, start, end, messages, data, source))
    return Page(page, size, False)


def read_tagged(
    db: apsw.Connection, tags: Sequence[str], after: CommittedId, until: CommittedId, limit: int, bytes_max: int
) -> Page:
    """Return a page of the records with any of these tags. Reads no more ids of a tag than the page could need."""
    ids: set[int] = set()
    for tag in tags:
        rows = db.execute(
            "SELECT committed_id FROM tags WHERE tag = ? AND committed_id > ? AND committed_id <= ?"
            " ORDER BY committed_id LIMIT ?",
            (tag, after, until, limit),
        )
        ids.update(committed_id for (committed_id,) in rows)
    return _read_page(_by_id(db, sorted(ids)[:limit]), bytes_max)


def last_tagged(db: apsw.Connection, tag: str) -> CommittedId:
    return CommittedId(db.execute("SELECT max(committed_id) FROM tags WHERE tag = ?", (tag,)).get or 0)


# The next tag is looked up in the index for each row, so that the other records of a tag are not read.
LIST_TAGS = """
    WITH RECURSIVE found (tag) AS (
        SELECT min(tag) FROM tags WHERE tag > ? AND tag >= ?
        UNION ALL SELECT (SELECT min(tag) FROM tags WHERE tag > found.tag) FROM found WHERE tag IS NOT NULL
    )
    SELECT tag, (SELECT max(committed_id) FROM tags WHERE tags.tag = found.tag)
    FROM found WHERE tag IS NOT NULL LIMIT ?"""


def list_tags(db: apsw.Connection, prefix: str, after: str, limit: int) -> list[tuple[str, CommittedId]]:
    rows = db.execute(LIST_TAGS, (after, prefix, limit))
    found: list[tuple[str, CommittedId]] = []
    for tag, last in rows:
        if not tag.startswith(prefix):  # tags are sorted, so no later one has the prefix
            break
        found.append((tag, CommittedId(last)))
    rows.close()
    return found


def _by_id(db: apsw.Connection, ids: Sequence[int]) -> Iterator[Any]:
    for committed_id in ids:
        yield from db.execute(f"SELECT {COLUMNS} FROM records WHERE committed_id = ?", (committed_id,))


def erase_tagged(db: apsw.Connection, ids: Sequence[CommittedId], tags: Sequence[tuple[str, CommittedId]]) -> None:
    db.executemany("DELETE FROM tags WHERE tag = ? AND committed_id = ?", tags)
    db.executemany("DELETE FROM records WHERE committed_id = ?", [(committed_id,) for committed_id in ids])


def erase(db: apsw.Connection, topic: TopicId, until: int, limit: int) -> int:
    """Erase a topic's oldest appends, and return how many. Call `merge_append_index` first."""
    wanted = 'FROM old_places WHERE topic = ? AND "end" <= ?'
    first = f'SELECT max("end") FROM (SELECT "end" {wanted} ORDER BY "end" LIMIT ?)'
    last = db.execute(first, (topic, until, limit)).get
    if last is None:
        return 0
    db.execute(f"DELETE FROM records WHERE committed_id IN (SELECT committed_id {wanted})", (topic, last))
    erased = db.changes()
    db.execute(f"DELETE {wanted}", (topic, last))
    return erased
