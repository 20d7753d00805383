import pytest

from mainstem.errors import BadRequest
from mainstem.streams.commands.create import Create
from mainstem.streams.commands.delete import Delete, PurgeStream
from mainstem.streams.commands.snapshot import PutStreamSnapshot
from mainstem.streams.commands.trim import EndRetentionChecks, Trim
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import Garbage, RetentionCheck, retention_key, stream_snapshot_key
from tests.support.book import TEXT, append

JSON = "application/json"


def put(book, committed_id=0, position=0):
    book.run(PutStreamSnapshot("s", committed_id, Offset(book.stream().read_seq, position), b"{}"))


def kept(book):
    return book.states.get(stream_snapshot_key("s"))


def test_purging_a_deleted_stream_removes_its_snapshot(book):
    book.run(Create("s", JSON))
    put(book)
    topic = book.stream().topic
    book.run(Delete("s"))
    book.run(PurgeStream(Garbage("s", topic), (), True))
    assert kept(book) is None


def test_the_next_incarnation_keeps_its_own(book):
    book.run(Create("s", JSON))
    topic = book.stream().topic
    book.run(Delete("s"))
    book.run(Create("s", JSON))
    put(book)
    book.run(PurgeStream(Garbage("s", topic), (), True))
    assert kept(book).topic == book.stream().topic != topic


def test_the_snapshot_of_an_earlier_incarnation_does_not_block_that_of_the_next(book):
    book.run(Create("s", JSON))
    book.run(append(b"1,", content_type=JSON))
    put(book, len(book.records), 2)
    book.run(Delete("s"))
    book.run(Create("s", JSON))
    put(book, 0, 0)
    assert kept(book).topic == book.stream().topic
    with pytest.raises(BadRequest):
        put(book, -1, 0)


def trimmed(book):
    book.run(Create("s", TEXT))
    for _ in range(3):
        book.run(append(b"0123456789"))
    assert book.run(Trim("s", book.stream().topic, 10, 1, book.now_us))


def test_checks_of_a_stream_without_a_policy_end_when_its_trimmed_data_is_erased(book):
    trimmed(book)
    assert book.states[retention_key("s")] == RetentionCheck(book.stream().topic, book.now_us)
    book.run(EndRetentionChecks("s", 0))
    assert retention_key("s") in book.states  # more was trimmed than was erased
    book.run(EndRetentionChecks("s", 10))
    assert retention_key("s") not in book.states
