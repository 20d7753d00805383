"""Many subscriptions to the same streams: each is woken once for a burst, and none is forgotten."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.subscribers import Subscriber, append, create
from tests.support.waits import eventually
from tests.support.webhook_receivers import DONE

pytestmark = pytest.mark.slow

SUBSCRIPTIONS = 40


def test_each_of_many_subscriptions_with_one_pattern_gets_one_wake_per_burst(client, path, receive):
    receiver = receive()
    prefix = path.replace("/", "-")
    create(client, path + "/busy")
    subscribers = [
        Subscriber(client, f"{prefix}-{number}").listen(receiver.url, pattern=path + "/*", lease_ttl_ms=600_000)
        for number in range(SUBSCRIPTIONS)
    ]
    with ThreadPoolExecutor(4) as pool:
        tails = list(pool.map(lambda _: append(client, path + "/busy"), range(40)))
    calls = [receiver.next() for _ in subscribers]
    assert {call.wake["subscription_id"] for call in calls} == {subscriber.name for subscriber in subscribers}
    assert {subscriber.describe()["generation"] for subscriber in subscribers} == {1}
    assert receiver.calls.empty()
    receiver.answer = lambda call: DONE
    for call in calls:
        Subscriber(client, call.wake["subscription_id"]).finish(call.wake, "callback")
    for subscriber in subscribers:
        eventually(lambda subscriber=subscriber: subscriber.acked(path + "/busy") == max(tails))
        assert subscriber.describe()["generation"] <= 2


def test_each_subscription_is_woken_only_for_its_own_streams(client, path, receive):
    receiver = receive(lambda call: DONE)
    prefix = path.replace("/", "-")
    for number in range(SUBSCRIPTIONS):
        Subscriber(client, f"{prefix}-{number}").listen(receiver.url, pattern=f"{path}/{number}/**")
    for number in range(SUBSCRIPTIONS):
        create(client, f"{path}/{number}/a/b", b"data")
    calls = [receiver.next() for _ in range(SUBSCRIPTIONS)]
    for call in calls:
        number = call.wake["subscription_id"].rpartition("-")[2]
        assert list(call.streams) == [f"{path}/{number}/a/b"]
    assert len({call.wake["subscription_id"] for call in calls}) == SUBSCRIPTIONS
