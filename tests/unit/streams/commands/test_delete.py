import pytest

from mainstem.errors import StreamNotFound
from mainstem.log.records import Kind
from mainstem.streams.commands.create import Create, Lifetime
from mainstem.streams.commands.delete import Delete, Expire, PurgeStream, Touch
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.states import GARBAGE, PRODUCERS, Garbage, producer_key, stream_key
from tests.support.book import TEXT, append, close, producer, text


def test_a_deleted_stream_is_not_found_by_any_command(book):
    book.run(Create("s", TEXT, text(b"data")))
    book.run(Delete("s"))
    for command in (append(), close(), Delete("s")):
        with pytest.raises(StreamNotFound):
            book.run(command)
    assert book.records[-1].kind is Kind.DELETE


def test_a_path_that_is_created_again_gets_the_next_read_seq_and_no_old_data(book):
    book.run(Create("s", TEXT))
    book.run(append(b"old", stream_seq="9", producer=producer(5, 0)))
    book.run(close())
    book.run(Delete("s"))
    state = book.run(Create("s", "a/b", lifetime=Lifetime(ttl_s=5))).state
    assert (state.read_seq, state.tail, state.closed, state.content_type) == (1, 0, False, "a/b")
    done = book.run(append(b"new", content_type="a/b", stream_seq="1", producer=producer(0, 0)))
    assert done.wrote
    assert book.data() == b"new"


def test_every_incarnation_of_a_path_has_its_own_read_seq(book):
    for life in range(4):
        assert book.run(Create("s", TEXT)).state.read_seq == life
        book.run(Delete("s"))


def test_an_expired_stream_is_ended_by_the_next_create(book):
    book.run(Create("s", TEXT, text(b"old"), lifetime=Lifetime(ttl_s=10)))
    first = book.stream().topic
    book.now_us += 10 * SECOND_US
    with pytest.raises(StreamNotFound):
        book.run(append())
    created = book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=10)))
    assert created.new
    assert created.state.read_seq == 1
    assert [record.topic for record in book.records if record.kind is Kind.DELETE] == [first]


def test_expiry_ends_only_streams_that_are_due(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=10)))
    assert book.run(Expire("s")) is False
    book.now_us += 10 * SECOND_US
    assert book.run(Expire("s", touched_us=book.now_us)) is False
    assert book.stream().expires_at_us == book.now_us + 10 * SECOND_US
    book.now_us += 10 * SECOND_US
    assert book.run(Expire("s")) is True
    assert book.run(Expire("s")) is False


def test_a_touch_makes_a_read_durable_and_never_shortens_the_ttl(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=10)))
    first = book.now_us
    book.run(Touch("s", first + 5 * SECOND_US))
    assert book.stream().expires_at_us == first + 15 * SECOND_US
    book.run(Touch("s", first + 1 * SECOND_US))
    assert book.stream().expires_at_us == first + 15 * SECOND_US


def test_a_touch_moves_no_absolute_expiry_and_revives_no_ended_stream(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(expires_at_us=5_000_000)))
    book.run(Touch("s", 4_000_000))
    assert book.stream().expires_at_us == 5_000_000
    book.run(Delete("s"))
    book.run(Touch("s", 4_500_000))
    assert book.stream().deleted
    book.run(Touch("never", 1))
    assert stream_key("never") not in book.states


def test_purging_a_stream_removes_its_producers_but_not_those_of_its_next_incarnation(book):
    book.run(Create("s", TEXT))
    book.run(append(producer=producer(0, 0, "old")))
    book.run(append(producer=producer(0, 0, "both")))
    garbage = Garbage("s", book.stream().topic)
    book.run(Delete("s"))
    assert [key.name for key in book.states if key.space is GARBAGE] == [f"{garbage.topic:016d}"]
    book.run(Create("s", TEXT))
    book.run(append(producer=producer(0, 0, "both")))
    book.run(PurgeStream(garbage, ("old", "both"), last=True))
    assert [key for key in book.states if key.space is PRODUCERS] == [producer_key("s", "both")]
    assert not [key for key in book.states if key.space is GARBAGE]
    assert not book.run(append(producer=producer(0, 0, "both"))).wrote
