from mainstem.streams.states import ProducerTuple


def test_a_retry_that_is_recognised(story):
    story.produce("a", 0, end=None)
    story.retry("a", 0)
    story.produce("b", 1)
    assert story.rules() == set()


def test_a_sequence_number_that_was_new_twice(story):
    story.produce("a", 0)
    story.retry("a", 0, duplicate=False)
    assert story.rules() == {"sequence accepted twice"}


def test_a_duplicate_of_a_number_that_was_never_sent_before(story):
    story.produce("a", 0, duplicate=True)
    assert story.rules() == {"duplicate of nothing"}


def test_a_duplicate_that_was_not_stored(story):
    story.produce("a", 0, end=None)
    story.retry("a", 0)
    story.rows.clear()
    assert "lost message" in story.rules()


def test_a_number_that_is_missing(story):
    story.produce("a", 0)
    story.produce("c", 2)
    assert story.rules() == {"producer gap"}


def test_a_producer_that_begins_with_another_number_than_0(story):
    story.produce("b", 1)
    assert story.rules() == {"producer gap"}


def test_numbers_in_the_wrong_order(story):
    story.produce("b", 1)
    story.produce("a", 0)
    assert "producer out of order" in story.rules()


def test_a_gap_that_is_refused_although_the_number_before_was_stored(story):
    story.produce("a", 0)
    story.refuse("producer_gap", "b", producer=ProducerTuple("p", 0, 1))
    assert story.rules() == {"producer forgotten"}


def test_a_real_gap_may_be_refused(story):
    story.produce("a", 0)
    story.refuse("producer_gap", "c", producer=ProducerTuple("p", 0, 2))
    assert story.rules() == set()


def test_an_old_epoch_that_is_accepted_after_a_new_one(story):
    story.produce("a", 0)
    story.produce("b", 0, epoch=1)
    story.produce("c", 1, epoch=0)
    assert "fenced producer" in story.rules()


def test_a_new_epoch_begins_at_0(story):
    story.produce("a", 0)
    story.produce("b", 1)
    story.produce("c", 0, epoch=1)
    assert story.rules() == set()


def test_a_duplicate_of_a_number_that_was_only_refused_before(story):
    story.refuse("stream_closed", "a", producer=ProducerTuple("p", 0, 0))
    story.retry("a", 0)
    assert "duplicate of nothing" in story.rules()


def test_a_duplicate_of_a_number_that_was_only_sent_later(story):
    story.retry("a", 0)
    story.produce("a", 0)
    assert "duplicate of nothing" in story.rules()


def test_the_next_incarnation_does_not_know_the_producer(story):
    story.produce("a", 0)
    story.delete()
    story.create()
    story.refuse("producer_gap", "b", producer=ProducerTuple("p", 0, 1))
    assert story.rules() == set()


def test_numbers_of_a_deleted_stream_may_never_have_been_seen(story):
    story.produce("a", 0, end=None)
    story.produce("b", 1)
    story.produce("c", 2, end=None)
    story.produce("d", 3)
    story.delete()
    assert story.rules() == set()


def test_the_first_numbers_may_be_trimmed(story):
    story.produce("a", 0, end=None)
    story.produce("b", 1)
    story.head_of(earliest=story.trim(1))
    assert story.rules() == set()
