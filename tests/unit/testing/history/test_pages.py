import pytest

from mainstem.testing.history.calls import Event


@pytest.fixture
def events(story):
    for number in range(1, 6):
        story.submit(f"e{number}")
    return story.events


def test_a_whole_cycle(story, events):
    first = story.sync(size=2)
    second = story.sync(first.next, size=2, sync_to=first.sync_to)
    story.sync(second.next, size=2, sync_to=first.sync_to)
    assert story.rules() == set()


def test_a_page_without_an_event(story, events):
    story.sync(events=(*events[:2], *events[3:]))
    assert story.rules() == {"gap in a page of events"}


def test_a_page_with_an_event_that_it_must_not_hold(story, events):
    story.sync(since=events[1].committed_id, events=tuple(events))
    assert story.rules() == {"outside the page of events"}


def test_a_page_with_an_event_of_another_partition(story):
    story.submit("e", "q")
    story.sync()
    assert "outside the page of events" in story.rules()


def test_a_page_that_repeats_an_event(story, events):
    story.sync(events=(events[0], *events))
    assert story.rules() == {"page out of order"}


def test_a_page_in_the_wrong_order(story, events):
    story.sync(events=tuple(sorted(events, key=lambda event: -event.committed_id)), next=events[0].committed_id)
    assert story.rules() == {"page out of order"}


def test_a_page_whose_cursor_skips_something(story, events):
    story.sync(next=100)
    assert story.rules() == {"wrong cursor"}


def test_the_last_page_of_a_cycle_may_move_its_cursor_past_what_it_reports_as_pruned(story, events):
    story.sync(next=story.head, truncated=("p",))
    assert story.rules() == set()


@pytest.mark.parametrize("fields", [{"truncated": ()}, {"truncated": ("p",), "next": 100}])
def test_a_cursor_moves_neither_without_a_reason_nor_beyond_the_cycle(story, events, fields):
    story.append("a")
    story.sync(**{"next": story.head, **fields})
    assert story.rules() == {"wrong cursor"}


def test_a_cycle_whose_end_moves(story, events):
    first = story.sync(size=2)
    story.append("a")
    story.sync(first.next)
    assert story.rules() == {"end of a cycle moved"}


def test_a_page_that_is_older_than_an_acknowledged_event(story, events):
    story.sync(events=tuple(events[:4]), next=events[3].committed_id, sync_to=events[3].committed_id)
    assert story.rules() == {"stale page"}


def test_a_page_that_is_older_than_an_acknowledged_append(story):
    story.append("a")
    story.sync(sync_to=1)
    assert story.rules() == {"stale page"}


def test_pages_of_a_partition_over_http(story, events):
    story.read_partition(events=tuple(events[:2]), next=events[1].committed_id, up_to_date=False)
    story.read_partition(since=events[1].committed_id)
    assert story.rules() == set()


def test_a_page_of_a_partition_without_an_event(story, events):
    story.read_partition(events=(*events[:2], *events[3:]))
    assert story.rules() == {"gap in a page of events"}


def test_a_page_of_a_partition_that_is_older_than_an_acknowledged_event(story, events):
    story.append("a")  # not an event, so that the page need not know it
    story.read_partition()
    story.read_partition(events=tuple(events[:4]), next=events[3].committed_id)
    assert story.rules() == {"stale page"}


def test_a_cursor_of_a_partition_that_is_refused(story, events):
    story.read_partition(refusal="invalid_offset")
    assert story.rules() == {"offset refused"}


def test_a_page_of_the_log_that_lacks_a_row(story, events):
    story.append("a")
    story.finish()
    story.finish(client="other node", rows=(), events=tuple(events))
    assert {"gap in the log", "lost message"} == story.rules()


def test_a_page_of_the_log_that_lacks_an_event(story, events):
    story.finish(client="first", events=tuple(events[1:]), up_to_date=False)
    story.finish()
    assert story.rules() == {"gap in the log"}


def test_a_page_of_the_log_that_shows_more_than_it_covers(story, events):
    story.finish(client="first", next=3, up_to_date=False)
    story.finish()
    assert story.rules() == {"outside the log page"}


def test_an_old_page_of_the_log(story, events):
    story.finish(client="first", events=tuple(events[:-1]), next=story.head - 1)
    story.finish()
    assert "stale page" in story.rules()


def test_a_page_of_the_log_with_rows_in_the_wrong_order(story):
    for message in "ab":
        story.append(message)
    story.rows.reverse()
    assert story.rules() == {"page out of order"}


def test_a_page_of_the_log_with_an_absurd_end_costs_no_more_than_another(story):
    story.append("a")
    story.finish(next=2**53)
    assert story.rules() == set()


def test_a_page_of_the_log_in_the_wrong_order(story):
    story.events += [Event(1, "a", ("p",), '"a"'), Event(2, "b", ("p",), '"b"')]
    story.submit("a")
    story.submit("b")
    story.head = 3
    story.finish(events=tuple(reversed(story.events)))
    assert story.rules() == {"page out of order"}


def test_a_new_cycle_may_end_later(story, events):
    last = story.sync()
    story.append("a")
    story.sync(last.next)
    assert story.rules() == set()


def test_a_cycle_that_begins_again_may_end_later(story, events):
    story.sync(size=2)
    story.append("a")
    story.sync()
    assert story.rules() == set()


def test_pages_without_an_answer_say_nothing(story, events):
    story.sync(end=None, events=(), next=0, sync_to=0)
    story.read_partition(end=None, events=(), next=0, up_to_date=True)
    story.finish(client="first", end=None, events=(), next=3)
    story.finish()
    assert story.rules() == set()


def test_a_partition_without_events_is_up_to_date(story):
    story.append("a")
    story.read_partition()
    assert story.rules() == set()


def test_a_message_of_a_deleted_stream_may_be_missing_in_the_log(story):
    story.append("a")
    story.finish(client="first")
    story.delete()
    story.finish()
    assert story.rules() == set()


def test_a_page_says_what_was_pruned(story):
    first = story.submit("a").committed_id
    story.submit("b")
    story.prune(first)
    story.sync(truncated=("p",))
    story.read_partition(first)
    assert story.rules() == set()


def test_a_page_of_a_cycle_may_have_said_before_what_was_pruned(story):
    for id_ in "abc":
        last = story.submit(id_).committed_id
    page = story.sync(size=1, truncated=("p",))
    story.prune(last)
    story.sync(page.next, sync_to=page.sync_to)
    assert story.rules() == set()


def test_an_event_that_was_pruned_without_notice(story):
    story.prune(story.submit("a").committed_id)
    story.sync()
    assert story.rules() == {"pruned without notice"}


def test_an_event_that_was_pruned_without_notice_in_a_page_over_http(story):
    first, second = story.submit("a").committed_id, story.submit("b")
    story.prune(first)
    page = story.read_partition(0)
    assert page.next == second.committed_id
    assert story.rules() == {"pruned without notice"}


def test_an_event_is_pruned_only_with_all_its_partitions(story):
    event = story.submit("a", "p", "q")
    story.prune(event.committed_id)
    story.events.clear()
    story.sync(truncated=("p",))
    assert story.rules() == {"gap in a page of events", "gap in the log", "lost event"}


def test_an_event_that_is_missing_before_it_was_pruned(story):
    event = story.submit("a")
    story.sync(events=(), next=0)
    story.prune(event.committed_id)
    assert story.rules() == {"gap in a page of events"}


def test_the_log_may_be_without_pruned_events(story):
    first = story.submit("a").committed_id
    story.submit("b")
    story.prune(first)
    assert story.rules() == set()
