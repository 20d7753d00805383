"""Pause, resume and redeliver: what an operator may do with every state of a subscription."""

import pytest
from msgspec.structs import replace

from mainstem.errors import Fenced, InvalidOffset, InvalidSubscription, SubscriptionNotFound, SubscriptionPaused
from mainstem.streams.commands.delete import Delete
from mainstem.streams.commands.trim import Trim
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.subscriptions.core.controls import CursorMove, Pause, Redeliver, Resume
from mainstem.streams.subscriptions.core.model import SUBSCRIPTIONS, Failure, Link, RemoveStream
from mainstem.streams.subscriptions.core.wakes import ExpireLease, PostponeDelivery, Release, RetryDelivery
from tests.support.ledger import LEASE_S, PULL_WAKE, SECOND_US, WEBHOOK

PAUSE, RESUME, REDELIVER = Pause("sub", "nonce"), Resume("sub", "nonce"), Redeliver("sub", "nonce")


@pytest.fixture
def webhook(ledger):
    """An idle webhook subscription with four bytes pending in e/1."""
    ledger.put(WEBHOOK)
    ledger.create("e/1", b"data")
    return ledger


@pytest.fixture
def pull_wake(ledger):
    """An idle pull-wake subscription with four bytes pending in e/1."""
    ledger.create("wakes", content_type="application/json")
    ledger.put(PULL_WAKE)
    ledger.create("e/1", b"data")
    return ledger


def redeliver_from(ledger, path, offset, implied=None):
    ledger.run(Redeliver("sub", "nonce", CursorMove(path, offset, implied)))


# Pause


@pytest.mark.parametrize("config", [WEBHOOK, PULL_WAKE])
def test_a_paused_subscription_is_not_woken(ledger, config):
    ledger.create("wakes", content_type="application/json")
    ledger.put(config)
    ledger.create("e/1", b"data")
    records = len(ledger.records)
    ledger.run(PAUSE)
    before = ledger.subscription
    assert ledger.wake("e/1") is None
    assert (ledger.subscription, ledger.links(), len(ledger.records)) == (before, {}, records)
    assert before.status == "paused"
    ledger.run(RESUME)
    assert ledger.wake("e/1").streams[0].path == "e/1"
    assert ledger.subscription.status == "active"


def test_pausing_and_resuming_twice_changes_nothing(webhook):
    before = webhook.subscription
    webhook.run(RESUME)
    assert webhook.subscription == before
    webhook.run(PAUSE)
    webhook.run(PAUSE)
    assert webhook.subscription == replace(before, paused=True)
    webhook.run(RESUME)
    webhook.run(RESUME)
    assert webhook.subscription == before


@pytest.mark.parametrize("claimed", [False, True])
def test_a_paused_pull_wake_cannot_be_claimed(pull_wake, claimed):
    if claimed:
        pull_wake.claim("e/1", worker="ann")
    pull_wake.run(PAUSE)
    before = pull_wake.subscription
    with pytest.raises(SubscriptionPaused) as refused:
        pull_wake.claim("e/1", worker="bob")
    assert refused.value.facts["error"]["code"] == "SUBSCRIPTION_PAUSED"
    assert pull_wake.subscription == before


def test_the_holder_of_a_lease_may_finish_during_a_pause(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.run(PAUSE)
    pull_wake.advance(1)
    pull_wake.acknowledge(("e/1", 2))
    assert pull_wake.subscription.lease_until_us == pull_wake.now_us + LEASE_S * SECOND_US
    pull_wake.acknowledge(("e/1", 4), done=True)
    assert pull_wake.link("e/1").acked == Offset(0, 4)
    assert (pull_wake.subscription.wake_id, pull_wake.subscription.paused) == (None, True)


def test_a_lease_expires_during_a_pause_and_fences_its_holder(pull_wake):
    pull_wake.claim("e/1")
    fencing = pull_wake.fencing
    pull_wake.run(PAUSE)
    pull_wake.advance(LEASE_S)
    assert SUBSCRIPTIONS.due(pull_wake.subscription) == pull_wake.now_us
    assert pull_wake.run(ExpireLease("sub", "w_1"))
    with pytest.raises(Fenced):
        pull_wake.acknowledge(("e/1", 4), fencing=fencing)
    assert pull_wake.wake("e/1") is None


def test_a_retry_waits_for_the_end_of_the_pause_and_keeps_its_time(webhook):
    webhook.wake("e/1")
    at_us = webhook.now_us + SECOND_US
    webhook.run(PostponeDelivery("sub", "w_1", at_us, "status 500"))
    webhook.run(PAUSE)
    webhook.advance(1)
    assert SUBSCRIPTIONS.due(webhook.subscription) is None  # or the check of leases would find it again and again
    assert webhook.run(RetryDelivery("sub", "w_1")) is None
    webhook.run(RESUME)
    assert SUBSCRIPTIONS.due(webhook.subscription) == at_us
    again = webhook.run(RetryDelivery("sub", "w_1"))
    assert (again.wake_id, again.attempts) == ("w_1", 1)


def test_a_call_that_fails_during_a_pause_is_postponed_like_any_other(webhook):
    webhook.wake("e/1")
    webhook.run(PAUSE)
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us, "status 500"))
    state = webhook.subscription
    assert (state.attempts, state.status, SUBSCRIPTIONS.due(state)) == (1, "paused", None)
    webhook.run(RESUME)
    assert webhook.subscription.status == "failed"


def test_a_pull_wake_that_nobody_could_claim_is_sent_again_after_the_pause(pull_wake):
    pull_wake.wake("e/1")
    pull_wake.run(PAUSE)
    pull_wake.run(RESUME)
    assert pull_wake.subscription.wake_id is None
    pull_wake.wake("e/1")
    assert pull_wake.subscription.generation == 2


def test_a_pull_wake_that_is_held_stays_held_after_the_pause(pull_wake):
    pull_wake.claim("e/1")
    held = pull_wake.subscription
    pull_wake.run(PAUSE)
    pull_wake.run(RESUME)
    assert pull_wake.subscription == held


@pytest.mark.parametrize("command", [PAUSE, RESUME, REDELIVER])
def test_a_subscription_that_does_not_exist_cannot_be_controlled(ledger, command):
    with pytest.raises(SubscriptionNotFound):
        ledger.run(command)
    ledger.put(WEBHOOK, nonce="another")
    with pytest.raises(SubscriptionNotFound):
        ledger.run(command)


# Redeliver


def test_redelivery_ends_the_back_off_but_keeps_the_latest_failure(webhook):
    webhook.wake("e/1")
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us + 60 * SECOND_US, "status 500"))
    webhook.run(REDELIVER)
    state = webhook.subscription
    assert (state.wake_id, state.attempts, state.next_attempt_us, state.lease_until_us) == (None, 0, None, None)
    assert state.last_error == Failure(webhook.now_us, "status 500")
    (stream,) = webhook.wake("e/1").streams
    assert (stream.acked_offset, webhook.subscription.generation) == (str(Offset(0, 0)), 2)


def test_redelivery_fences_the_holder(pull_wake):
    pull_wake.claim("e/1")
    fencing = pull_wake.fencing
    pull_wake.run(REDELIVER)
    for command in (Release("sub", fencing),):
        with pytest.raises(Fenced):
            pull_wake.run(command)
    with pytest.raises(Fenced):
        pull_wake.acknowledge(("e/1", 4), fencing=fencing)
    assert pull_wake.claim("e/1", worker="bob").state.holder == "bob"


def test_redelivery_does_not_move_what_was_acknowledged(webhook):
    webhook.wake("e/1")
    webhook.acknowledge(("e/1", 3))
    webhook.run(REDELIVER)
    (stream,) = webhook.wake("e/1").streams
    assert stream.acked_offset == str(Offset(0, 3))


def test_redelivery_of_a_paused_subscription_waits_for_the_end_of_the_pause(webhook):
    webhook.wake("e/1")
    webhook.run(PAUSE)
    webhook.run(REDELIVER)
    assert (webhook.subscription.wake_id, webhook.subscription.paused) == (None, True)
    assert webhook.wake("e/1") is None


def test_a_cursor_moves_back_to_an_offset_and_to_the_beginning(webhook):
    webhook.wake("e/1")
    webhook.acknowledge(("e/1", 4), done=True)
    redeliver_from(webhook, "e/1", Offset(0, 2))
    assert webhook.link("e/1") == Link(0, 2, False)
    (stream,) = webhook.wake("e/1").streams
    assert (stream.acked_offset, stream.tail_offset) == (str(Offset(0, 2)), str(Offset(0, 4)))
    redeliver_from(webhook, "e/1", None)
    assert webhook.link("e/1") == Link(0, 0, False)


def test_an_explicit_link_stays_explicit(ledger):
    ledger.create("a", b"data")
    ledger.put(WEBHOOK, "a")
    redeliver_from(ledger, "a", Offset(0, 1))
    assert ledger.link("a") == Link(0, 1, True)


def test_history_from_before_the_subscription_can_be_delivered(ledger):
    """Its link is only implied, and begins at the end that the stream had then."""
    ledger.create("e/old", b"history")
    ledger.put(WEBHOOK)
    topic = ledger.stream("e/old").topic
    assert ledger.wake("e/old").streams == ()
    redeliver_from(ledger, "e/old", None, (topic, 7))
    (stream,) = ledger.wake("e/old").streams
    assert (stream.acked_offset, stream.link_type) == (str(Offset(0, 0)), "glob")


def test_data_that_is_no_longer_kept_is_not_delivered(webhook):
    webhook.wake("e/1")
    webhook.acknowledge(("e/1", 4), done=True)
    webhook.run(Trim("e/1", webhook.stream("e/1").topic, 2, 0, 0))
    with pytest.raises(InvalidOffset, match="no longer kept"):
        redeliver_from(webhook, "e/1", Offset(0, 1))
    redeliver_from(webhook, "e/1", None)
    assert webhook.link("e/1") == Link(0, 2, False)


@pytest.mark.parametrize(
    ("path", "offset", "implied", "error", "reason"),
    [
        ("e/1", Offset(0, 4), None, InvalidOffset, "is after"),
        ("e/1", Offset(1, 0), None, InvalidOffset, "is after"),
        ("e/old", Offset(0, 8), (1, 7), InvalidOffset, "is after"),
        ("e/old", Offset(0, 3), (99, 7), InvalidOffset, "a moment ago"),
        ("e/old", Offset(0, 3), None, InvalidOffset, "a moment ago"),
        ("e/missing", Offset(0, 0), None, InvalidOffset, "does not exist"),
        ("e/deleted", None, None, InvalidOffset, "does not exist"),
        ("f/1", Offset(0, 0), None, InvalidSubscription, "not linked"),
        ("e/wakes", Offset(0, 0), None, InvalidSubscription, "not linked"),
        ("unlinked", Offset(0, 0), None, InvalidSubscription, "not linked"),
    ],
)
def test_a_move_that_is_not_possible_changes_nothing(ledger, path, offset, implied, error, reason):
    ledger.create("e/old", b"history")
    ledger.create("e/wakes", content_type="application/json")
    ledger.put(replace(PULL_WAKE, wake_stream="e/wakes"), "unlinked")
    ledger.run(RemoveStream("sub", "nonce", "unlinked"))
    for name in ("e/1", "e/deleted", "f/1"):
        ledger.create(name, b"data")
    ledger.claim("e/1")
    ledger.acknowledge(("e/1", 2))
    ledger.run(Delete("e/deleted"))
    states = dict(ledger.states)
    if implied is not None and implied[0] == 1:
        implied = (ledger.stream(path).topic, implied[1])
    with pytest.raises(error, match=reason):
        redeliver_from(ledger, path, offset, implied)
    assert ledger.states == states


def test_a_stream_that_was_created_again_is_delivered_from_its_own_beginning(webhook):
    webhook.wake("e/1")
    webhook.acknowledge(("e/1", 4), done=True)
    webhook.run(Delete("e/1"))
    webhook.create("e/1", b"second")
    with pytest.raises(InvalidOffset, match="is after"):
        redeliver_from(webhook, "e/1", Offset(1, 0))
    with pytest.raises(InvalidOffset, match="no longer kept"):
        redeliver_from(webhook, "e/1", Offset(0, 0))
    redeliver_from(webhook, "e/1", None)
    assert webhook.link("e/1") == Link(0, 4, False)  # all of the second is pending anyway
