import pytest

from mainstem.errors import StreamExists
from mainstem.log.records import Kind
from mainstem.streams.commands.create import Create, Lifetime
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.offsets import Offset
from tests.support.book import TEXT, append, text


def test_a_new_stream_is_a_topic_named_after_its_create_record(book):
    book.run(Create("other", TEXT))
    created = book.run(Create("s", TEXT))
    assert created.new
    assert created.state.next_offset == Offset(0, 0)
    assert (book.records[-1].kind, book.records[-1].topic) == (Kind.CREATE, created.state.topic)
    assert book.records[-1].committed_id == created.state.topic == 2


def test_creating_with_data_and_closing_is_one_step(book):
    state = book.run(Create("s", TEXT, text(b"all of it"), closed=True)).state
    assert [record.kind for record in book.records] == [Kind.CREATE, Kind.APPEND, Kind.CLOSE]
    assert (state.tail, state.closed) == (9, True)


def test_the_same_create_again_changes_nothing(book):
    book.run(Create("s", TEXT, text(b"first")))
    again = book.run(Create("s", "TEXT/plain; charset=utf-8", text(b"second")))
    assert not again.new
    assert book.data() == b"first"
    assert len(book.records) == 2


@pytest.mark.parametrize(
    ("there", "asked"),
    [
        ({}, {"content_type": "text/html"}),
        ({}, {"lifetime": Lifetime(ttl_s=60)}),
        ({"lifetime": Lifetime(ttl_s=60)}, {}),
        ({"lifetime": Lifetime(ttl_s=60)}, {"lifetime": Lifetime(ttl_s=61)}),
        ({"lifetime": Lifetime(ttl_s=60)}, {"lifetime": Lifetime(expires_at_us=61_000_000)}),
        ({}, {"lifetime": Lifetime(expires_at_us=10**15)}),
        ({"lifetime": Lifetime(expires_at_us=10**15)}, {"lifetime": Lifetime(expires_at_us=10**15 + 1)}),
        ({"lifetime": Lifetime(expires_at_us=10**15)}, {}),
        ({}, {"closed": True}),
        ({"closed": True}, {}),
    ],
)
def test_a_create_that_differs_is_a_conflict(book, there, asked):
    book.run(Create(**{"path": "s", "content_type": TEXT} | there))
    with pytest.raises(StreamExists):
        book.run(Create(**{"path": "s", "content_type": TEXT} | asked))


def test_a_ttl_that_has_slid_is_still_the_same_configuration(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=60)))
    book.now_us += 30 * SECOND_US
    book.run(append())
    assert not book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=60))).new
