import pytest

from mainstem.errors import (
    BadEpochStart,
    ContentTypeMismatch,
    ProducerGap,
    SequenceRegression,
    StaleEpoch,
    StreamClosed,
    StreamNotFound,
    TailMoved,
)
from mainstem.log.records import Kind
from mainstem.streams.commands.create import Create, Lifetime
from mainstem.streams.rules.lifecycle import SECOND_US
from mainstem.streams.rules.offsets import Offset
from tests.support.book import TEXT, append, close, producer, text


def test_appends_follow_one_another(book):
    book.run(Create("s", TEXT))
    ends = [book.run(append(data)).state.next_offset.position for data in (b"a", b"bc", b"def")]
    assert ends == [1, 3, 6]
    assert book.data() == b"abcdef"
    assert [(record.start, record.end) for record in book.records[1:]] == [(0, 1), (1, 3), (3, 6)]


def test_an_append_needs_an_existing_stream(book):
    with pytest.raises(StreamNotFound):
        book.run(append())


def test_an_append_of_another_type_is_a_conflict(book):
    book.run(Create("s", TEXT))
    book.run(append(content_type="Text/Plain; charset=utf-8"))
    with pytest.raises(ContentTypeMismatch, match="send the header Content-Type: text/plain"):
        book.run(append(content_type="application/x-www-form-urlencoded"))  # what curl -d sends by default


@pytest.mark.parametrize(
    ("last", "next_"), [("1", "1"), ("2", "1"), ("10", "1"), ("9", "10"), ("b", "a"), ("é", "z"), ("a", "")]
)
def test_a_stream_seq_must_grow_in_byte_order(book, last, next_):
    book.run(Create("s", TEXT))
    book.run(append(stream_seq=last))
    with pytest.raises(SequenceRegression):
        book.run(append(stream_seq=next_))
    assert book.data() == b"x"


def test_appends_without_a_stream_seq_may_come_in_between(book):
    book.run(Create("s", TEXT))
    for seq in ("10", "9", None, "a", None, "é"):
        book.run(append(stream_seq=seq))
    assert book.stream().last_seq == "é"


def test_conflicts_are_reported_in_the_order_closed_content_type_sequence(book):
    book.run(Create("s", TEXT))
    book.run(append(stream_seq="5"))
    with pytest.raises(ContentTypeMismatch):
        book.run(append(content_type="a/b", stream_seq="4"))
    book.run(close())
    with pytest.raises(StreamClosed):
        book.run(append(content_type="a/b", stream_seq="4"))


# Producers


def test_a_repeated_producer_seq_is_stored_once(book):
    book.run(Create("s", TEXT))
    first = book.run(append(b"once", producer=producer(0, 0)))
    again = book.run(append(b"once", producer=producer(0, 0)))
    assert (first.wrote, again.wrote) == (True, False)
    assert (again.producer.epoch, again.producer.last_seq) == (0, 0)
    assert book.data() == b"once"


def test_a_late_duplicate_gets_the_highest_seq(book):
    book.run(Create("s", TEXT))
    for seq in range(3):
        book.run(append(producer=producer(0, seq)))
    assert book.run(append(producer=producer(0, 0))).producer.last_seq == 2


def test_a_refused_append_leaves_the_producer_unchanged(book):
    book.run(Create("s", TEXT))
    book.run(append(b"0", stream_seq="5", producer=producer(0, 0)))
    with pytest.raises(SequenceRegression):
        book.run(append(b"1", stream_seq="4", producer=producer(0, 1)))
    assert book.run(append(b"1", stream_seq="6", producer=producer(0, 1))).wrote
    assert book.data() == b"01"


def test_a_refused_producer_leaves_the_stream_seq_unchanged(book):
    book.run(Create("s", TEXT))
    with pytest.raises(ProducerGap):
        book.run(append(stream_seq="9", producer=producer(0, 3)))
    book.run(append(stream_seq="5", producer=producer(0, 0)))


def test_a_duplicate_is_recognised_before_its_stream_seq_is_checked(book):
    book.run(Create("s", TEXT))
    book.run(append(stream_seq="5", producer=producer(0, 0)))
    assert not book.run(append(stream_seq="5", producer=producer(0, 0))).wrote


def test_producers_and_streams_do_not_share_their_numbers(book):
    for path in ("s", "t"):
        book.run(Create(path, TEXT))
        book.run(append(path=path, producer=producer(0, 0, "p")))
        book.run(append(path=path, producer=producer(0, 0, "q")))
    assert book.data("s") == book.data("t") == b"xx"


def test_a_new_epoch_fences_the_old_one(book):
    book.run(Create("s", TEXT))
    book.run(append(b"a", producer=producer(0, 0)))
    with pytest.raises(BadEpochStart):
        book.run(append(b"b", producer=producer(1, 1)))
    book.run(append(b"b", producer=producer(1, 0)))
    with pytest.raises(StaleEpoch):
        book.run(append(b"c", producer=producer(0, 1)))
    assert book.data() == b"ab"


def test_the_record_names_its_producer(book):
    book.run(Create("s", TEXT))
    book.run(append(producer=producer(0, 0, "writer-7")))
    book.run(append())
    assert [record.source for record in book.records[1:]] == ["writer-7", None]


# Closing


def test_a_last_append_and_its_close_are_one_step(book):
    book.run(Create("s", TEXT))
    done = book.run(append(b"end", closes=True))
    assert done.state.closed
    assert [record.kind for record in book.records[1:]] == [Kind.APPEND, Kind.CLOSE]


def test_a_second_close_is_accepted_and_a_later_write_is_refused(book):
    book.run(Create("s", TEXT, text(b"12345")))
    book.run(close())
    assert not book.run(close()).wrote
    for refused in (append(), append(closes=True), append(producer=producer(0, 0))):
        with pytest.raises(StreamClosed) as caught:
            book.run(refused)
        assert caught.value.headers == {"Stream-Closed": "true", "Stream-Next-Offset": str(Offset(0, 5))}
    assert [record.kind for record in book.records].count(Kind.CLOSE) == 1


def test_only_the_producer_request_that_closed_the_stream_may_be_retried(book):
    book.run(Create("s", TEXT))
    book.run(append(b"a", producer=producer(0, 0)))
    book.run(append(b"b", producer=producer(0, 1), closes=True))
    assert not book.run(append(b"b", producer=producer(0, 1), closes=True)).wrote
    for other in (producer(0, 0), producer(0, 2), producer(1, 0), producer(0, 1, "q")):
        with pytest.raises(StreamClosed):
            book.run(append(b"b", producer=other, closes=True))
    assert book.data() == b"ab"


def test_a_fenced_producer_gets_stale_epoch_before_stream_closed(book):
    book.run(Create("s", TEXT))
    book.run(append(producer=producer(3, 0), closes=True))
    with pytest.raises(StaleEpoch):
        book.run(append(producer=producer(2, 0)))


# If-Match


def test_an_append_with_if_match_is_stored_only_if_the_stream_ends_there(book):
    book.run(Create("s", TEXT, text(b"abc")))
    book.run(append(b"d", if_match=Offset(0, 3)))
    with pytest.raises(TailMoved) as caught:
        book.run(append(b"e", if_match=Offset(0, 3)))
    assert caught.value.status == 412
    assert caught.value.headers == {"Stream-Next-Offset": str(Offset(0, 4))}
    assert book.data() == b"abcd"


def test_a_duplicate_is_recognised_before_its_if_match_is_checked(book):
    book.run(Create("s", TEXT))
    book.run(append(if_match=Offset(0, 0), producer=producer(0, 0)))
    assert not book.run(append(if_match=Offset(0, 0), producer=producer(0, 0))).wrote


# Extending the TTL


def test_writes_and_closes_slide_the_ttl(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=10)))
    for command in (append(), close()):
        book.now_us += 9 * SECOND_US
        book.run(command)
        assert book.stream().expires_at_us == book.now_us + 10 * SECOND_US


def test_a_read_that_is_not_durable_yet_extends_the_ttl_for_writers(book):
    book.run(Create("s", TEXT, lifetime=Lifetime(ttl_s=10)))
    read_at = book.now_us + 9 * SECOND_US
    book.now_us += 12 * SECOND_US
    with pytest.raises(StreamNotFound):
        book.run(append())
    book.run(append(touched_us=read_at))
