import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import (
    BadOffset,
    ContentTypeMismatch,
    SourceDeleted,
    StreamExists,
    StreamGone,
    StreamNotFound,
)
from mainstem.log.records import Kind
from mainstem.streams.commands.create import Create, Lifetime
from mainstem.streams.commands.delete import Delete, PurgeStream
from mainstem.streams.commands.fork import Fork
from mainstem.streams.rules.forks import inherit, segment_at
from mainstem.streams.rules.json_mode import NOTHING
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import GARBAGE, stream_key
from tests.support.book import TEXT, Book, append, producer, text


def fork(path="f", source="s", at=None, *, content_type=None, sub_offset=0, resolved=None, messages=NOTHING, **fields):
    anchor = None if at is None else Offset(0, at)
    return Fork(path, source, content_type, anchor, sub_offset, resolved, messages, **fields)


def collect(book):
    """Purge deleted streams until none is left, as the reaper does."""
    while garbage := [state for key, state in book.states.items() if key.space is GARBAGE]:
        for each in garbage:
            book.run(PurgeStream(each, (), last=True))


def read(book, path):
    """Return the data of a stream, assembled from its inherited segments and its own."""
    state, at, data = book.stream(path), 0, b""
    while at < state.tail:
        topic, until = segment_at(state, at)
        for record in book.records:
            if record.kind is Kind.APPEND and record.topic == topic and record.end > at and record.start < until:
                data += record.data[max(0, at - record.start) : until - record.start]
        at = until
    return data


def test_a_fork_shares_the_data_up_to_its_point_and_then_diverges(book):
    book.run(Create("s", TEXT, text(b"shared")))
    book.run(append(b" source"))
    created = book.run(fork(at=6, messages=text(b" fork")))
    assert created.new
    assert created.state.next_offset == Offset(0, 11)
    book.run(append(b"!", path="f"))
    book.run(append(b"?", path="s"))
    assert read(book, "f") == b"shared fork!"
    assert read(book, "s") == b"shared source?"


def test_without_an_offset_a_fork_begins_at_the_end(book):
    book.run(Create("s", TEXT, text(b"all")))
    assert book.run(fork()).state.next_offset == Offset(0, 3)


@given(st.lists(st.tuples(st.integers(0, 100), st.binary(min_size=1, max_size=5)), max_size=6))
def test_a_chain_of_forks_reads_as_if_it_had_been_copied(steps):
    book, expected = Book(), b"0123456789"
    book.run(Create("0", TEXT, text(expected)))
    for number, (at, data) in enumerate(steps, 1):
        at = min(at, len(expected))
        expected = expected[:at] + data
        book.run(fork(str(number), str(number - 1), at, messages=text(data)))
        assert read(book, str(number)) == expected
        ends = [segment.end for segment in book.stream(str(number)).lineage]
        assert ends == sorted(set(ends))


def test_a_fork_at_the_beginning_inherits_nothing(book):
    book.run(Create("s", TEXT, text(b"data")))
    assert inherit(book.stream(), 0) == ()
    assert book.run(fork(at=0)).state.lineage == ()


def test_a_fork_needs_a_source_and_a_point_in_it(book):
    with pytest.raises(StreamNotFound):
        book.run(fork())
    book.run(Create("s", TEXT, text(b"data")))
    with pytest.raises(BadOffset):
        book.run(fork(at=5))
    with pytest.raises(ContentTypeMismatch):
        book.run(fork(content_type="a/b"))
    assert stream_key("f") not in book.states


def test_the_same_fork_again_is_confirmed_and_a_different_one_is_a_conflict(book):
    book.run(Create("s", TEXT, text(b"data")))
    book.run(Create("other", TEXT, text(b"data")))
    book.run(fork(at=2))
    book.run(append(path="f"))
    assert not book.run(fork(at=2)).new
    for different in (fork(at=3), fork(source="other", at=2), Create("f", TEXT), fork(at=2, closed=True)):
        with pytest.raises(StreamExists):
            book.run(different)
    assert book.stream().forks == 1


def test_a_fork_inherits_no_producers_or_sequences(book):
    book.run(Create("s", TEXT))
    book.run(append(stream_seq="9", producer=producer(4, 0)))
    book.run(fork())
    assert book.run(append(path="f", stream_seq="1", producer=producer(0, 0))).wrote


@pytest.mark.parametrize(
    ("source", "asked", "gets"),
    [
        (Lifetime(), Lifetime(), (None, None)),
        (Lifetime(), Lifetime(ttl_s=5), (5, 6_000_000)),
        (Lifetime(ttl_s=9), Lifetime(), (9, 10_000_000)),
        (Lifetime(ttl_s=9), Lifetime(ttl_s=5), (5, 6_000_000)),
        (Lifetime(ttl_s=9), Lifetime(expires_at_us=10**12), (None, 10**12)),
        (Lifetime(expires_at_us=10**12), Lifetime(), (None, 10**12)),
        (Lifetime(expires_at_us=10**12), Lifetime(ttl_s=5), (5, 6_000_000)),
        (Lifetime(expires_at_us=10**12), Lifetime(expires_at_us=10**13), (None, 10**13)),
    ],
)
def test_a_fork_has_the_lifetime_it_requests_or_else_that_of_its_source(book, source, asked, gets):
    book.run(Create("s", TEXT, lifetime=source))
    state = book.run(fork(lifetime=asked)).state
    assert (state.ttl_s, state.expires_at_us) == gets


def test_a_deleted_source_is_410_and_its_path_is_in_use_until_its_last_fork_is_deleted(book):
    book.run(Create("s", TEXT, text(b"data")))
    book.run(fork("f1"))
    book.run(fork("f2"))
    book.run(Delete("s"))
    for refused in (append(), Delete("s")):
        with pytest.raises(StreamGone):
            book.run(refused)
    with pytest.raises(StreamExists):
        book.run(Create("s", TEXT))
    with pytest.raises(SourceDeleted):
        book.run(fork("f3"))
    assert read(book, "f1") == b"data"
    book.run(Delete("f1"))
    collect(book)
    assert book.stream().soft_deleted
    book.run(Delete("f2"))
    collect(book)
    assert book.stream().deleted
    assert book.run(Create("s", TEXT)).state.read_seq == 1


def test_a_chain_of_deleted_streams_is_collected_up_to_its_root(book):
    book.run(Create("a", TEXT, text(b"data")))
    book.run(fork("b", "a"))
    book.run(fork("c", "b"))
    book.run(Delete("a"))
    book.run(Delete("b"))
    assert read(book, "c") == b"data"
    book.run(Delete("c"))
    collect(book)
    assert all(book.stream(path).deleted for path in "abc")


def test_deleting_a_fork_leaves_its_source_alone(book):
    book.run(Create("s", TEXT, text(b"data")))
    book.run(fork())
    book.run(Delete("f"))
    collect(book)
    assert book.stream().forks == 0
    assert read(book, "s") == b"data"
