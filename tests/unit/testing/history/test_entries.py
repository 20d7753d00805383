from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import Event, Read, Row
from mainstem.testing.history.entries import Entries, Incarnation


def test_a_message_that_nobody_sent(story):
    story.append("a")
    story.read(messages=("x",))
    assert story.rules() == {"invented message"}


def test_a_message_at_two_positions(story):
    story.append("a")
    story.append("b")
    story.read(messages=("a", "a"))
    assert "stored twice" in story.rules()


def test_two_messages_at_one_position(story):
    story.append("a")
    story.append("b", next=Offset(0, 2))
    assert "readers disagree" in story.rules()


def test_a_message_in_the_wrong_stream(story):
    story.create("t")
    story.append("a", end=None)
    story.rows = [Row(3, "t", Offset(0, 0), "a")]
    assert story.rules() == {"wrong stream"}


def test_a_refused_message_that_was_stored(story):
    story.append("a", refusal="tail_moved", next=None)
    assert story.rules() == {"refused but stored"}


def test_a_refused_event_that_was_stored(story):
    story.submit("e", refusal="validation_failed", committed_id=None)
    assert story.rules() == {"refused but stored"}


def test_a_retry_after_a_refusal_may_be_stored(story):
    story.refuse("producer_gap", "a")
    story.append("a")
    assert story.rules() == set()


def test_a_message_that_was_read_before_it_was_sent(story):
    story.append("a")
    story.calls.insert(0, Read(client="r", start=0, end=1, path="s", messages=("a",), next=Offset(0, 2), live=True))
    assert "known before it was sent" in story.rules()


def test_an_event_that_nobody_submitted(story):
    story.submit("e")
    story.sync(events=(Event(2, "x", ("p",), '"x"'),))
    assert "invented event" in story.rules()


def test_an_event_with_two_committed_ids(story):
    story.submit("e")
    story.submit("e", committed_id=7)
    assert "two committed ids" in story.rules()


def test_a_message_with_two_committed_ids(story):
    story.append("a")
    story.finish()
    story.finish(rows=(story.rows[0]._replace(committed_id=1),))
    assert "two committed ids" in story.rules()


def test_an_event_that_was_stored_with_another_content(story):
    story.submit("e", committed_id=None)
    story.events[0] = story.events[0]._replace(content='"other"')
    assert story.rules() == {"changed event"}


def test_an_event_that_was_stored_with_a_content_that_was_refused(story):
    story.submit("e", committed_id=None)
    story.submit("e", committed_id=None, content='"other"', refusal="validation_failed")
    story.events[0] = story.events[0]._replace(content='"other"')
    assert story.rules() == {"changed event"}


def test_an_event_that_readers_see_with_other_partitions(story):
    story.submit("e")
    story.sync(events=(story.events[0]._replace(partitions=("p", "q")),))
    assert story.rules() == {"changed event"}


def test_only_enough_deletes_can_have_deleted_an_incarnation(story):
    story.delete()
    story.create()
    story.delete(refusal="stream_not_found")
    entries = Entries(story.calls)
    assert not entries.may_be_deleted(Incarnation("s", 0), before=3.0)
    assert entries.may_be_deleted(Incarnation("s", 0), before=3.1)
    assert not entries.may_be_deleted(Incarnation("s", 1), before=100.0)


def test_the_beginning_of_a_fork_is_in_its_source(story):
    story.append("a", "b")
    story.fork("f", Offset(0, 2))
    story.append("c", path="f")
    story.fork("g", Offset(0, 4), source="f")
    story.read("g", messages=("a", "c"), next=Offset(0, 4))
    assert story.rules() == set()


def test_a_fork_that_shows_what_its_source_got_later(story):
    story.fork("f", Offset(0, 0))
    story.append("a")
    story.read("f", messages=("a",), next=Offset(0, 2))
    assert "stored twice" in story.rules()


def test_a_fork_outlives_its_source(story):
    story.append("a")
    story.fork("f", Offset(0, 2))
    story.delete()
    story.read("f", messages=("a",), next=Offset(0, 2))
    story.append("b", path="f")
    assert story.rules() == set()


def test_a_fork_of_a_later_incarnation_that_loses_data(story):
    story.delete()
    story.create()
    story.fork("f", Offset(1, 0))
    story.append("a", path="f")
    story.rows.clear()
    assert story.rules() == {"lost message"}


def test_one_delete_is_enough_for_a_fork_of_a_later_incarnation(story):
    story.delete()
    story.create()
    story.fork("f", Offset(1, 0))
    story.append("a", path="f")
    story.delete("f")
    assert story.rules() == set()
