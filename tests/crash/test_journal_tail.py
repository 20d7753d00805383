"""If the end of the journal is torn or garbage, everything acknowledged before it survives."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mainstem.log.records import CommittedId, Kind, Record, TopicId
from mainstem.log.store.sqlite.connections import STORE_NAME, open_reader
from mainstem.log.store.sqlite.direct import whole_blocks
from mainstem.log.store.sqlite.journal import HEADER, NAMES, Content, encode_content, make_header, read_file
from mainstem.log.store.sqlite.queries import journal_position
from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerNotReady, ServerProcess
from tests.support.http_requests import TEXT, ask, read_stream

PATH = "/v1/stream/a"
LINES = 20
HEAD = LINES + 1


class End(NamedTuple):
    """Where the journal of a killed server ends: after the batch with this number."""

    file: Path
    offset: int
    number: int


def write_and_kill(start_server: StartServer) -> ServerProcess:
    """Return a killed server, which has left its last batches in the journal."""
    server = start_server()
    ask(server, "PUT", PATH, headers=TEXT)
    for line in range(LINES):
        assert ask(server, "POST", PATH, b"line %d\n" % line, TEXT).status == 204
    server.kill()
    return server


def find_end(server: ServerProcess) -> End:
    ends = []
    for name in NAMES:
        found = list(read_file(server.data / name))
        offset = sum(whole_blocks(HEADER.size + len(batch.content)) for batch in found)
        ends.append(End(server.data / name, offset, found[-1].number if found else 0))
    return max(ends, key=lambda end: end.number)


def make_batch(server: ServerProcess, number: int) -> bytes:
    """Return a batch that was never acknowledged: one more record in a topic of its own."""
    db = open_reader(server.data / STORE_NAME, None)
    store_id = journal_position(db).store_id
    db.close()
    record = Record(CommittedId(HEAD + 1), 0, Kind.APPEND, TopicId(HEAD + 1), 0, 4, 1, b"lost")
    content = encode_content(Content([], [record]))
    return make_header(store_id, number, content) + content


def write_at(file: Path, offset: int, data: bytes) -> None:
    with file.open("r+b") as journal:
        journal.seek(offset)
        journal.write(data)
        journal.truncate()


def check(server: ServerProcess) -> None:
    """Check that everything acknowledged is there, and that the log continues right after it."""
    server.restart()
    lines = b"".join(b"line %d\n" % line for line in range(LINES))
    assert read_stream(server, PATH) == lines
    ready = ask(server, "GET", "/readyz")
    assert (ready.status, ready.body) == (200, b'{"status":"ready","head":%d}' % HEAD)
    assert ask(server, "POST", PATH, b"more\n", TEXT).status == 204
    server.kill()
    server.restart()
    assert read_stream(server, PATH) == lines + b"more\n"


def test_a_complete_last_batch_survives_even_if_it_was_not_acknowledged(start_server: StartServer) -> None:
    """The other tests damage this batch, so this one checks that it is what they expect."""
    server = write_and_kill(start_server)
    end = find_end(server)
    write_at(end.file, end.offset, make_batch(server, end.number + 1))
    server.restart()
    assert ask(server, "GET", "/readyz").body == b'{"status":"ready","head":%d}' % (HEAD + 1)


@pytest.mark.parametrize("kept_bytes", [1, HEADER.size - 1, HEADER.size, HEADER.size + 1, -1])
def test_a_torn_last_batch_is_dropped(start_server: StartServer, kept_bytes: int) -> None:
    server = write_and_kill(start_server)
    end = find_end(server)
    write_at(end.file, end.offset, make_batch(server, end.number + 1)[:kept_bytes])
    check(server)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda batch: b"\xa5" * 10_000,
        lambda batch: bytes(10_000),
        lambda batch: b"x",
        lambda batch: batch[:-10] + b"\xa5" * 10,
        lambda batch: b"\xa5" * 8 + batch[8:],
    ],
    ids=["garbage", "zeros", "one byte", "a batch with a wrong byte", "a batch of another store"],
)
def test_garbage_after_the_last_batch_is_ignored(start_server: StartServer, spoil: Callable[[bytes], bytes]) -> None:
    server = write_and_kill(start_server)
    end = find_end(server)
    write_at(end.file, end.offset, spoil(make_batch(server, end.number + 1)))
    check(server)


@pytest.mark.parametrize("number", [0, -1, -5], ids=["the last number again", "one before", "an old one"])
def test_an_older_batch_after_the_last_one_is_ignored(start_server: StartServer, number: int) -> None:
    """It is what an earlier use of the file has left."""
    server = write_and_kill(start_server)
    end = find_end(server)
    write_at(end.file, end.offset, make_batch(server, end.number + number))
    check(server)


def test_a_store_whose_journal_lacks_a_batch_is_not_opened(start_server: StartServer) -> None:
    """It would lose something that was acknowledged."""
    server = write_and_kill(start_server)
    server.restart()  # puts everything into the database, so that either file may be replaced
    server.kill()
    end = find_end(server)
    other = next(server.data / name for name in NAMES if server.data / name != end.file)
    write_at(other, 0, make_batch(server, end.number + 2))
    with pytest.raises(ServerNotReady, match="the journal or the write-ahead log is damaged"):
        server.restart()
    os.truncate(other, 0)
    check(server)
