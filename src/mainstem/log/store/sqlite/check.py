"""Whether a store's file is whole: what SQLite finds, and what every record, tag and state promises by itself.

What streams and events promise beyond that is for whoever knows their states; such rules are passed in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec

from mainstem import limits
from mainstem.errors import StoreTooNew, StoreUnusable
from mainstem.log.commands import Space
from mainstem.log.records import Kind
from mainstem.log.store.sqlite.connections import BUSY_MS
from mainstem.log.store.sqlite.schema import APPLICATION_ID, STEPS


class Fault(NamedTuple):
    """One broken promise: which rule, and where."""

    rule: str
    detail: str


class Figures(NamedTuple):
    """What a store holds, to compare a copy with its source."""

    head: int
    records: int
    states: int
    tags: int


class Report(NamedTuple):
    figures: Figures
    faults: tuple[Fault, ...]
    more: bool
    """Whether there are more faults than are listed."""


Spaces = Mapping[int, Space[Any]]
Rule = Callable[[apsw.Connection], Iterable[Fault]]
Steps = Callable[[str, int, int], None]
"""Told which rule is looked at: its name, its number, and how many there are."""


def quiet(name: str, number: int, total: int) -> None:
    """Nobody watches."""


@contextmanager
def snapshot(path: Path, vfs: str | None = None) -> Iterator[apsw.Connection]:
    """A connection that sees the store as it is now, whatever its server writes meanwhile, and cannot change it."""
    if not path.is_file():
        raise StoreUnusable(f"there is no store at {path}")
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    except apsw.Error as error:
        raise StoreUnusable(f"cannot open {path}: {error}") from None
    try:
        version = _begin(path, db)
        if version > len(STEPS):
            raise StoreTooNew(f"{path} has schema version {version}, this program knows {len(STEPS)}: upgrade mainstem")
        yield db
    finally:
        db.close()


def _begin(path: Path, db: apsw.Connection) -> int:
    """The schema's version. The first read also fixes what the connection sees."""
    db.set_busy_timeout(BUSY_MS)
    try:
        db.pragma("cache_size", -limits.CHECK_CACHE_BYTES // limits.KIB)
        db.execute("BEGIN")
        if db.pragma("application_id") != APPLICATION_ID:
            raise StoreUnusable(f"{path} is not a store of Mainstem")
        return int(db.pragma("user_version"))
    except apsw.Error as error:
        raise StoreUnusable(f"{path} cannot be read: {error}") from None


def is_current(db: apsw.Connection) -> bool:
    """False for what an older program has written, and a server has not opened since."""
    return int(db.pragma("user_version")) == len(STEPS)


def figures(db: apsw.Connection) -> Figures:
    counts = [db.execute(f"SELECT count(*) FROM {table}").get for table in ("records", "states", "tags")]
    return Figures(end_of_log(db), *counts)


def check(
    db: apsw.Connection, spaces: Spaces, rules: Sequence[tuple[str, Rule]] = (), on_step: Steps = quiet
) -> Report:
    """Look at everything, and list up to `limits.CHECK_FAULTS_MAX` faults."""
    if not is_current(db):
        raise StoreUnusable("the store is of an older version: start the server on it once, which brings it up to date")
    all_rules: list[tuple[str, Rule]] = [
        ("file", check_file),
        ("head", check_head),
        ("record", check_records),
        ("topic", check_topics),
        ("place", check_places),
        ("tag", check_tags),
        ("state", lambda db: check_states(db, spaces)),
        *rules,
    ]
    faults: list[Fault] = []
    for number, (name, rule) in enumerate(all_rules, start=1):
        on_step(name, number, len(all_rules))
        for fault in _guarded(name, rule, db):
            if len(faults) == limits.CHECK_FAULTS_MAX:
                return Report(_figures_of_any(db), tuple(faults), more=True)
            faults.append(fault)
    return Report(_figures_of_any(db), tuple(faults), more=False)


def end_of_log(db: apsw.Connection) -> int:
    """The head, also of a store that has lost the note of it."""
    noted = db.execute("SELECT max(committed_id) FROM head").get or 0
    return max(noted, db.execute("SELECT max(committed_id) FROM records").get or 0)


def _guarded(name: str, rule: Rule, db: apsw.Connection) -> Iterator[Fault]:
    """A file that is damaged may not even let itself be read: that is a fault too, and not the end of the check."""
    try:
        yield from rule(db)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Fault("file", f"the rule {name!r} could not be checked: {error}")


def _figures_of_any(db: apsw.Connection) -> Figures:
    try:
        return figures(db)
    except apsw.Error:
        return Figures(0, 0, 0, 0)


def check_file(db: apsw.Connection) -> Iterator[Fault]:
    """SQLite's own look at pages, indexes and column types."""
    for (line,) in db.execute(f"PRAGMA integrity_check({limits.CHECK_FAULTS_MAX})"):
        if line != "ok":
            yield Fault("file", line.replace("\n", " "))


def check_head(db: apsw.Connection) -> Iterator[Fault]:
    rows = list(db.execute("SELECT committed_id FROM head LIMIT 2"))
    if len(rows) != 1:
        yield Fault("head", "the table head must have one row")
    elif rows[0][0] < 0:
        yield Fault("head", f"the noted head is {rows[0][0]}")


BROKEN_RECORDS = f"""
    SELECT committed_id, kind FROM records WHERE committed_id < 1
        OR kind NOT BETWEEN {min(Kind):d} AND {max(Kind):d}
        OR "start" < 0 OR "end" < "start" OR messages < 0
        OR (kind = {Kind.CREATE:d} AND topic <> committed_id)
        OR (kind = {Kind.APPEND:d} AND ("end" = "start" OR length(data) <> "end" - "start" OR messages < 1))
        OR (kind IN ({Kind.EVENT:d}, {Kind.PRUNE:d}) AND topic <> 0)
        OR (kind IN ({Kind.APPEND:d}, {Kind.CLOSE:d}, {Kind.DELETE:d}, {Kind.TRIM:d})
            AND topic NOT BETWEEN 1 AND committed_id - 1)"""


def check_records(db: apsw.Connection) -> Iterator[Fault]:
    """Each record by itself, and the ids: SQLite orders them, unless the file is damaged."""
    for committed_id, kind in db.execute(BROKEN_RECORDS):
        yield Fault("record", f"record {committed_id} of kind {kind} does not fit together")
    last = 0
    for (committed_id,) in db.execute("SELECT committed_id FROM records NOT INDEXED"):
        if committed_id <= last:
            yield Fault("record", f"record {committed_id} stands behind {last}")
        last = committed_id


BROKEN_RUNS = f"""
    SELECT topic, committed_id, "start", end_before, id_before FROM (
        SELECT topic, committed_id, "start", lag("end") OVER run AS end_before, lag(committed_id) OVER run AS id_before
        FROM records WHERE kind = {Kind.APPEND:d}
        WINDOW run AS (PARTITION BY topic ORDER BY "end")
    ) WHERE end_before <> "start" OR id_before >= committed_id"""
NAMELESS_TOPICS = f"""
    SELECT DISTINCT topic FROM records AS of_topic WHERE kind BETWEEN {Kind.APPEND:d} AND {Kind.TRIM:d} AND NOT EXISTS (
        SELECT 1 FROM records WHERE committed_id = of_topic.topic AND kind = {Kind.CREATE:d})"""


def check_topics(db: apsw.Connection) -> Iterator[Fault]:
    """A topic's data is one run without gaps, in committed order, and its beginning is in the log."""
    for topic, committed_id, start, end_before, id_before in db.execute(BROKEN_RUNS):
        if end_before != start:
            yield Fault("topic", f"topic {topic}: record {committed_id} begins at {start}, not at {end_before}")
        else:
            yield Fault("topic", f"topic {topic}: record {committed_id} was committed before {id_before}")
    for (topic,) in db.execute(NAMELESS_TOPICS):
        yield Fault("topic", f"topic {topic} has records, but no record that creates it")


LOST_PLACES = f"""
    SELECT topic, committed_id FROM places WHERE NOT EXISTS (
        SELECT 1 FROM records WHERE records.committed_id = places.committed_id AND kind = {Kind.APPEND:d}
            AND records.topic = places.topic AND records."end" = places."end")"""
MISPLACED = f"""
    SELECT topic, committed_id, (SELECT count(*) FROM places WHERE places.topic = records.topic
        AND places."end" = records."end" AND places.committed_id = records.committed_id) AS times
    FROM records WHERE kind = {Kind.APPEND:d} AND times <> 1"""


def check_places(db: apsw.Connection) -> Iterator[Fault]:
    """Readers of a topic find each of its appends, and each of them once."""
    for topic, committed_id in db.execute(LOST_PLACES):
        yield Fault("place", f"topic {topic} should have record {committed_id}, and it is not there")
    for topic, committed_id, times in db.execute(MISPLACED):
        yield Fault("place", f"record {committed_id} has {times} places in topic {topic}")


def check_tags(db: apsw.Connection) -> Iterator[Fault]:
    lost = db.execute(
        "SELECT tag, committed_id FROM tags WHERE NOT EXISTS ("
        f" SELECT 1 FROM records WHERE records.committed_id = tags.committed_id AND kind = {Kind.EVENT:d})"
    )
    for tag, committed_id in lost:
        yield Fault("tag", f"{tag!r} names {committed_id}, and there is no such event")


def check_states(db: apsw.Connection, spaces: Spaces) -> Iterator[Fault]:
    for number, name, due_us, value in db.execute("SELECT space, name, due_us, value FROM states"):
        space = spaces.get(number)
        if space is None:
            yield Fault("state", f"{name!r} is in space {number}, which this program does not know")
            continue
        try:
            state = space.decode(value)
        except (msgspec.MsgspecError, ValueError):
            yield Fault("state", f"the state of {name!r} in space {number} cannot be decoded")
            continue
        if space.due(state) != due_us:
            yield Fault("state", f"the state of {name!r} in space {number} is due at {space.due(state)}, not {due_us}")
