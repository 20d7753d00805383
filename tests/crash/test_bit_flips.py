"""A flipped bit anywhere in the files of a store is detected, corrected, or without effect: wrong data is never served.

The store is one of a server that stopped in an orderly way, and one of a server that was killed, which has left batches
in its journal and in SQLite's write-ahead log.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainstem.errors import MainstemError
from mainstem.log.store import SqliteStore
from mainstem.log.store.sqlite.bit_flips import flip_bit
from mainstem.log.store.sqlite.connections import STORE_NAME, open_reader
from mainstem.log.store.sqlite.errors import is_damage
from mainstem.log.store.sqlite.journal import NAMES, decode_content, read_journal
from mainstem.log.store.sqlite.queries import journal_position
from mainstem.log.store.sqlite.snapshot import open_snapshot
from mainstem.testing.plugin import StartServer
from tests.cli.stores import fill
from tests.support.http_requests import TEXT, ask
from tests.support.quick_disks import PLAIN_DISK, make_quick_directory

FLIPS = 10_000
PARTS = 4
FILES = [STORE_NAME, STORE_NAME + "-wal", *NAMES]
TABLES = ["records", "states", "tags", "places", "head"]


@pytest.fixture
def quick_disk() -> Iterator[Path]:
    with make_quick_directory() as directory:
        yield directory


def make_store(start_server: StartServer, ending: str) -> Path:
    """Return the directory of a server that has stopped or was killed, with some of everything in its store."""
    server = start_server()
    path = server.data / STORE_NAME
    fill(server, lambda: open_snapshot(path))
    if ending == "stopped":
        server.terminate()
        return server.data
    while True:
        assert ask(server, "POST", "/v1/stream/plain", b"the last line\n", TEXT).status == 204
        server.kill()
        if has_noted_erasures(server.data):
            return server.data
        server.restart()


def has_noted_erasures(directory: Path) -> bool:
    """Return whether the last batch came after the last erasure. An erasure after it may be undone: it is repeated."""
    noted = max(decode_content(found.content).erasures for found in read_journal(directory))
    db = open_reader(directory / STORE_NAME, None)
    try:
        return journal_position(db).erasures == noted
    finally:
        db.close()


def copy_store(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for name in FILES:
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)


async def read_everything(directory: Path) -> dict[str, Any]:
    """Start on the store, and return all of its rows."""
    store = SqliteStore(directory, PLAIN_DISK)
    await store.open()
    db = open_reader(store.path, None)
    try:
        return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    finally:
        db.close()
        await store.close()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("ending", ["stopped", "killed"])
async def test_a_flipped_bit_is_never_served(
    start_server: StartServer, quick_disk: Path, ending: str, part: int
) -> None:
    source, target = make_store(start_server, ending), quick_disk / "flipped"
    files = {name: (source / name).read_bytes() for name in FILES if (source / name).exists()}
    assert (STORE_NAME + "-wal" in files) == (ending == "killed")
    copy_store(source, target)
    expected = await read_everything(target)
    chance = random.Random(part)
    names, sizes = list(files), [len(data) for data in files.values()]
    detected = 0
    for _ in range(FLIPS // (2 * PARTS)):
        [name] = chance.choices(names, sizes)
        bit = chance.randrange(8 * len(files[name]))
        copy_store(source, target)
        (target / name).write_bytes(flip_bit(files[name], bit))
        try:
            found = await read_everything(target)
        except MainstemError:
            detected += 1
        except apsw.Error as error:
            if not is_damage(error):
                raise
            detected += 1
        else:
            assert found == expected, f"bit {bit} of {name}"
    assert detected > 10
