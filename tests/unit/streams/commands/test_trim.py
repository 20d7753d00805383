import pytest

from mainstem.errors import BadHeader, StreamExists
from mainstem.log.records import Kind, Outline
from mainstem.streams.commands.create import Create
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.fork import Fork
from mainstem.streams.commands.trim import Trim, format_retention, parse_retention, surplus
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import Retention, retention_key
from tests.support.book import TEXT, append, text


@pytest.mark.parametrize(
    ("header", "retention"),
    [
        ("max-age=3600", Retention(max_age_s=3600)),
        ("max-bytes=1", Retention(max_bytes=1)),
        ("max-messages=10", Retention(max_messages=10)),
        ("max-age=1, max-bytes=2, max-messages=3", Retention(1, 2, 3)),
        (" max-messages=3 ,max-age=1", Retention(1, None, 3)),
    ],
)
def test_a_retention_is_a_list_of_bounds(header, retention):
    assert parse_retention(header) == retention
    assert parse_retention(format_retention(retention)) == retention


@pytest.mark.parametrize(
    "header",
    [
        "",
        ",",
        "max-age",
        "max-age=",
        "max-age=0",
        "max-age=-1",
        "max-age=01",
        "max-age=1.5",
        "max-age = 1",
        "MAX-AGE=1",
        "max-age=1,max-age=1",
        "max-age=1,",
        "max-years=1",
        "max-bytes=9007199254740992",
        "max-age=9007199254740991",
    ],
)
def test_any_other_retention_is_refused(header):
    with pytest.raises(BadHeader):
        parse_retention(header)


def filled(book, retention, records=5):
    """A stream of records of ten bytes, a second apart."""
    book.run(Create("s", TEXT, retention=retention))
    for _ in range(records):
        book.now_us += SECOND_US
        book.run(append(b"0123456789"))
    return [
        Outline(record.start, record.end, record.messages, record.committed_at_us)
        for record in book.records
        if record.kind is Kind.APPEND
    ]


@pytest.mark.parametrize(
    ("retention", "gone"),
    [
        (Retention(max_bytes=50), 0),
        (Retention(max_bytes=49), 1),
        (Retention(max_bytes=20), 3),
        (Retention(max_bytes=1), 4),
        (Retention(max_messages=5), 0),
        (Retention(max_messages=2), 3),
        (Retention(max_age_s=4), 0),
        (Retention(max_age_s=3), 1),
        (Retention(max_age_s=1), 3),
        (Retention(max_age_s=1, max_bytes=1000), 3),
        (Retention(max_age_s=1000, max_messages=3), 2),
    ],
)
def test_what_a_bound_does_not_keep_is_surplus_but_never_the_newest(book, retention, gone):
    outlines = filled(book, retention)
    assert list(surplus(book.stream(), outlines, book.now_us)) == outlines[:gone]


def trim(book, position, messages=0):
    return book.run(Trim("s", book.stream().topic, position, messages, book.now_us + 5))


def test_trimming_moves_the_beginning_and_only_forward(book):
    filled(book, Retention(max_bytes=20))
    assert trim(book, 30, 3)
    assert book.stream().earliest_offset == Offset(0, 30)
    assert book.stream().messages == 2
    assert book.records[-1].kind is Kind.TRIM
    assert not trim(book, 10)
    assert book.stream().earliest == 30
    assert book.states[retention_key("s")].due_us == book.now_us + 5


def test_what_a_fork_still_reads_is_kept(book):
    filled(book, Retention(max_bytes=20))
    book.run(Fork("f", "s", None, Offset(0, 10), 0, None))
    assert not trim(book, 30, 3)
    assert book.stream().earliest == 0


def test_another_retention_is_another_configuration(book):
    book.run(Create("s", TEXT, retention=Retention(max_bytes=5)))
    assert not book.run(Create("s", TEXT, retention=Retention(max_bytes=5))).new
    for other in (None, Retention(max_bytes=6)):
        with pytest.raises(StreamExists):
            book.run(Create("s", TEXT, retention=other))


def test_a_deleted_stream_is_checked_no_more(book):
    book.run(Create("s", TEXT, text(b"data"), retention=Retention(max_bytes=5)))
    assert retention_key("s") in book.states
    topic = book.stream().topic
    book.run(Delete("s"))
    assert retention_key("s") not in book.states
    assert not book.run(Trim("s", topic, 4, 1, 1))
