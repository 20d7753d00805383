"""The state in memory of subscriptions: which streams to check, which subscriptions to wake, and what to forget."""

from collections import Counter

import msgspec
import pytest

from mainstem import limits
from mainstem.log.records import CommittedId
from mainstem.streams.subscriptions.core.model import Config, Link, Subscription, link_key
from mainstem.streams.subscriptions.core.pending import PendingStreams

ALL_MAX = 1_000_000
EXPLICIT = Link(0, 0, True)
BY_GLOB = Link(0, 0, False)


def subscription(pattern=None, *, nonce="nonce", wake_stream="wakes", created_id=0, wake_id=None, **fields):
    config = Config("pull-wake", pattern, wake_stream=wake_stream)
    return Subscription(nonce, config, "hash", "http://server", 0, CommittedId(created_id), wake_id=wake_id, **fields)


def link_name(nonce, path):
    return link_key(nonce, path).name


class Watched(PendingStreams):
    """Counts the calls of `notify`."""

    def __init__(self):
        self.notices = 0
        super().__init__(self.note)

    def note(self):
        self.notices += 1

    def change(self, *paths):
        for path in paths:
            self.note_change(path)
        self.match_changes()

    def ready(self):
        return sorted(self.take_ready(ALL_MAX))


@pytest.fixture
def pending():
    return Watched()


@pytest.fixture
def ann(pending):
    """Pending streams with one subscription to everything directly under `e`."""
    pending.note_subscription("ann", subscription("e/*", nonce="ann"))
    return pending


# Matching changes to subscriptions


def test_a_change_without_subscriptions_wakes_none(ann):
    ann.change("f/1")
    assert (ann.paths("ann"), ann.ready()) == ([], [])


def test_a_change_makes_subscriptions_with_a_matching_pattern_ready(ann):
    ann.note_subscription("bob", subscription("f/*", nonce="bob"))
    ann.change("e/1", "e/deep/er", "g/1")
    assert ann.ready() == ["ann"]
    assert (ann.paths("ann"), ann.paths("bob")) == (["e/1"], [])


def test_subscriptions_may_share_a_pattern_and_one_may_be_deleted(ann):
    ann.note_subscription("bob", subscription("e/*", nonce="bob"))
    assert ann.linked_to("e/1") == {"ann", "bob"}
    ann.note_subscription("ann", None)
    assert ann.linked_to("e/1") == {"bob"}
    ann.change("e/1")
    assert ann.ready() == ["bob"]


def test_a_wake_stream_does_not_wake_its_own_subscription(pending):
    pending.note_subscription("ann", subscription("**", nonce="ann", wake_stream="w/ann"))
    pending.note_subscription("bob", subscription("**", nonce="bob", wake_stream="w/bob"))
    pending.change("w/ann")
    assert pending.ready() == ["bob"]


def test_an_explicit_link_is_checked_at_once_and_until_it_is_removed(ann):
    ann.note_link(link_name("ann", "other"), EXPLICIT)
    ann.match_changes()
    assert (ann.paths("ann"), ann.has_explicit("other")) == (["other"], True)
    ann.note_link(link_name("ann", "other"), None)
    assert (ann.linked_to("other"), ann.has_explicit("other")) == (set(), False)


def test_an_explicit_link_that_the_pattern_continues_still_links(ann):
    ann.note_link(link_name("ann", "e/1"), EXPLICIT)
    ann.note_link(link_name("ann", "e/1"), BY_GLOB)
    assert not ann.has_explicit("e/1")
    assert ann.linked_to("e/1") == {"ann"}


def test_links_of_another_incarnation_are_ignored(ann):
    ann.note_link(link_name("before", "other"), EXPLICIT)
    assert (ann.linked_to("other"), ann.has_explicit("other"), ann.has_nonce("before")) == (set(), False, False)


def test_a_change_of_a_matched_path_is_only_counted(ann):
    ann.change("e/1")
    notices, count = ann.notices, ann.change_count
    ann.note_change("e/1")
    assert (ann.notices, ann.change_count) == (notices, count + 1)


def test_a_later_subscription_includes_streams_that_were_matched_before_it(ann):
    ann.change("e/1")
    ann.note_subscription("bob", subscription("e/*", nonce="bob"))
    ann.match_changes()
    assert ann.paths("bob") == ["e/1"]


def test_a_later_explicit_link_includes_a_stream_that_was_matched_before_it(ann):
    ann.change("other")
    ann.note_link(link_name("ann", "other"), EXPLICIT)
    ann.match_changes()
    assert ann.paths("ann") == ["other"]


# Incarnations


def test_the_incarnation_that_ended_is_returned_so_that_its_links_can_be_dropped(ann):
    assert ann.note_subscription("ann", subscription("e/*", nonce="ann", wake_id="w_1")) is None
    assert ann.note_subscription("ann", subscription("e/*", nonce="second")) == "ann"
    assert (ann.has_nonce("ann"), ann.has_nonce("second")) == (False, True)
    assert ann.note_subscription("ann", None) == "second"
    assert ann.note_subscription("ann", None) is None


def test_a_new_incarnation_inherits_no_pending_streams_and_no_explicit_links(ann):
    ann.note_link(link_name("ann", "other"), EXPLICIT)
    ann.change("e/1")
    ann.note_subscription("ann", None)
    ann.note_subscription("ann", subscription("f/*", nonce="second"))
    ann.match_changes()
    assert (ann.paths("ann"), ann.has_explicit("other"), ann.ready()) == ([], False, [])


def test_after_a_reset_the_same_subscriptions_can_be_added_again(ann):
    ann.change("e/1")
    ann.forget_all()
    assert (ann.subscriptions, ann.ready(), ann.oldest_id()) == ({}, [], None)
    ann.note_subscription("ann", subscription("e/*", nonce="ann"))
    ann.change("e/2")
    assert sorted(ann.paths("ann")) == ["e/1", "e/2"]


def test_nothing_older_than_the_oldest_subscription_is_new(pending):
    for name, created_id in (("ann", 7), ("bob", 3), ("cid", 9)):
        pending.note_subscription(name, subscription("e/*", nonce=name, created_id=created_id))
    assert pending.oldest_id() == 3


# Ready subscriptions


def test_a_woken_subscription_becomes_ready_when_the_wake_ends(ann):
    idle = ann.subscriptions["ann"]
    ann.note_subscription("ann", msgspec.structs.replace(idle, wake_id="w_1"))
    ann.change("e/1")
    assert (ann.ready(), ann.idle_with_pending("ann")) == ([], None)
    ann.note_subscription("ann", idle)
    assert (ann.ready(), ann.idle_with_pending("ann")) == (["ann"], idle)


def test_a_subscription_with_nothing_pending_is_not_woken(ann):
    assert ann.idle_with_pending("ann") is None
    assert ann.idle_with_pending("nobody") is None


def test_ready_subscriptions_are_taken_in_parts_and_each_once(pending):
    for number in range(5):
        pending.note_subscription(f"sub{number}", subscription("e/*", nonce=f"nonce{number}"))
    pending.change("e/1")
    parts = [pending.take_ready(2) for _ in range(4)]
    assert [len(part) for part in parts] == [2, 2, 1, 0]
    assert sorted(name for part in parts for name in part) == [f"sub{number}" for number in range(5)]


def test_a_failed_wake_is_queued_again_unless_its_subscription_is_gone(ann):
    ann.change("e/1")
    ann.note_subscription("bob", subscription("e/*", nonce="bob"))
    names = [*ann.ready(), "bob"]
    ann.note_subscription("bob", None)
    ann.make_ready(names)
    assert ann.ready() == ["ann"]


def test_the_streams_of_a_wake_come_after_the_others_in_the_next_one(ann):
    idle = ann.subscriptions["ann"]
    ann.change("e/1", "e/2", "e/3")
    snapshot = (("e/1", "end"), ("e/2", "end"), ("e/gone", "end"))
    ann.note_subscription("ann", msgspec.structs.replace(idle, wake_id="w_1", snapshot=snapshot))
    assert ann.paths("ann") == ["e/1", "e/2", "e/3"]
    ann.note_subscription("ann", idle)
    assert ann.paths("ann") == ["e/3", "e/1", "e/2"]


# Clearing pending streams


def test_a_stream_without_new_data_is_forgotten_until_it_changes(ann):
    ann.change("e/1")
    ann.ready()
    ann.clear_pending("ann", ["e/1"], ann.change_count)
    assert (ann.paths("ann"), ann.has_paths("ann"), ann.ready()) == ([], False, [])
    notices = ann.notices
    ann.change("e/1")
    assert (ann.paths("ann"), ann.ready(), ann.notices) == (["e/1"], ["ann"], notices + 1)


def test_a_change_that_arrives_during_a_wake_is_not_settled_by_it(ann):
    ann.change("e/1", "e/2")
    ann.ready()
    since = ann.change_count
    ann.note_change("e/1")
    ann.clear_pending("ann", ["e/1", "e/2"], since)
    assert (ann.paths("ann"), ann.ready()) == (["e/1"], ["ann"])


def test_a_stream_that_one_subscription_has_settled_is_still_pending_for_another(ann):
    ann.note_subscription("bob", subscription("e/*", nonce="bob"))
    ann.change("e/1")
    ann.clear_pending("ann", ["e/1"], ann.change_count)
    assert (ann.paths("ann"), ann.paths("bob")) == ([], ["e/1"])
    ann.change("e/1")
    assert ann.paths("ann") == ["e/1"]


def test_streams_that_a_wake_left_over_make_its_subscription_ready_again(ann):
    ann.change("e/1", "e/2")
    ann.ready()
    ann.clear_pending("ann", ["e/1"], ann.change_count)
    assert (ann.paths("ann"), ann.ready()) == (["e/2"], ["ann"])


def test_settling_for_a_deleted_subscription_does_nothing(ann):
    ann.change("e/1")
    ann.note_subscription("ann", None)
    ann.clear_pending("ann", ["e/1"], ann.change_count)
    assert ann.ready() == []


def test_beyond_the_limit_of_matched_paths_no_change_is_lost(ann, monkeypatch):
    monkeypatch.setattr(limits, "MATCHED_PATHS_MAX", 2)
    paths = [f"e/{number}" for number in range(10)]
    ann.change(*paths)
    since = ann.change_count
    ann.change(*paths, *(f"nobody/{number}" for number in range(10)))
    ann.clear_pending("ann", paths, since)
    assert sorted(ann.paths("ann")) == paths
    ann.clear_pending("ann", paths, ann.change_count)
    assert ann.paths("ann") == []


def test_paths_are_matched_in_steps_and_none_is_lost(pending):
    for number in range(30):
        pending.note_subscription(f"s{number}", subscription(f"*/{number % 3}/*", nonce=f"s{number}"))
    for number in range(3):
        pending.note_change(f"a/{number}/b")
    steps = 1
    while not pending.match_changes(2):
        steps += 1
    assert steps > 3
    assert sorted(pending.ready()) == sorted(f"s{number}" for number in range(30))
    assert pending.paths("s4") == ["a/1/b"]


def test_what_changed_first_is_matched_first_whatever_changes_meanwhile(pending):
    pending.note_subscription("ann", subscription("*", nonce="ann"))
    for number in range(10):
        pending.note_change(f"early{number}")
    until = pending.matched_count + pending.unmatched_count
    late = 0
    while pending.matched_count < until:
        pending.match_changes(2)
        pending.note_change(f"late{late}")
        late += 1
    assert {f"early{number}" for number in range(10)} <= set(pending.paths("ann"))
    assert pending.unmatched_count


# Pauses, and links that move back


def test_a_paused_subscription_collects_changes_and_is_ready_when_it_is_resumed(ann):
    ann.note_subscription("ann", subscription("e/*", nonce="ann", paused=True))
    ann.change("e/1")
    ann.make_ready(["ann"])
    assert (ann.paths("ann"), ann.idle_with_pending("ann")) == (["e/1"], None)
    ann.ready()
    ann.change("e/2")
    assert ann.ready() == []
    notices = ann.notices
    ann.note_subscription("ann", subscription("e/*", nonce="ann"))
    assert (ann.ready(), ann.notices) == (["ann"], notices + 1)


def test_a_paused_subscription_that_is_resumed_without_changes_is_not_ready(ann):
    ann.note_subscription("ann", subscription("e/*", nonce="ann", paused=True))
    ann.note_subscription("ann", subscription("e/*", nonce="ann"))
    assert ann.ready() == []


def test_a_link_that_changes_while_its_stream_is_not_pending_may_have_moved_back(ann):
    ann.change("e/1")
    ann.clear_pending("ann", ["e/1"], ann.change_count)
    ann.ready()
    ann.note_link(link_name("ann", "e/1"), BY_GLOB)
    ann.match_changes()
    assert (ann.paths("ann"), ann.ready()) == (["e/1"], ["ann"])


def test_a_link_by_pattern_that_changes_while_its_stream_is_pending_costs_nothing(ann):
    ann.change("e/1")
    notices = ann.notices
    ann.note_link(link_name("ann", "e/1"), BY_GLOB)
    assert (ann.notices, ann.unmatched_count) == (notices, 0)


# Figures


def test_the_oldest_unacknowledged_wake_is_that_of_a_subscription_that_is_awake(ann):
    assert ann.oldest_unacknowledged_us() is None
    for state in (
        subscription("f/*", nonce="late", wake_id="w_1", unacknowledged_since_us=300),
        subscription("f/*", nonce="early", wake_id="w_2", unacknowledged_since_us=200),
        subscription("f/*", nonce="paused", wake_id="w_3", unacknowledged_since_us=100, paused=True),
        subscription("f/*", nonce="idle", unacknowledged_since_us=100),
    ):
        ann.note_subscription(state.nonce, state)
    assert ann.oldest_unacknowledged_us() == 200
    ann.note_subscription("early", subscription("f/*", nonce="early"))
    assert ann.oldest_unacknowledged_us() == 300
    ann.note_subscription("late", None)
    assert ann.oldest_unacknowledged_us() is None


def test_pending_streams_are_counted_once_per_subscription(ann):
    ann.note_subscription("bob", subscription("**", nonce="bob"))
    ann.change("e/1", "e/2", "f/1")
    assert ann.count_pending() == 5
    assert ann.count_behind() == 2


def test_subscriptions_are_counted_by_status(ann):
    ann.note_subscription("bob", subscription("f/*", nonce="bob", wake_id="w_1", next_attempt_us=5))
    assert ann.statuses == Counter(active=1, failed=1)
    ann.note_subscription("bob", subscription("f/*", nonce="bob", paused=True))
    ann.note_subscription("ann", subscription("e/*", nonce="second", paused=True))
    assert ann.statuses == Counter(paused=2)
    ann.note_subscription("bob", None)
    ann.forget_all()
    assert ann.statuses.total() == 0
