from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Row
from mainstem.testing.history.entries import Entry
from mainstem.testing.history.order import check_real_time


def test_appends_at_the_same_time_may_have_any_order(story):
    a = story.append("a")
    story.append("b", start=a.start)
    story.calls.reverse()
    assert story.rules() == set()


def test_an_append_that_comes_before_one_that_was_acknowledged_before_it_was_sent(story):
    story.append("a")
    story.append("b")
    story.calls[1].next, story.calls[2].next = Offset(0, 4), Offset(0, 2)
    story.rows = [Row(2, "s", Offset(0, 0), "b"), Row(3, "s", Offset(0, 2), "a")]
    assert "real-time order" in story.rules()


def test_an_event_that_comes_before_an_append_that_was_acknowledged_before_it_was_sent(story):
    story.append("a")
    story.submit("e", committed_id=2)
    story.rows[0], story.events[0] = story.rows[0]._replace(committed_id=3), story.events[0]._replace(committed_id=2)
    assert "real-time order" in story.rules()


def test_a_stream_whose_order_is_not_that_of_the_log(story):
    story.append("a", end=None)
    story.append("b", end=None)
    story.rows = [story.rows[1]._replace(committed_id=2), story.rows[0]._replace(committed_id=3)]
    assert story.rules() == {"order differs"}


def test_two_appends_with_one_committed_id(story):
    story.append("a")
    story.append("b")
    story.rows[1] = story.rows[1]._replace(committed_id=2)
    assert story.rules() == {"committed id reused"}


def test_messages_of_one_append_share_their_committed_id(story):
    story.append("a", "b")
    assert story.rules() == set()


def test_entries_between_two_others_hide_nothing():
    late = Entry("late", [], sent=10.0, known=11.0)
    between = Entry("between", [], sent=0.0)
    early = Entry("early", [], sent=1.0, known=5.0)
    (violation,) = check_real_time(iter([late, between, early]))
    assert "'late' comes before 'early'" in violation.detail


def test_what_was_known_when_another_was_sent_may_come_after_it():
    assert not list(check_real_time(iter([Entry("a", [], sent=5.0), Entry("b", [], sent=1.0, known=5.0)])))
