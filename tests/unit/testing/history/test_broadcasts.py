import pytest


@pytest.fixture
def live(story):
    """A connection `r` that has caught up and subscribes to `p`."""
    story.submit("old")
    story.sync()
    return story


def test_events_arrive_once_and_in_order(live):
    for id in ("a", "b"):
        live.submit(id)
    for id in ("a", "b"):
        live.broadcast(id)
    assert live.rules() == set()


def test_an_event_that_arrives_twice(live):
    live.submit("a")
    live.broadcast("a")
    live.broadcast("a")
    assert live.rules() == {"broadcast repeated or out of order"}


def test_an_event_that_was_on_the_page_before(live):
    live.broadcast("old")
    assert live.rules() == {"broadcast repeated or out of order"}


def test_an_event_that_is_left_out(live):
    live.submit("a")
    live.submit("b")
    live.broadcast("b")
    assert live.rules() == {"gap in broadcasts"}


def test_own_events_are_left_out(live):
    live.submit("a", client="r")
    live.submit("b")
    live.broadcast("b")
    assert live.rules() == set()


def test_the_event_of_a_connection_that_comes_back_to_it(live):
    live.submit("a", client="r")
    live.broadcast("a")
    assert live.rules() == {"own event broadcast"}


def test_an_event_that_two_connections_submitted_may_come_back(live):
    live.submit("a")
    live.submit("a", client="r")
    live.broadcast("a")
    assert live.rules() == set()


def test_an_event_that_is_left_out_although_the_submission_of_its_connection_was_refused(live):
    live.submit("a")
    live.submit("a", client="r", refusal="validation_failed", committed_id=None)
    live.submit("b")
    live.broadcast("b")
    assert live.rules() == {"gap in broadcasts"}


def test_an_event_of_a_partition_without_a_subscription(live):
    live.submit("a", "q")
    live.broadcast("a")
    assert live.rules() == {"broadcast without a subscription"}


def test_an_event_in_the_middle_of_a_cycle(story):
    story.submit("a")
    story.submit("b")
    page = story.sync(size=1)
    story.submit("c")
    story.broadcast("c")
    story.sync(page.next, sync_to=page.sync_to, events=(story.events[1],), next=story.events[1].committed_id)
    assert story.rules() == {"broadcast within a cycle"}


def test_a_pruned_event_need_not_be_broadcast(story):
    story.sync()
    story.prune(story.submit("a").committed_id)
    story.submit("b")
    story.broadcast("b")
    assert story.rules() == set()
