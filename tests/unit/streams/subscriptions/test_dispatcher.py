"""The figures of the dispatcher, on a log in memory and with real receivers."""

from contextlib import asynccontextmanager

import pytest

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.subscriptions.core.controls import Pause, Resume
from mainstem.streams.subscriptions.core.model import Config, DeleteSubscription, PutSubscription
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.streams.subscriptions.webhook_client import Outcome, WebhookClient
from mainstem.testing.clock import FakeClock
from tests.support.waits import eventually_async
from tests.support.webhook_receivers import DONE, FAILED, TAKEN

PULL_WAKE = Config("pull-wake", pattern="e/*", wake_stream="wakes")


pytestmark = pytest.mark.usefixtures("hasty")


@asynccontextmanager
async def open_dispatcher(clock):
    log = CommitLog(MemoryStore(), Live(), clock)
    await log.store.open()
    log.start()
    dispatcher = Dispatcher(log, WebhookClient(allow_local=True))
    await dispatcher.start()
    try:
        yield dispatcher
    finally:
        await dispatcher.stop()
        await log.stop()
        await log.store.close()


async def subscribe(dispatcher, name, config):
    await dispatcher.log.submit(PutSubscription(name, name, config, (), "http://server"))


async def create(dispatcher, path, data):
    await dispatcher.log.submit(Create(path, "text/plain", Messages(data, 1)))


async def append(dispatcher, path, data):
    await dispatcher.log.submit(Append(path, "text/plain", Messages(data, 1)))


async def test_subscriptions_and_wakes_are_counted(receive):
    async with open_dispatcher(FakeClock()) as dispatcher:
        receiver = receive(lambda call: DONE)
        assert dispatcher.statuses.total() == 0
        await subscribe(dispatcher, "pull", PULL_WAKE)
        await subscribe(dispatcher, "hook", Config("webhook", pattern="e/*", webhook_url=receiver.url))
        assert dispatcher.statuses == {"active": 2}
        await dispatcher.log.submit(Pause("pull", "pull"))
        assert dispatcher.statuses == {"active": 1, "paused": 1}
        await dispatcher.log.submit(Resume("pull", "pull"))
        await create(dispatcher, "e/1", b"data")
        await eventually_async(lambda: dispatcher.wakes == {"pull-wake": 1, "webhook": 1})
        await eventually_async(lambda: dispatcher.webhooks.outcomes == {Outcome.DONE: 1})
        await eventually_async(lambda: dispatcher.count_behind() == 1)  # the worker of the pull-wake
        await dispatcher.log.submit(DeleteSubscription("pull", "pull"))
        assert (dispatcher.statuses.total(), dispatcher.count_behind()) == (1, 0)


async def test_webhook_calls_are_counted_by_their_outcome(receive):
    clock = FakeClock()
    async with open_dispatcher(clock) as dispatcher:
        receiver = receive(lambda call: FAILED)
        await subscribe(dispatcher, "hook", Config("webhook", pattern="e/*", webhook_url=receiver.url))
        await create(dispatcher, "e/1", b"data")
        outcomes = dispatcher.webhooks.outcomes
        await eventually_async(lambda: outcomes == {Outcome.STATUS: 1})
        await eventually_async(lambda: is_failed(dispatcher))
        receiver.answer = lambda call: TAKEN
        clock.advance(2)
        await eventually_async(lambda: outcomes == {Outcome.STATUS: 1, Outcome.ACCEPTED: 1})


async def is_failed(dispatcher):
    return (await dispatcher.find("hook")).status == "failed"


async def test_the_oldest_wake_without_an_acknowledgement_is_known():
    clock = FakeClock()
    async with open_dispatcher(clock) as dispatcher:
        began_us = clock()
        assert dispatcher.oldest_unacknowledged_us() is None
        await subscribe(dispatcher, "pull", PULL_WAKE)
        await create(dispatcher, "e/1", b"data")
        await eventually_async(lambda: dispatcher.oldest_unacknowledged_us() == began_us)


async def test_the_lag_is_measured_once_in_a_while():
    clock = FakeClock()
    async with open_dispatcher(clock) as dispatcher:
        assert (await dispatcher.measure_lag())[:3] == (0, 0, True)
        clock.advance(limits.LAG_MEASURE_S)
        await create(dispatcher, "e/old", b"history")
        await subscribe(dispatcher, "one", PULL_WAKE)
        await subscribe(dispatcher, "two", PULL_WAKE)
        await create(dispatcher, "e/1", b"data")
        await append(dispatcher, "e/old", b"12")
        await eventually_async(lambda: dispatcher.wakes["pull-wake"] == 2)
        assert (await dispatcher.measure_lag())[:3] == (4, 12, True)
        await append(dispatcher, "e/1", b"345")
        clock.advance(limits.LAG_MEASURE_S - 1)
        assert (await dispatcher.measure_lag()).bytes == 12
        clock.advance(1)
        assert (await dispatcher.measure_lag()).bytes == 18


async def test_the_lag_of_more_streams_than_the_limit_is_a_lower_bound(monkeypatch):
    async with open_dispatcher(FakeClock()) as dispatcher:
        monkeypatch.setattr(limits, "LAG_STREAMS_MAX", 2)
        await subscribe(dispatcher, "pull", PULL_WAKE)
        for number in range(3):
            await create(dispatcher, f"e/{number}", b"data")
        await eventually_async(lambda: dispatcher.wakes["pull-wake"] == 1)
        await dispatcher.claim("pull", "ann")
        assert (await dispatcher.measure_lag())[:3] == (3, 8, False)
