"""If the end of the journal is torn or garbage, everything acknowledged before it survives."""

import os
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from tests.support.http_requests import TEXT, ask, read_stream

PATH = "/v1/stream/a"
FRAME_BYTES = 4_096 + 24


def write_and_kill(start_server: StartServer, number: int = 20) -> ServerProcess:
    """Return a killed server whose journal contains everything that it has acknowledged."""
    server = start_server()
    ask(server, "PUT", PATH, headers=TEXT)
    for line in range(number):
        assert ask(server, "POST", PATH, b"line %d\n" % line, TEXT).status == 204
    server.kill()
    assert journal(server).stat().st_size > number * FRAME_BYTES
    return server


def journal(server: ServerProcess) -> Path:
    return server.data / "mainstem.db-wal"


def write_one_more(server: ServerProcess) -> None:
    """Commit something that was never acknowledged, and leave it in the journal."""
    db = apsw.Connection(str(server.data / "mainstem.db"))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.wal_autocheckpoint(0)
    db.execute("UPDATE head SET committed_id = 1000000")
    db.close()


def check(server: ServerProcess, number: int = 20) -> None:
    """Check that everything acknowledged is there, and that the log continues right after it."""
    server.restart()
    lines = b"".join(b"line %d\n" % line for line in range(number))
    assert read_stream(server, PATH) == lines
    ready = ask(server, "GET", "/readyz")
    assert (ready.status, ready.body) == (200, b'{"status":"ready","head":%d}' % (number + 1))
    assert ask(server, "POST", PATH, b"more\n", TEXT).status == 204
    server.kill()
    server.restart()
    assert read_stream(server, PATH) == lines + b"more\n"


def test_a_complete_last_transaction_survives_even_if_it_was_not_acknowledged(start_server: StartServer) -> None:
    """The other tests damage this transaction, so this one checks that it is what they expect."""
    server = write_and_kill(start_server)
    size = journal(server).stat().st_size
    write_one_more(server)
    assert journal(server).stat().st_size == size + FRAME_BYTES
    server.restart()
    assert ask(server, "GET", "/readyz").body == b'{"status":"ready","head":1000000}'


@pytest.mark.parametrize("cut_bytes", [1, 100, FRAME_BYTES - 24, FRAME_BYTES - 1, FRAME_BYTES])
def test_a_torn_last_transaction_is_dropped(start_server: StartServer, cut_bytes: int) -> None:
    server = write_and_kill(start_server)
    write_one_more(server)
    os.truncate(journal(server), journal(server).stat().st_size - cut_bytes)
    check(server)


def overwrite_end(file: Path, data: bytes) -> None:
    with file.open("r+b") as wal:
        wal.seek(-len(data), os.SEEK_END)
        wal.write(data)


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as wal:
        wal.write(data)


def repeat_last_frame(file: Path) -> None:
    """Repeat a frame, like a disk that writes a block twice: a valid frame at the wrong position."""
    append(file, file.read_bytes()[-FRAME_BYTES:])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: append(file, b"\xa5" * 10_000),
        lambda file: append(file, bytes(FRAME_BYTES * 3)),
        lambda file: append(file, b"x"),
        repeat_last_frame,
    ],
    ids=["garbage", "zeros", "one byte", "the last frame again"],
)
def test_garbage_after_the_last_transaction_is_ignored(
    start_server: StartServer, spoil: Callable[[Path], None]
) -> None:
    server = write_and_kill(start_server)
    spoil(journal(server))
    check(server)


def test_a_last_transaction_that_was_partly_overwritten_is_dropped(start_server: StartServer) -> None:
    server = write_and_kill(start_server)
    write_one_more(server)
    overwrite_end(journal(server), b"\xa5" * 2_000)
    check(server)
