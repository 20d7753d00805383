"""Every transition of the table in `wakes`; offsets move only forward and only by an acknowledgement."""

import json
from itertools import product

import pytest
from msgspec.structs import replace

from mainstem.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidOffset,
    InvalidSubscription,
    NoPendingWork,
    SubscriptionNotFound,
)
from mainstem.log.records import Kind
from mainstem.streams.commands.create import Lifetime
from mainstem.streams.commands.delete import Delete
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.subscriptions.core.model import SUBSCRIPTIONS, DeleteSubscription, Failure, Link
from mainstem.streams.subscriptions.core.wakes import (
    Acknowledge,
    Candidate,
    ConfirmDelivery,
    ExpireLease,
    LinkedStream,
    PostponeDelivery,
    Release,
    RetryDelivery,
    Wake,
)
from tests.support.ledger import LEASE_S, PULL_WAKE, SECOND_US, WEBHOOK, changed


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


def messages(ledger):
    topic = ledger.stream("wakes").topic
    return [json.loads(r.data.rstrip(b",")) for r in ledger.records if r.topic == topic and r.kind is Kind.APPEND]


def due(ledger):
    return SUBSCRIPTIONS.due(ledger.subscription)


def is_idle(state):
    rest = (state.snapshot, state.holder, state.lease_until_us, state.attempts, state.next_attempt_us)
    return state.wake_id is None and rest == ((), None, None, 0, None)


# idle -> woken


def test_an_idle_webhook_with_new_data_is_woken_under_a_lease(webhook):
    woken = webhook.wake("e/1")
    assert woken.streams == (LinkedStream("e/1", "glob", str(Offset(0, 0)), str(Offset(0, 4))),)
    state = webhook.subscription
    assert (state.generation, state.wake_id, state.holder) == (1, "w_1", None)
    assert state.lease_until_us == webhook.now_us + LEASE_S * SECOND_US == due(webhook)
    assert state.snapshot == (("e/1", str(Offset(0, 4))),)


def test_an_idle_pull_wake_with_new_data_writes_one_message_and_waits_for_a_worker(pull_wake):
    pull_wake.wake("e/1")
    state = pull_wake.subscription
    assert (state.generation, state.wake_id, state.holder, state.lease_until_us) == (1, "w_1", None, None)
    assert due(pull_wake) is None
    (message,) = messages(pull_wake)
    assert message == {
        "type": "wake",
        "subscription_id": "sub",
        "stream": "e/1",
        "generation": 1,
        "ts": pull_wake.now_us // 1000,
    }


@pytest.mark.parametrize("why", ["missing", "deleted", "closed", "expired"])
def test_a_pull_wake_that_cannot_write_its_message_tries_again_after_a_lease(ledger, why):
    if why != "missing":
        lifetime = Lifetime(ttl_s=1) if why == "expired" else Lifetime()
        ledger.create("wakes", content_type="application/json", closed=why == "closed", lifetime=lifetime)
    if why == "deleted":
        ledger.run(Delete("wakes"))
    ledger.advance(1)
    ledger.put(PULL_WAKE)
    ledger.create("e/1", b"data")
    ledger.wake("e/1")
    state = ledger.subscription
    assert state.lease_until_us == ledger.now_us + LEASE_S * SECOND_US
    ledger.advance(LEASE_S)
    assert ledger.run(ExpireLease("sub", state.wake_id))
    assert is_idle(ledger.subscription)


def test_a_wake_stream_of_text_gets_the_same_message(ledger):
    ledger.create("wakes")
    ledger.put(PULL_WAKE)
    ledger.create("e/1", b"data")
    ledger.wake("e/1")
    assert messages(ledger)[0]["generation"] == 1


def test_a_wake_message_slides_the_ttl_of_its_stream_like_any_write(ledger):
    ledger.create("wakes", content_type="application/json", lifetime=Lifetime(ttl_s=100))
    ledger.put(PULL_WAKE)
    ledger.create("e/1", b"data")
    ledger.advance(99)
    ledger.wake("e/1")
    assert messages(ledger)
    assert ledger.stream("wakes").expires_at_us == ledger.now_us + 100 * SECOND_US


def test_without_new_data_nothing_is_woken_and_the_up_to_date_streams_are_named(webhook):
    webhook.create("e/2")
    before = webhook.subscription
    woken = webhook.wake("e/2", "e/3")
    assert (woken.streams, woken.up_to_date) == ((), ("e/2", "e/3"))
    assert webhook.subscription == before
    assert webhook.links() == {}


@pytest.mark.parametrize("kind", ["webhook", "pull_wake"])
def test_a_second_wake_does_not_replace_one_in_progress(request, kind):
    ledger = request.getfixturevalue(kind)
    ledger.wake("e/1")
    before = ledger.subscription
    ledger.append("e/1")
    assert ledger.wake("e/1") is None
    assert ledger.subscription == before


def test_a_wake_for_another_incarnation_or_none_does_nothing(webhook):
    assert webhook.wake("e/1", nonce="another") is None
    webhook.run(DeleteSubscription("sub", "nonce"))
    assert webhook.run(Wake("sub", "nonce", "w", (Candidate("e/1"),))) is None


def test_an_implied_link_is_stored_where_the_first_append_after_the_subscription_begins(ledger):
    ledger.create("e/1", b"old")
    ledger.put(WEBHOOK)
    ledger.append("e/1", b"new")
    ledger.append("e/1", b"newer")
    woken = ledger.wake("e/1")
    assert ledger.link("e/1") == Link(0, 3, False)
    assert woken.streams[0].acked_offset == str(Offset(0, 3))
    assert woken.streams[0].tail_offset == str(Offset(0, 11))


def test_a_candidate_of_another_incarnation_of_its_stream_waits_for_the_next_wake(webhook):
    candidate = webhook.candidate("e/1")
    webhook.run(Delete("e/1"))
    webhook.create("e/1", b"next life")
    woken = webhook.run(Wake("sub", "nonce", "w", (candidate,)))
    assert (woken.streams, woken.up_to_date) == ((), ())
    assert webhook.links() == {}


def test_explicit_links_are_reported_as_such(ledger):
    ledger.put(WEBHOOK, "e/1", "other")
    ledger.create("e/1", b"a")
    ledger.create("e/2", b"b")
    ledger.create("other", b"c")
    kinds = {stream.path: stream.link_type for stream in ledger.wake("e/1", "e/2", "other").streams}
    assert kinds == {"e/1": "explicit", "e/2": "glob", "other": "explicit"}


# Claims: idle -> held, woken -> held


def test_a_claim_of_an_idle_subscription_begins_a_wake(pull_wake):
    woken = pull_wake.claim("e/1")
    state = pull_wake.subscription
    assert woken.state == state
    assert (state.generation, state.wake_id, state.holder) == (1, "w_1", "ann")
    assert state.lease_until_us == pull_wake.now_us + LEASE_S * SECOND_US
    assert messages(pull_wake) == []  # a worker that claims needs no wake message


def test_a_claim_of_a_woken_subscription_takes_its_current_wake(pull_wake):
    pull_wake.wake("e/1")
    pull_wake.append("e/1", b"more")
    woken = pull_wake.claim("e/1")
    assert (woken.state.generation, woken.state.wake_id, woken.state.holder) == (1, "w_1", "ann")
    assert woken.streams[0].tail_offset == str(Offset(0, 8))  # read again, because it may have grown
    assert woken.state.snapshot == (("e/1", str(Offset(0, 8))),)


def test_a_second_claim_gets_the_name_of_the_holder(pull_wake):
    pull_wake.claim("e/1", worker="ann")
    pull_wake.advance(LEASE_S - 0.001)
    for worker in ("bob", "ann"):
        with pytest.raises(AlreadyClaimed) as refused:
            pull_wake.claim("e/1", worker=worker)
        error = refused.value.facts["error"]
        assert (error["code"], error["current_holder"], error["generation"]) == ("ALREADY_CLAIMED", "ann", 1)


def test_a_claim_after_the_lease_fences_the_previous_worker(pull_wake):
    pull_wake.claim("e/1", worker="ann")
    old = pull_wake.fencing
    pull_wake.advance(LEASE_S)
    state = pull_wake.claim("e/1", worker="bob").state
    assert (state.generation, state.holder) == (2, "bob")
    assert state.wake_id != old.wake_id
    with pytest.raises(Fenced):
        pull_wake.acknowledge(("e/1", 4), fencing=old)


def test_a_claim_without_new_data_is_refused_and_changes_nothing(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.acknowledge(("e/1", 4), done=True)
    with pytest.raises(NoPendingWork):
        pull_wake.claim("e/1")
    assert is_idle(pull_wake.subscription)


def test_only_an_existing_pull_wake_can_be_claimed(webhook):
    with pytest.raises(InvalidSubscription):
        webhook.claim("e/1")
    with pytest.raises(SubscriptionNotFound):
        webhook.claim("e/1", nonce="another")


# Fencing


def hold(ledger):
    ledger.claim("e/1")
    ledger.acknowledge(("e/1", 1), done=True)
    ledger.claim("e/1")  # so that there is an older generation


WRONG = {"nonce": "another", "token_generation": 1, "generation": 1, "wake_id": "w_1"}


@pytest.mark.parametrize("act", ["acknowledge", "finish", "release"])
@pytest.mark.parametrize("wrong", list(product([False, True], repeat=4)), ids=lambda w: "".join("xv"[not x] for x in w))
def test_a_worker_that_is_wrong_in_anything_is_fenced(pull_wake, act, wrong):
    hold(pull_wake)
    fields = {name: value for (name, value), is_wrong in zip(WRONG.items(), wrong, strict=True) if is_wrong}
    fencing = changed(pull_wake.fencing, **fields)
    command = Release("sub", fencing) if act == "release" else Acknowledge("sub", fencing, (), act == "finish")
    before = dict(pull_wake.states)
    if fields:
        with pytest.raises(Fenced) as refused:
            pull_wake.run(command)
        assert (refused.value.status, refused.value.facts["error"]["code"]) == (409, "FENCED")
        assert pull_wake.states == before
    else:
        pull_wake.run(command)


def test_a_generation_from_the_future_is_fenced_too(pull_wake):
    pull_wake.claim("e/1")
    for fields in ({"generation": 2}, {"token_generation": 2}, {"generation": 2, "token_generation": 2}):
        with pytest.raises(Fenced):
            pull_wake.run(Release("sub", changed(pull_wake.fencing, **fields)))


def test_after_the_end_of_a_wake_its_worker_is_fenced(pull_wake):
    pull_wake.claim("e/1")
    fencing = pull_wake.fencing
    pull_wake.acknowledge(done=True)
    for command in (Release("sub", fencing), Acknowledge("sub", fencing, (("e/1", Offset(0, 4)),), True)):
        with pytest.raises(Fenced):
            pull_wake.run(command)
    assert pull_wake.link("e/1") == Link(0, 0, False)


def test_a_deleted_subscription_fails_its_worker_and_moves_no_cursor(pull_wake):
    pull_wake.claim("e/1")
    fencing = pull_wake.fencing
    pull_wake.run(DeleteSubscription("sub", "nonce"))
    for command in (Release("sub", fencing), Acknowledge("sub", fencing, (("e/1", Offset(0, 4)),), True)):
        with pytest.raises(SubscriptionNotFound):
            pull_wake.run(command)
    pull_wake.put(PULL_WAKE, nonce="second")  # nor does a new subscription with this id accept it
    for command in (Release("sub", fencing), Acknowledge("sub", fencing, (("e/1", Offset(0, 4)),), True)):
        with pytest.raises(Fenced):
            pull_wake.run(command)
    assert pull_wake.link("e/1") == Link(0, 0, False)


# Acknowledging


def test_an_acknowledgement_moves_the_cursor_and_extends_the_lease(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.advance(20)
    assert pull_wake.acknowledge(("e/1", 2)) is False
    state = pull_wake.subscription
    assert (state.holder, state.generation) == ("ann", 1)
    assert state.lease_until_us == pull_wake.now_us + LEASE_S * SECOND_US
    assert pull_wake.link("e/1") == Link(0, 2, False)


def test_a_cursor_only_moves_forward(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.acknowledge(("e/1", 3))
    pull_wake.acknowledge(("e/1", 1))
    pull_wake.acknowledge(("e/1", 3), ("e/1", 2))
    assert pull_wake.link("e/1") == Link(0, 3, False)


@pytest.mark.parametrize("kind", ["webhook", "pull_wake"])
def test_nothing_but_an_acknowledgement_moves_a_cursor(request, kind):
    ledger = request.getfixturevalue(kind)
    ledger.wake("e/1")
    wake_id = ledger.subscription.wake_id
    commands = [
        PostponeDelivery("sub", wake_id, ledger.now_us, "status 500"),
        RetryDelivery("sub", wake_id),
        ConfirmDelivery("sub", wake_id),
        Release("sub", ledger.fencing),
    ]
    for command in commands:
        ledger.run(command)
        assert ledger.link("e/1") == Link(0, 0, False)
    ledger.wake("e/1")
    if kind == "pull_wake":
        ledger.claim("e/1")
    ledger.advance(LEASE_S)
    assert ledger.run(ExpireLease("sub", ledger.subscription.wake_id))
    assert ledger.link("e/1") == Link(0, 0, False)


def test_done_ends_the_wake_and_reports_whether_more_is_pending(pull_wake):
    pull_wake.claim("e/1")
    assert pull_wake.acknowledge(("e/1", 2), done=True) is True
    assert is_idle(pull_wake.subscription)
    pull_wake.claim("e/1")
    assert pull_wake.acknowledge(("e/1", 4), done=True) is False
    pull_wake.append("e/1")
    pull_wake.claim("e/1")
    pull_wake.create("e/2", b"another")
    assert pull_wake.acknowledge(("e/1", 5), done=True) is True


def test_an_acknowledgement_is_all_or_nothing(pull_wake):
    pull_wake.create("e/2", b"data")
    pull_wake.claim("e/1", "e/2")
    with pytest.raises(InvalidOffset):
        pull_wake.acknowledge(("e/1", 4), ("e/2", 5), done=True)
    assert pull_wake.links() == {"e/1": Link(0, 0, False), "e/2": Link(0, 0, False)}
    assert pull_wake.subscription.holder == "ann"


def test_a_stream_that_is_not_linked_cannot_be_acknowledged(pull_wake):
    pull_wake.create("other", b"data")
    pull_wake.claim("e/1")
    for path in ("other", "nowhere"):
        with pytest.raises(InvalidOffset):
            pull_wake.acknowledge((path, 0))


@pytest.mark.parametrize("offset", [Offset(0, 5), Offset(1, 0), Offset(10**15, 0)])
def test_an_offset_beyond_the_end_cannot_be_acknowledged(pull_wake, offset):
    pull_wake.claim("e/1")
    with pytest.raises(InvalidOffset):
        pull_wake.run(Acknowledge("sub", pull_wake.fencing, (("e/1", offset),), False))


def test_what_was_never_there_cannot_be_acknowledged(ledger):
    """A link ahead of its stream would hide everything that is appended after the stream is created."""
    ledger.create("wakes", content_type="application/json")
    ledger.put(PULL_WAKE, "missing")
    ledger.create("e/1", b"data")
    ledger.claim("e/1")
    with pytest.raises(InvalidOffset):
        ledger.acknowledge(("missing", 10**15))
    assert ledger.link("missing") == Link(0, 0, True)


def test_a_webhook_is_acknowledged_without_a_holder(webhook):
    webhook.wake("e/1")
    webhook.advance(10)
    webhook.acknowledge(("e/1", 2))
    assert webhook.subscription.lease_until_us == webhook.now_us + LEASE_S * SECOND_US
    assert webhook.acknowledge(("e/1", 4), done=True) is False
    assert is_idle(webhook.subscription)


def test_a_released_subscription_is_idle_with_its_data_still_pending(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.run(Release("sub", pull_wake.fencing))
    assert is_idle(pull_wake.subscription)
    assert pull_wake.wake("e/1").state.generation == 2


def test_every_wake_has_a_higher_generation_than_all_before(pull_wake):
    seen = []
    for _ in range(3):
        pull_wake.wake("e/1")
        seen.append(pull_wake.subscription.generation)
        pull_wake.claim("e/1")
        pull_wake.run(Release("sub", pull_wake.fencing))
        pull_wake.claim("e/1")
        seen.append(pull_wake.subscription.generation)
        pull_wake.advance(LEASE_S)
        pull_wake.run(ExpireLease("sub", pull_wake.subscription.wake_id))
    assert seen == [1, 2, 3, 4, 5, 6]


# Retries and leases


def test_a_failed_webhook_is_postponed_and_retried_as_the_same_wake(webhook):
    webhook.wake("e/1")
    at_us = webhook.now_us + 100 * SECOND_US
    webhook.run(PostponeDelivery("sub", "w_1", at_us, "status 500"))
    state = webhook.subscription
    assert (state.attempts, state.next_attempt_us, due(webhook)) == (1, at_us, at_us)
    webhook.advance(100)
    assert not webhook.run(ExpireLease("sub", "w_1"))  # the lease does not count while a retry is scheduled
    again = webhook.run(RetryDelivery("sub", "w_1"))
    assert (again.wake_id, again.generation, again.attempts, again.next_attempt_us) == ("w_1", 1, 1, None)
    assert again.lease_until_us == webhook.now_us + LEASE_S * SECOND_US == due(webhook)
    webhook.run(PostponeDelivery("sub", "w_1", at_us, "status 500"))
    assert webhook.subscription.attempts == 2
    webhook.run(RetryDelivery("sub", "w_1"))
    webhook.run(ConfirmDelivery("sub", "w_1"))
    assert webhook.subscription == replace(again, attempts=0, last_error=None)


def test_the_latest_failure_is_kept_until_a_delivery_succeeds(webhook):
    webhook.wake("e/1")
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us, "status 500"))
    webhook.advance(1)
    webhook.run(RetryDelivery("sub", "w_1"))
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us, "status 503"))
    failure = Failure(webhook.now_us, "status 503")
    webhook.run(RetryDelivery("sub", "w_1"))
    webhook.advance(LEASE_S)
    webhook.run(ExpireLease("sub", "w_1"))
    webhook.wake("e/1")
    assert (webhook.subscription.attempts, webhook.subscription.last_error) == (0, failure)
    webhook.run(ConfirmDelivery("sub", "w_2"))
    assert webhook.subscription.last_error is None


@pytest.mark.parametrize("done", [True, False])
def test_an_acknowledgement_proves_that_the_worker_was_reached(webhook, done):
    webhook.wake("e/1")
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us, "no response"))
    webhook.acknowledge(("e/1", 4), done=done)
    assert webhook.subscription.last_error is None


def test_a_wake_stream_that_cannot_be_written_is_a_failure_until_it_can(ledger):
    ledger.put(PULL_WAKE)
    ledger.create("e/1", b"data")
    ledger.wake("e/1")
    assert ledger.subscription.last_error == Failure(ledger.now_us, "the wake stream does not exist or is closed")
    ledger.advance(LEASE_S)
    ledger.run(ExpireLease("sub", "w_1"))
    ledger.create("wakes", content_type="application/json")
    ledger.wake("e/1")
    assert ledger.subscription.last_error is None


# Since when a worker has not acknowledged


def test_wakes_without_an_acknowledgement_count_from_the_first_of_them(webhook):
    began_us = webhook.now_us
    for number in (1, 2):
        webhook.wake("e/1")
        assert webhook.subscription.unacknowledged_since_us == began_us
        webhook.advance(LEASE_S)
        webhook.run(ExpireLease("sub", f"w_{number}"))
    webhook.wake("e/1")
    webhook.advance(1)
    webhook.acknowledge(("e/1", 2))
    assert webhook.subscription.unacknowledged_since_us == webhook.now_us
    webhook.acknowledge(("e/1", 4), done=True)
    assert webhook.subscription.unacknowledged_since_us is None


def test_nothing_is_unacknowledged_once_the_data_of_a_lost_wake_is_gone(webhook):
    webhook.wake("e/1")
    webhook.run(Release("sub", webhook.fencing))
    webhook.run(Delete("e/1"))
    webhook.wake("e/1")
    assert webhook.subscription.unacknowledged_since_us is None


def test_a_finished_wake_is_neither_postponed_nor_retried(webhook):
    webhook.wake("e/1")
    webhook.acknowledge(("e/1", 4), done=True)
    before = webhook.subscription
    webhook.run(PostponeDelivery("sub", "w_1", 0, "status 500"))
    webhook.run(ConfirmDelivery("sub", "w_1"))
    assert webhook.run(RetryDelivery("sub", "w_1")) is None
    assert webhook.run(ExpireLease("sub", "w_1")) is False
    assert webhook.subscription == before
    webhook.run(DeleteSubscription("sub", "nonce"))
    for command in (
        PostponeDelivery("sub", "w_1", 0, "status 500"),
        ConfirmDelivery("sub", "w_1"),
        RetryDelivery("sub", "w_1"),
    ):
        assert webhook.run(command) is None
    assert webhook.run(ExpireLease("sub", "w_1")) is False


def test_a_retry_that_is_not_planned_does_not_happen(webhook):
    webhook.wake("e/1")
    before = webhook.subscription
    assert webhook.run(RetryDelivery("sub", "w_1")) is None
    assert webhook.subscription == before


def test_an_acknowledgement_while_a_retry_is_scheduled_ends_the_wake(webhook):
    webhook.wake("e/1")
    webhook.run(PostponeDelivery("sub", "w_1", webhook.now_us + SECOND_US, "status 500"))
    webhook.acknowledge(("e/1", 4), done=True)
    assert is_idle(webhook.subscription)
    assert webhook.run(RetryDelivery("sub", "w_1")) is None


def test_a_lease_ends_exactly_at_its_time(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.advance(LEASE_S - 0.000001)
    assert not pull_wake.run(ExpireLease("sub", "w_1"))
    assert pull_wake.subscription.holder == "ann"
    pull_wake.advance(0.000001)
    assert pull_wake.run(ExpireLease("sub", "w_1"))
    assert is_idle(pull_wake.subscription)
    assert not pull_wake.run(ExpireLease("sub", "w_1"))


def test_the_end_of_an_earlier_lease_does_not_end_the_next_one(pull_wake):
    pull_wake.claim("e/1")
    pull_wake.run(Release("sub", pull_wake.fencing))
    pull_wake.claim("e/1")
    pull_wake.advance(LEASE_S)
    assert not pull_wake.run(ExpireLease("sub", "w_1"))
    assert pull_wake.subscription.holder == "ann"
