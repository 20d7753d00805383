"""Store the messages of all JSON streams below orders/ in a database, each of them exactly once.

    .venv/bin/python examples/worker.py http://127.0.0.1:4437 orders.sqlite

Start it several times, and kill it whenever you like: the offset of a stream is stored in the same transaction as its
messages, so messages that are delivered again are not stored again. Ctrl-C and SIGTERM stop a worker.
"""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing, suppress

from mainstem.client import AsyncStreams
from mainstem.client.workers import WorkerBatch, worker

TABLES = """
CREATE TABLE IF NOT EXISTS orders (stream TEXT, message TEXT);
CREATE TABLE IF NOT EXISTS progress (stream TEXT PRIMARY KEY, processed TEXT);
"""


def find_offset(stream: str) -> str | None:
    with closing(sqlite3.connect(DATABASE, timeout=30)) as database:
        row = database.execute("SELECT processed FROM progress WHERE stream = ?", [stream]).fetchone()
    return None if row is None else row[0]


def store(batch: WorkerBatch) -> None:
    with closing(sqlite3.connect(DATABASE, timeout=30, isolation_level="IMMEDIATE")) as database, database:
        claimed = database.execute(
            "INSERT INTO progress VALUES (?, ?) "
            "ON CONFLICT (stream) DO UPDATE SET processed = excluded.processed WHERE processed <= ?",
            [batch.stream, batch.offset, batch.start_offset],
        )
        if claimed.rowcount == 0:
            raise RuntimeError("another worker has stored these messages")  # the worker asks `resume` and goes on
        rows = [(batch.stream, json.dumps(message)) for message in batch.messages]
        database.executemany("INSERT INTO orders VALUES (?, ?)", rows)


@worker("orders/*", subscription="store-orders", lease_s=5, resume=lambda path: asyncio.to_thread(find_offset, path))
async def store_orders(batch: WorkerBatch) -> None:
    await asyncio.to_thread(store, batch)
    print(f"{batch.stream}: {len(batch.messages)} orders", flush=True)


async def main(url: str) -> None:
    with closing(sqlite3.connect(DATABASE)) as database:
        database.executescript(TABLES)
    async with AsyncStreams(url) as streams:
        await store_orders.run(streams)  # until SIGTERM or Ctrl-C


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: worker.py URL DATABASE")
    DATABASE = sys.argv[2]
    with suppress(KeyboardInterrupt):  # by then the worker has released its work
        asyncio.run(main(sys.argv[1]))
