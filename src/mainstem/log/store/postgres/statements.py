"""Every SQL statement of the store, and the conversion of records and states to rows and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mainstem.log.commands import Key, State
from mainstem.log.records import DATA_KINDS, KINDS, RECORD_BYTES, CommittedId, Kind, Record, TopicId

# Skips appends to topics that nobody watches on this node.
WANTED = f"(kind <> {Kind.APPEND:d} OR topic = ANY ($5::bigint[]))"

# The lock of the log: of all nodes, the one that holds it commits next, and the commit releases it.
LOCK = "BEGIN; SELECT 1 FROM mainstem.head FOR UPDATE"

# One round trip, because this often runs while the head is locked. It returns the notes of the saves after $1, the
# current states of their keys in the spaces $3, and whether there are records after $4 to read (for the topics $5).
NEW_SAVES = f"""
    WITH h AS MATERIALIZED (
        SELECT save, committed_id, committed_at_us, save > $1 AND EXISTS (
            SELECT FROM mainstem.records r
            WHERE r.committed_id > $4 AND r.committed_id <= head.committed_id AND ($5::bigint[] IS NULL OR {WANTED})
        ) AS has_records FROM mainstem.head
    )
    SELECT h.save AS head_save, h.committed_id AS head_id, h.committed_at_us AS head_at_us, h.has_records,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
        s.save, s.node, s.committed_id, s.committed_at_us, s.spaces, s.names,
        ARRAY(
            SELECT (SELECT t.value FROM mainstem.states t WHERE t.space = k.space AND t.name = k.name)
            FROM unnest(s.spaces, s.names) WITH ORDINALITY AS k (space, name, at)
            WHERE k.space = ANY ($3::integer[]) ORDER BY k.at
        ) AS states
    FROM h LEFT JOIN mainstem.saves s ON s.save > $1
    ORDER BY s.save LIMIT $2"""

# One statement, so one round trip. It does nothing if the head has moved since the batch began. Parts without rows
# cost almost nothing.
SAVE = """
    WITH mine AS (
        UPDATE mainstem.head SET save = $19, committed_id = $21, committed_at_us = $22 WHERE save = $19 - 1 RETURNING 1
    ), new_records AS (
        INSERT INTO mainstem.records
            (committed_id, committed_at_us, kind, topic, "start", "end", messages, source, tags, data)
        SELECT r.* FROM mine, unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[],
            $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[], $10::bytea[]) AS r
    ), new_tags AS (
        INSERT INTO mainstem.tags (tag, committed_id)
        SELECT t.* FROM mine, unnest($11::bytea[], $12::bigint[]) AS t
    ), new_states AS (
        INSERT INTO mainstem.states (space, name, due_us, value)
        SELECT s.* FROM mine, unnest($13::integer[], $14::bytea[], $15::bigint[], $16::bytea[]) AS s
        ON CONFLICT (space, name) DO UPDATE SET due_us = excluded.due_us, value = excluded.value
    ), gone_states AS (
        DELETE FROM mainstem.states s USING mine, unnest($17::integer[], $18::bytea[]) AS gone (space, name)
        WHERE s.space = gone.space AND s.name = gone.name
    ), new_save AS (
        INSERT INTO mainstem.saves (save, node, committed_id, committed_at_us, spaces, names)
        SELECT $19, $20, $21, $22, $23::integer[], $24::bytea[] FROM mine
    )
    SELECT pg_notify($25, $26) FROM mine"""

SAVE_NOTHING = """
    WITH mine AS (UPDATE mainstem.head SET save = $1 WHERE save = $1 - 1 RETURNING committed_id, committed_at_us)
    INSERT INTO mainstem.saves (save, node, committed_id, committed_at_us, spaces, names)
    SELECT $1, $2, committed_id, committed_at_us, '{}', '{}' FROM mine"""

LOAD = """
    SELECT s.space, s.name, s.value FROM unnest($1::integer[], $2::bytea[]) AS wanted (space, name)
    JOIN mainstem.states s ON s.space = wanted.space AND s.name = wanted.name"""
SCAN = """
    SELECT name, value FROM mainstem.states
    WHERE space = $1 AND name > $2 AND name >= $3 AND ($4::bytea IS NULL OR name < $4) ORDER BY name LIMIT $5"""
DUE = "SELECT name FROM mainstem.states WHERE space = $1 AND due_us <= $2 ORDER BY due_us, name LIMIT $3"

OF_TOPIC = f'FROM mainstem.records WHERE kind = {Kind.APPEND:d} AND topic = $1 AND "end" > $2'
READ = f"""
    SELECT min("start"), max("end"), string_agg(data, ''::bytea ORDER BY "end")
    {OF_TOPIC} AND "end" <= $3 AND "start" < $4"""
READ_ONE = f'SELECT "start", "end", data {OF_TOPIC} AND "start" < $3 ORDER BY "end" LIMIT 1'
FIRST_AFTER = f"""
    SELECT "start", "end", committed_id FROM mainstem.records
    WHERE kind = {Kind.APPEND:d} AND topic = $1 AND "end" < $2 ORDER BY "end" DESC LIMIT $3"""


def outline_statement(newest_first: bool) -> str:
    order = "DESC" if newest_first else "ASC"
    columns = '"start", "end", messages, committed_at_us, committed_id'
    return f'SELECT {columns} {OF_TOPIC} AND "start" < $3 ORDER BY "end" {order} LIMIT $4'


COLUMNS = 'committed_id, committed_at_us, kind, topic, "start", "end", messages, source, tags, data'


def _page(rows: str, bytes_max: str, also: str = "") -> str:
    """Select the first of these records that fit into a page, but at least one. Only their `data` is fetched."""
    return f"""
        SELECT {COLUMNS}{also} FROM (
            SELECT *, count(*) OVER () AS found,
                sum(length(data) + {RECORD_BYTES}) OVER (ORDER BY committed_id) AS total,
                row_number() OVER (ORDER BY committed_id) AS number
            FROM ({rows}) AS rows
        ) AS counted WHERE total <= {bytes_max} OR number = 1 ORDER BY committed_id"""


READ_LOG = _page(
    f"""SELECT {COLUMNS} FROM mainstem.records
        WHERE committed_id > $1 AND committed_id <= $2 AND ($5::bigint[] IS NULL OR topic = ANY ($5))
        ORDER BY committed_id LIMIT $4""",
    "$3",
)
READ_WANTED = _page(
    f"""SELECT {COLUMNS} FROM mainstem.records
        WHERE committed_id > $1 AND committed_id <= $2 AND {WANTED}
        ORDER BY committed_id LIMIT $4""",
    "$3",
    ", found",
)
READ_TAGGED = _page(
    f"""SELECT {COLUMNS} FROM mainstem.records WHERE committed_id IN (
            SELECT found.committed_id FROM unnest($1::bytea[]) AS wanted (tag) CROSS JOIN LATERAL (
                SELECT t.committed_id FROM mainstem.tags t
                WHERE t.tag = wanted.tag AND t.committed_id > $2 AND t.committed_id <= $3
                ORDER BY t.committed_id LIMIT $4
            ) AS found ORDER BY 1
        ) ORDER BY committed_id LIMIT $4""",
    "$5",
)
LAST_TAGGED = "SELECT max(committed_id) FROM mainstem.tags WHERE tag = $1"
# The next tag is looked up in the index for each row, so that the other records of a tag are not read.
LIST_TAGS = """
    WITH RECURSIVE found (tag, number) AS (
        SELECT (
            SELECT t.tag FROM mainstem.tags t
            WHERE t.tag > $1 AND t.tag >= $2 AND ($3::bytea IS NULL OR t.tag < $3) ORDER BY t.tag LIMIT 1
        ), 1
        UNION ALL
        SELECT (
            SELECT t.tag FROM mainstem.tags t
            WHERE t.tag > found.tag AND ($3::bytea IS NULL OR t.tag < $3) ORDER BY t.tag LIMIT 1
        ), number + 1
        FROM found WHERE found.tag IS NOT NULL AND number < $4
    )
    SELECT tag, (SELECT max(t.committed_id) FROM mainstem.tags t WHERE t.tag = found.tag)
    FROM found WHERE tag IS NOT NULL ORDER BY number"""

DATA = f"kind IN ({', '.join(f'{kind:d}' for kind in DATA_KINDS)})"
MEASURE = f"""
    SELECT max(committed_id) AS until, max(so_far)::bigint AS rows, max(bytes)::bigint AS bytes FROM (
        SELECT committed_id,
            sum(messages) OVER (ORDER BY committed_id) AS so_far,
            sum(length(data)) OVER (ORDER BY committed_id) AS bytes,
            row_number() OVER (ORDER BY committed_id) AS number
        FROM (
            SELECT committed_id, messages, data FROM mainstem.records
            WHERE committed_id > $1 AND committed_id <= $2 AND {DATA} ORDER BY committed_id LIMIT $3
        ) AS found
    ) AS counted WHERE number = 1 OR (so_far <= $4 AND bytes <= $5)"""
MORE_DATA = f"SELECT 1 FROM mainstem.records WHERE committed_id > $1 AND committed_id <= $2 AND {DATA} LIMIT 1"
SIZES = f"""
    SELECT coalesce(sum(messages), 0)::bigint, coalesce(sum(length(data)), 0)::bigint
    FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS range (begins, ends, number)
    LEFT JOIN mainstem.records ON committed_id > begins AND committed_id <= ends AND {DATA}
        AND ($3::bigint[] IS NULL OR topic = ANY ($3))
    GROUP BY number ORDER BY number"""
FIRST_RECORD = """
    SELECT "start", "end", messages, committed_at_us, committed_id FROM mainstem.records
    WHERE committed_id > $1 AND committed_id <= $2 ORDER BY committed_id LIMIT 1"""
COUNT = f"""
    SELECT count(*) FILTER (WHERE kind = {Kind.APPEND:d}), count(*) FILTER (WHERE kind = {Kind.EVENT:d}),
        coalesce(sum(messages), 0)::bigint, coalesce(sum(length(data)), 0)::bigint
    FROM mainstem.records WHERE {DATA}"""

ERASE = f"""
    WITH gone AS (
        DELETE FROM mainstem.records WHERE committed_id IN (
            SELECT committed_id FROM mainstem.records
            WHERE kind = {Kind.APPEND:d} AND topic = $1 AND "end" <= $2 ORDER BY "end" LIMIT $3
        ) RETURNING 1
    ) SELECT count(*) FROM gone"""
ERASE_TAGGED = """
    WITH gone AS (
        DELETE FROM mainstem.tags t USING unnest($2::bytea[], $3::bigint[]) AS old (tag, committed_id)
        WHERE t.tag = old.tag AND t.committed_id = old.committed_id
    )
    DELETE FROM mainstem.records WHERE committed_id = ANY ($1::bigint[])"""
DISK_USAGE = """
SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint, coalesce(sum(pg_indexes_size(oid)), 0)::bigint
FROM pg_class WHERE relnamespace = 'mainstem'::regnamespace AND relkind = 'r'
"""

DROP_SAVES = """
    DELETE FROM mainstem.saves WHERE save IN (
        SELECT save FROM mainstem.saves WHERE committed_at_us < $1 AND save < (SELECT save FROM mainstem.head)
        ORDER BY save LIMIT $2
    )"""


# Each record also holds its tags in one value, so that other nodes get them with the record, without an index lookup.
encode_tags = msgspec.msgpack.Encoder().encode
decode_tags = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def limit_rows(bytes_max: int) -> int:
    """Return how many records a page can hold at most: each counts for at least RECORD_BYTES."""
    return bytes_max // RECORD_BYTES + 2


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first name after all names with a prefix. UTF-8 has no byte 255, so the last byte can be raised."""
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def record_columns(records: Sequence[Record]) -> tuple[list[Any], ...]:
    return (
        [r.committed_id for r in records],
        [r.committed_at_us for r in records],
        [int(r.kind) for r in records],
        [r.topic for r in records],
        [r.start for r in records],
        [r.end for r in records],
        [r.messages for r in records],
        [None if r.source is None else r.source.encode() for r in records],
        [encode_tags(r.tags) if r.tags else None for r in records],
        [r.data for r in records],
    )


def state_columns(changes: Mapping[Key, State | None]) -> tuple[list[Any], ...]:
    kept = [(key, state) for key, state in changes.items() if state is not None]
    return (
        [key.space.number for key, _ in kept],
        [key.name.encode() for key, _ in kept],
        [key.space.due(state) for key, state in kept],
        [key.space.encode(state) for key, state in kept],
    )


def key_columns(keys: Iterable[Key]) -> tuple[list[int], list[bytes]]:
    spaces, names = [], []
    for key in keys:
        spaces.append(key.space.number)
        names.append(key.name.encode())
    return spaces, names


ORIGIN_OF_TABLES = """
    SELECT format('%s/%s', oid, 'mainstem.head'::regclass::oid) FROM pg_database WHERE datname = current_database()"""
ORIGIN = f"""
    SELECT format('%s/%s/%s', system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8), ({ORIGIN_OF_TABLES}))
    FROM pg_control_system()"""
"""Names the cluster, its timeline, the database and the table: at least one of them differs in a restored copy."""


def tag_columns(records: Sequence[Record]) -> tuple[list[bytes], list[int]]:
    tags: list[bytes] = []
    ids: list[int] = []
    for record in records:
        for tag in record.tags:
            tags.append(tag.encode())
            ids.append(record.committed_id)
    return tags, ids


def to_record(row: Any, *, tagged: bool = False) -> Record:
    committed_id, at_us, kind, topic, start, end, messages, source, tags, data = row
    return Record(
        CommittedId(committed_id),
        at_us,
        KINDS[kind],
        TopicId(topic),
        start,
        end,
        messages,
        data,
        None if source is None else source.decode(),
        decode_tags(tags) if tagged and tags else (),
    )
