"""The commands that create, change and delete subscriptions, run on a dict."""

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from mainstem.errors import InvalidSubscription, MainstemError, SubscriptionExists, SubscriptionNotFound
from mainstem.log.records import CommittedId, TopicId
from mainstem.streams.commands.delete import Delete
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    SUBSCRIPTIONS,
    AddStreams,
    Config,
    DeleteSubscription,
    DropLinks,
    Link,
    RemoveStream,
    Subscription,
    check_config,
    count_lag,
    has_pending,
    hash_config,
)
from tests.support.ledger import PULL_WAKE, WEBHOOK

OWNER = Subscription.__struct_fields__.index("owner")

# Creating


def test_the_same_configuration_again_is_confirmed(ledger):
    assert ledger.put(WEBHOOK, "a", "b")
    before = ledger.subscription
    assert not ledger.put(WEBHOOK, "b", "a", "a", nonce="another")
    assert ledger.subscription == before


@pytest.mark.parametrize(
    "other",
    [
        replace(WEBHOOK, pattern="f/*"),
        replace(WEBHOOK, pattern=None),
        replace(WEBHOOK, webhook_url="https://other.example/"),
        replace(WEBHOOK, lease_ttl_ms=1_000),
        replace(WEBHOOK, description="another"),
        PULL_WAKE,
        replace(PULL_WAKE, wake_stream="others"),
    ],
)
def test_any_other_configuration_is_a_conflict(ledger, other):
    ledger.put(WEBHOOK, "a")
    with pytest.raises(SubscriptionExists):
        ledger.put(other, "a")
    with pytest.raises(SubscriptionExists):
        ledger.put(WEBHOOK, "a", "b")
    assert ledger.subscription.config == WEBHOOK


def test_the_hash_distinguishes_configurations_but_ignores_the_order_of_streams():
    assert hash_config(WEBHOOK, ("a", "b")) == hash_config(WEBHOOK, ("b", "a", "b"))
    hashes = {
        hash_config(config, streams)
        for config in (WEBHOOK, PULL_WAKE, replace(WEBHOOK, description="x"))
        for streams in ((), ("a",), ("b",), ("a", "b"), ("a,b",))
    }
    assert len(hashes) == 15


@pytest.mark.parametrize("pattern", ["", "/a", "a**", "**a/b", "a/***", "a\0b", "x" * 1025, "ü" * 513])
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(MainstemError) as refused:
        check_config(Config("webhook", pattern), ())
    assert refused.value.status == 400


def test_a_subscription_needs_a_pattern_or_streams():
    with pytest.raises(InvalidSubscription):
        check_config(Config("webhook"), ())
    check_config(Config("webhook"), ("a",))
    check_config(Config("webhook", "**"), ())


# Links


def test_explicit_streams_are_linked_at_their_end_and_missing_ones_at_their_beginning(ledger):
    ledger.create("a", b"old data")
    ledger.put(WEBHOOK, "a", "missing")
    assert ledger.links() == {"a": Link(0, 8, True), "missing": Link(0, 0, True)}


def test_a_link_to_a_deleted_path_waits_for_its_next_incarnation(ledger):
    ledger.create("a", b"old data")
    ledger.run(Delete("a"))
    ledger.put(WEBHOOK, "a")
    ledger.create("a")
    assert ledger.stream("a").read_seq == 1
    assert not has_pending(ledger.subscription, "a", ledger.link("a"), ledger.stream("a"))
    ledger.append("a", b"new")
    assert has_pending(ledger.subscription, "a", ledger.link("a"), ledger.stream("a"))


def test_adding_a_stream_links_it_at_its_end_and_adding_it_again_changes_nothing(ledger):
    ledger.create("a", b"old")
    ledger.put(WEBHOOK)
    ledger.run(AddStreams("sub", "nonce", ("a",)))
    assert ledger.link("a") == Link(0, 3, True)
    ledger.append("a")
    ledger.run(AddStreams("sub", "nonce", ("a",)))
    assert ledger.link("a") == Link(0, 3, True)


def test_adding_a_stream_that_the_pattern_links_makes_it_explicit_and_keeps_its_offset(ledger):
    ledger.put(WEBHOOK)
    ledger.create("e/1", b"data")
    ledger.wake("e/1")
    assert ledger.link("e/1") == Link(0, 0, False)
    ledger.run(AddStreams("sub", "nonce", ("e/1",)))
    assert ledger.link("e/1") == Link(0, 0, True)


def test_adding_a_stream_that_the_pattern_implies_begins_where_the_implied_link_did(ledger):
    ledger.put(WEBHOOK)
    ledger.create("e/1", b"data")
    ledger.append("e/1", b"more")
    ledger.run(AddStreams("sub", "nonce", ("e/1",), (("e/1", ledger.stream("e/1").topic, 0),)))
    assert ledger.link("e/1") == Link(0, 0, True)


def test_an_explicit_link_can_be_removed(ledger):
    ledger.create("a", b"old")
    ledger.put(WEBHOOK, "a")
    ledger.run(RemoveStream("sub", "nonce", "a"))
    assert ledger.link("a") is None
    ledger.run(RemoveStream("sub", "nonce", "a"))  # repeating it is no error


def test_removing_an_explicit_link_keeps_the_link_by_pattern_and_its_offset(ledger):
    ledger.create("e/1", b"old")
    ledger.put(WEBHOOK, "e/1")
    ledger.run(RemoveStream("sub", "nonce", "e/1"))
    assert ledger.link("e/1") == Link(0, 3, False)
    ledger.run(RemoveStream("sub", "nonce", "e/1"))
    assert ledger.link("e/1") == Link(0, 3, False)


# Deleting


def test_a_deleted_subscription_is_not_found(ledger):
    ledger.put(WEBHOOK, "a")
    ledger.run(DeleteSubscription("sub", "nonce"))
    for command in (
        DeleteSubscription("sub", "nonce"),
        AddStreams("sub", "nonce", ("b",)),
        RemoveStream("sub", "nonce", "a"),
    ):
        with pytest.raises(SubscriptionNotFound):
            ledger.run(command)


def test_a_nonce_of_an_earlier_incarnation_cannot_change_the_next(ledger):
    ledger.put(WEBHOOK, "a")
    ledger.run(DeleteSubscription("sub", "nonce"))
    ledger.put(WEBHOOK, nonce="second")
    for command in (
        DeleteSubscription("sub", "nonce"),
        AddStreams("sub", "nonce", ("b",)),
        RemoveStream("sub", "nonce", "a"),
    ):
        with pytest.raises(SubscriptionNotFound):
            ledger.run(command)
    assert ledger.subscription.nonce == "second"


def test_links_of_one_incarnation_are_ignored_by_the_next_and_dropped(ledger):
    ledger.create("a", b"data")
    ledger.put(WEBHOOK, "a")
    ledger.run(DeleteSubscription("sub", "nonce"))
    ledger.put(WEBHOOK, nonce="second")
    assert list(ledger.links()) == ["a"]
    ledger.run(DropLinks("nonce", ("a",)))
    assert ledger.links() == {}


# Pending data


def stream(tail=0, read_seq=0, last_id=0, **fields):
    return StreamState(TopicId(1), read_seq, "text/plain", tail, 0, last_id=last_id, **fields)


SUBSCRIPTION = Subscription("nonce", WEBHOOK, "hash", "http://server", 0, CommittedId(10))


@pytest.mark.parametrize(
    ("link", "state", "pending"),
    [
        (None, None, False),
        (None, stream(5, last_id=10), False),  # committed before the subscription
        (None, stream(5, last_id=11), True),
        (None, stream(0, last_id=0), False),  # created later, but empty
        (Link(0, 5, True), stream(5, last_id=99), False),
        (Link(0, 5, True), stream(6, last_id=99), True),
        (Link(0, 5, False), stream(6, last_id=1), True),  # a stored link counts, not the age
        (Link(0, 9, False), stream(5, read_seq=1, last_id=99), True),  # another incarnation has begun
        (Link(1, 5, False), stream(9, last_id=99), False),
        (Link(0, 0, True), None, False),
        (Link(0, 0, True), stream(5, last_id=99, deleted=True), False),
        (Link(0, 0, True), stream(5, last_id=99, soft_deleted=True), False),
        (None, stream(5, last_id=99, deleted=True), False),
        (None, stream(5, last_id=99, soft_deleted=True), False),
    ],
)
def test_a_stream_is_pending_when_it_holds_more_than_its_worker_acknowledged(link, state, pending):
    assert has_pending(SUBSCRIPTION, "e/1", link, state) is pending


def test_a_link_is_implied_only_where_the_pattern_matches():
    assert not has_pending(SUBSCRIPTION, "elsewhere", None, stream(5, last_id=99))
    assert has_pending(SUBSCRIPTION, "elsewhere", Link(0, 0, True), stream(5, last_id=99))
    without = replace(SUBSCRIPTION, config=replace(WEBHOOK, pattern=None))
    assert not has_pending(without, "e/1", None, stream(5, last_id=99))


def test_links_use_the_offsets_of_streams(ledger):
    ledger.create("a", b"data")
    ledger.put(WEBHOOK, "a")
    link = ledger.link("a")
    assert link is not None
    assert link.acked == Offset(0, 4) == ledger.states[stream_key("a")].next_offset


def test_a_subscription_without_an_owner_can_be_read(ledger):
    ledger.put(WEBHOOK, "a")
    stored = msgpack.decode(SUBSCRIPTIONS.encode(replace(ledger.subscription, owner="client ada")))
    assert stored[OWNER] == "client ada"
    assert SUBSCRIPTIONS.decode(msgpack.encode(stored[:OWNER])) == ledger.subscription


def test_a_subscription_that_was_stored_before_there_were_pauses_can_be_read(ledger):
    ledger.put(WEBHOOK, "a")
    stored = msgpack.decode(SUBSCRIPTIONS.encode(ledger.subscription))
    assert SUBSCRIPTIONS.decode(msgpack.encode(stored[: OWNER + 1])) == ledger.subscription
    assert (ledger.subscription.paused, ledger.subscription.last_error) == (False, None)


# Lag


@pytest.mark.parametrize(
    ("acked", "fields", "lag"),
    [
        (Offset(1, 40), {}, 60),
        (Offset(1, 100), {}, 0),
        (Offset(1, 40), {"earliest": 70}, 30),
        (Offset(0, 500), {}, 100),
        (Offset(0, 500), {"earliest": 70}, 30),
        (Offset(2, 0), {}, 0),
        (Offset(1, 40), {"deleted": True}, 0),
        (Offset(1, 40), {"soft_deleted": True}, 0),
    ],
    ids=["behind", "level", "trimmed", "recreated", "recreated-and-trimmed", "next", "deleted", "soft-deleted"],
)
def test_the_lag_is_what_follows_the_acknowledged_offset_and_is_kept(acked, fields, lag):
    assert count_lag(acked, StreamState(TopicId(1), 1, "text/plain", 100, 0, **fields)) == lag


def test_a_stream_that_does_not_exist_has_no_lag():
    assert count_lag(Offset(0, 0), None) == 0
