"""Measurements without a server: the plain loop that a commit log must beat, and the canonical hash."""

from __future__ import annotations

import time
import timeit
from pathlib import Path
from statistics import median

import apsw
import msgspec

from bench.load_jobs import Figures, Hash, PlainLoop
from bench.sync_wire import EventSource
from mainstem.sync.protocol.canonical import content_hash

TABLES = """
    CREATE TABLE records (
        committed_id INTEGER PRIMARY KEY,
        committed_at_us INTEGER NOT NULL,
        source TEXT NOT NULL,
        data BLOB NOT NULL
    ) STRICT;
    CREATE TABLE ids (id TEXT PRIMARY KEY, committed_id INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
HASHED_BYTES = 700
HASHES_PER_ROUND = 200


class Draft(msgspec.Struct):
    id: str


def run_plain_loop(job: PlainLoop) -> Figures:
    """Commit each event, its record and its id, in one transaction that is as durable as the server's commits."""
    path = Path(job.path)
    db = apsw.Connection(str(path))
    try:
        db.pragma("journal_mode", "wal")
        db.pragma("synchronous", "full")
        db.execute(TABLES)
        commits, elapsed_s = commit_one_by_one(db, job.seconds)
    finally:
        db.close()
        path.unlink()
    return {"commits_per_s": commits / elapsed_s}


def commit_one_by_one(db: apsw.Connection, seconds: float) -> tuple[int, float]:
    source, decode = EventSource(), msgspec.json.Decoder(Draft).decode
    commits, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) < begin + seconds:
        data = source.make(b"own-0")
        commits += 1
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (commits, int(now * 1e6), "client-0", data))
        db.execute("INSERT INTO ids VALUES (?, ?)", (decode(data).id, commits))
        db.execute("COMMIT")
    return commits, time.perf_counter() - begin


def run_hash(job: Hash) -> Figures:
    event = make_event()
    timer = timeit.Timer(lambda: content_hash(("own-0",), event))
    rounds_s: list[float] = []
    end = time.perf_counter() + job.seconds
    while time.perf_counter() < end or not rounds_s:
        rounds_s.append(timer.timeit(HASHES_PER_ROUND) / HASHES_PER_ROUND)
    return {"us": median(rounds_s) * 1e6, "min_us": min(rounds_s) * 1e6, "rounds": float(len(rounds_s))}


def make_event() -> bytes:
    """Return a document of exactly HASHED_BYTES with common kinds of values, and keys that are not sorted."""
    content = {
        "type": "order.placed",
        "schema": "orders/1",
        "payload": {
            "order_id": "0190f3a2-7c1e-7b5e-9a53-3f0d2c6f8e11",
            "customer": {"name": "Ada Lovelace", "email": "ada@example.org", "since": 1843, "vip": True},
            "items": [
                {"sku": "A-100", "count": 2, "price": 19.99, "tags": ["blue", "small"]},
                {"sku": "B-205", "count": 1, "price": 149.5, "tags": []},
                {"sku": "C-317", "count": 12, "price": 0.75, "tags": ["spare"]},
            ],
            "total": 198.48,
            "currency": "EUR",
            "note": None,
        },
        "meta": {"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "attempt": 1, "pad": ""},
    }
    missing = HASHED_BYTES - len(msgspec.json.encode(content))
    assert missing >= 0
    content["meta"] = {"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "attempt": 1, "pad": "x" * missing}
    return msgspec.json.encode(content)
