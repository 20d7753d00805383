import pytest

from mainstem.errors import StreamExists
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.records import Kind, Outline
from mainstem.streams.commands.create import Create
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork
from mainstem.streams.commands.trim import Trim
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.rules.paths import JOBS_PATH
from mainstem.streams.states import Retention, retention_key
from tests.support.book import TEXT, append, text


def filled(book, retention, records=5):
    """Create a stream of records of ten bytes, one second apart."""
    book.run(Create("s", TEXT, retention=retention))
    for _ in range(records):
        book.now_us += SECOND_US
        book.run(append(b"0123456789"))
    return [
        Outline(record.start, record.end, record.messages, record.committed_at_us)
        for record in book.records
        if record.kind is Kind.APPEND
    ]


def trim(book, position, messages=0):
    return book.run(Trim("s", book.stream().topic, position, messages, book.now_us + 5))


def test_trimming_moves_the_beginning_only_forward(book):
    filled(book, Retention(max_bytes=20))
    assert trim(book, 30, 3)
    assert book.stream().earliest_offset == Offset(0, 30)
    assert book.stream().messages == 2
    assert book.records[-1].kind is Kind.TRIM
    assert not trim(book, 10)
    assert book.stream().earliest == 30
    assert book.states[retention_key("s")].due_us == book.now_us + 5


@pytest.mark.parametrize(("path", "pruned"), [("s", True), (JOBS_PATH, False)])
def test_readers_that_come_late_learn_of_trimmed_data_unless_it_was_a_report_of_a_job(book, path, pruned):
    book.run(Create(path, TEXT, retention=Retention(max_bytes=20)))
    book.run(append(b"0123456789", path=path))
    last_id = book.records[-1].committed_id
    assert book.run(Trim(path, book.stream(path).topic, 10, 1, book.now_us + 5, last_id))
    assert book.states.get(PRUNED_KEY) == (Pruned(last_id) if pruned else None)


def test_data_that_a_fork_still_reads_is_kept(book):
    filled(book, Retention(max_bytes=20))
    book.run(Fork("f", "s", None, Offset(0, 10), 0, None))
    assert not trim(book, 30, 3)
    assert book.stream().earliest == 0


def test_a_different_retention_is_a_different_configuration(book):
    book.run(Create("s", TEXT, retention=Retention(max_bytes=5)))
    assert not book.run(Create("s", TEXT, retention=Retention(max_bytes=5))).new
    for other in (None, Retention(max_bytes=6)):
        with pytest.raises(StreamExists):
            book.run(Create("s", TEXT, retention=other))


def test_a_deleted_stream_is_no_longer_checked(book):
    book.run(Create("s", TEXT, text(b"data"), retention=Retention(max_bytes=5)))
    assert retention_key("s") in book.states
    topic = book.stream().topic
    book.run(Delete("s"))
    assert retention_key("s") not in book.states
    assert not book.run(Trim("s", topic, 4, 1, 1))
