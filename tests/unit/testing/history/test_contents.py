from mainstem.streams.rules.offsets import Offset


def test_a_page_that_misses_a_message(story):
    for message in "abc":
        story.append(message)
    story.read(messages=("a", "b"))
    assert story.rules() == {"gap or repeat in a page"}


def test_a_live_read_that_continues_in_the_wrong_incarnation(story):
    story.append("a")
    story.read(since=Offset(1, 0), live=True)
    assert "gap or repeat in a page" in story.rules()


def test_the_last_messages(story):
    for message in "abc":
        story.append(message)
    story.read(messages=("b", "c"), tail=2)
    story.read(tail=7)
    story.read(messages=("a",), next=Offset(0, 2), tail=3, up_to_date=False)
    assert story.rules() == set()


def test_the_last_messages_without_the_very_last_one(story):
    for message in "abc":
        story.append(message)
    story.read(messages=("a", "b"), tail=2)
    assert "stored twice" in story.rules()


def test_too_few_of_the_last_messages(story):
    for message in "abc":
        story.append(message)
    story.read(messages=("b", "c"), tail=3)
    assert story.rules() == {"wrong number of messages"}


def test_too_many_of_the_last_messages(story):
    for message in "abc":
        story.append(message)
    story.read(messages=("b", "c"), tail=1)
    assert story.rules() == {"wrong number of messages"}


def test_an_offset_that_is_refused(story):
    story.append("a")
    story.read(refusal="invalid_offset")
    assert story.rules() == {"offset refused"}


def test_messages_that_overlap(story):
    story.append("aa")
    story.append("bb", next=Offset(0, 5))
    story.finish(rows=story.rows[:1])
    assert "readers disagree" in story.rules()


def test_an_append_whose_messages_are_apart(story):
    story.append("a", "b", end=None)
    story.append("c")
    story.rows[1], story.rows[2] = (
        story.rows[1]._replace(start=Offset(0, 4)),
        story.rows[2]._replace(start=Offset(0, 2)),
    )
    story.calls[-1].next = Offset(0, 4)
    assert "torn append" in story.rules()


def test_an_append_of_which_only_a_part_was_stored(story):
    story.append("a", "b", end=None)
    del story.rows[1]
    assert story.rules() == {"torn append"}


def test_an_append_without_an_answer_to_a_new_incarnation_of_which_only_a_part_was_stored(story):
    story.delete()
    story.create()
    story.append("a", "b", end=None)
    del story.rows[1]
    assert story.rules() == {"torn append"}


def test_an_append_that_was_stored_although_its_condition_was_false(story):
    story.append("a")
    story.append("b", if_match=Offset(0, 0))
    assert story.rules() == {"condition ignored"}


def test_an_append_that_was_stored_where_its_condition_requires(story):
    story.append("a")
    story.append("b", if_match=Offset(0, 2))
    assert story.rules() == set()


def test_an_append_that_was_refused_although_its_condition_was_true(story):
    story.append("a")
    story.refuse("tail_moved", "b", if_match=Offset(0, 2), next=Offset(0, 2))
    assert story.rules() == {"condition refused"}


def test_an_acknowledged_message_that_is_not_in_the_log(story):
    story.append("a")
    story.append("b")
    del story.rows[1]
    assert story.rules() == {"lost message"}


def test_a_message_that_was_read_and_is_not_in_the_log(story):
    story.append("a", end=None)
    story.read()
    story.rows.clear()
    assert story.rules() == {"lost message"}


def test_a_message_without_an_answer_may_be_missing(story):
    story.append("a", end=None)
    story.rows.clear()
    assert story.rules() == set()


def test_the_messages_of_a_deleted_stream_may_be_missing(story):
    story.append("a")
    story.delete(end=None)
    assert story.rules() == set()


def test_the_messages_of_the_next_incarnation_may_not_be_missing(story):
    story.delete()
    story.create()
    story.append("a")
    story.rows.clear()
    assert story.rules() == {"lost message"}


def test_an_event_that_is_not_in_the_log(story):
    story.submit("e")
    story.events.clear()
    assert story.rules() == {"lost event", "gap in the log"}


def test_a_stream_with_a_gap(story):
    story.append("a", end=None)
    story.append("b")
    del story.rows[0]
    assert story.rules() == {"gap in a stream"}


def test_an_append_that_was_refused_because_its_condition_was_false(story):
    story.append("a")
    story.append("b")
    story.refuse("tail_moved", "c", if_match=Offset(0, 2), next=Offset(0, 4))
    assert story.rules() == set()


def test_an_append_with_a_true_condition_that_was_refused_for_another_reason(story):
    story.append(closes=True)
    story.refuse("stream_closed", "a", if_match=Offset(0, 0), next=Offset(0, 0), closed=True)
    assert story.rules() == set()


def test_an_event_without_an_answer_may_be_missing(story):
    story.submit("e", end=None, committed_id=None)
    story.events.clear()
    assert story.rules() == set()


def test_a_fork_that_has_lost_its_first_message(story):
    story.append("a")
    story.fork("f", Offset(0, 2))
    story.append("b", path="f", end=None)
    story.append("c", path="f")
    story.rows.pop(-2)
    assert story.rules() == {"gap in a stream"}


def test_a_message_that_was_trimmed_is_not_lost(story):
    story.append("a", "b")
    story.append("c")
    story.head_of(earliest=story.trim(2))
    assert story.rules() == set()


def test_a_message_that_is_missing_although_the_stream_begins_before_it(story):
    story.append("a", "b")
    story.append("c")
    story.head_of(earliest=Offset(0, 2))
    story.trim(2)
    assert "lost message" in story.rules()


def test_a_message_that_nobody_has_seen_may_have_been_trimmed(story):
    story.produce("a", 0, end=None)
    story.retry("a", 0)
    story.append("b")
    story.head_of(earliest=story.trim(1))
    assert story.rules() == set()
