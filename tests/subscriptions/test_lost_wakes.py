"""No wake is lost between looking for new data and deciding about it.

These tests put commands into one batch of the log in an order that would be a matter of luck over HTTP.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.log.live import Live
from mainstem.log.store import MemoryStore
from mainstem.streams.commands.append import Append
from mainstem.streams.commands.create import Create
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import stream_key
from mainstem.streams.subscriptions.core.model import Config, PutSubscription
from mainstem.streams.subscriptions.core.signing import read_token
from mainstem.streams.subscriptions.core.wakes import FencingToken, WakeResult
from mainstem.streams.subscriptions.dispatcher import Dispatcher
from mainstem.streams.subscriptions.webhook_client import WebhookClient
from mainstem.testing.clock import FakeClock
from tests.support.subscribers import Subscriber, WakeStream, append, create
from tests.support.waits import eventually_async

LOOKS_MAX = 500
TEXT = "text/plain"


@asynccontextmanager
async def subscribed(*names: str) -> AsyncIterator[tuple[CommitLog, Dispatcher]]:
    """Open a log in memory with pull-wake subscriptions to everything below `e`."""
    store = MemoryStore()
    await store.open()
    log = CommitLog(store, Live(), FakeClock())
    log.start()
    dispatcher = Dispatcher(log, WebhookClient(allow_local=False))
    await dispatcher.start()
    try:
        for name in names:
            await log.submit(Create(f"wakes/{name}", "application/json", NOTHING))
            config = Config("pull-wake", "e/*", wake_stream=f"wakes/{name}")
            await log.submit(PutSubscription(name, f"nonce-{name}", config, (), "http://server/v1/stream"))
        yield log, dispatcher
    finally:
        await dispatcher.stop()
        await log.stop()
        await store.close()


async def come_to_rest() -> None:
    """Let all tasks run that are ready; with a store in memory, nothing waits for anything else."""
    for _ in range(50):
        await asyncio.sleep(0)


def appending(path: str) -> Append:
    return Append(path, TEXT, Messages(b"data", 1))


async def is_woken(log: CommitLog, dispatcher: Dispatcher, name: str, generation: int) -> bool:
    return (await dispatcher.find(name)).generation >= generation


def fencing_token_of(dispatcher: Dispatcher, name: str, woken: WakeResult, token: str) -> FencingToken:
    claims = read_token(dispatcher.keys.ring, token, name)
    assert woken.state.wake_id is not None
    return FencingToken(claims.nonce, claims.generation, woken.state.generation, woken.state.wake_id)


async def finish(dispatcher: Dispatcher, name: str, woken: WakeResult, token: str) -> bool:
    acks = tuple((stream.path, Offset.parse(stream.tail_offset)) for stream in woken.streams)
    return await dispatcher.acknowledge(name, fencing_token_of(dispatcher, name, woken, token), acks, True)


async def test_an_append_while_its_empty_stream_is_checked_wakes():
    """The check finds nothing yet, but the append is committed before the wake that follows from it."""
    async with subscribed("ann") as (log, dispatcher):
        await log.submit(Create("e/1", TEXT, NOTHING))
        await log.submit(appending("e/1"))
        assert await eventually_async(lambda: is_woken(log, dispatcher, "ann", 1))


async def test_an_append_in_the_same_batch_after_the_last_acknowledgement_wakes():
    async with subscribed("ann", "bob") as (log, dispatcher):
        await log.submit(Create("e/1", TEXT, Messages(b"data", 1)))
        claims = {name: await dispatcher.claim(name, "worker") for name in ("ann", "bob")}
        await finish(dispatcher, "bob", *claims["bob"])  # from now on, this stream is pending for ann only
        await come_to_rest()
        await asyncio.gather(finish(dispatcher, "ann", *claims["ann"]), log.submit(appending("e/1")))
        tail = (await log.store.get(stream_key("e/1"))).next_offset
        assert tail == Offset(0, 8)
        for name in ("ann", "bob"):
            assert await eventually_async(lambda name=name: is_woken(log, dispatcher, name, 2)), name


async def test_an_append_in_the_same_batch_before_the_last_acknowledgement_wakes():
    async with subscribed("ann", "bob") as (log, dispatcher):
        await log.submit(Create("e/1", TEXT, Messages(b"data", 1)))
        claims = {name: await dispatcher.claim(name, "worker") for name in ("ann", "bob")}
        await finish(dispatcher, "bob", *claims["bob"])
        await come_to_rest()
        await asyncio.gather(log.submit(appending("e/1")), finish(dispatcher, "ann", *claims["ann"]))
        for name in ("ann", "bob"):
            assert await eventually_async(lambda name=name: is_woken(log, dispatcher, name, 2)), name


async def test_a_claim_right_after_an_acknowledgement_finds_what_is_left(monkeypatch):
    """Streams that were just acknowledged must not come before it and fill the check."""
    monkeypatch.setattr(limits, "WAKE_STREAMS_MAX", 2)
    async with subscribed("ann") as (log, dispatcher):
        for number in range(5):
            await log.submit(Create(f"e/{number}", TEXT, Messages(b"data", 1)))
        told: set[str] = set()
        more = True
        while more:
            woken, token = await dispatcher.claim("ann", "worker")
            told |= {stream.path for stream in woken.streams}
            more = await finish(dispatcher, "ann", woken, token)
        assert told == {f"e/{number}" for number in range(5)}


def test_a_stream_that_is_filled_right_after_its_creation_wakes_every_time(client, path):
    wakes = WakeStream(client, path + "/wakes")
    subscriber = Subscriber(client, path.replace("/", "-")).pull(wakes.path, pattern=path + "/e/*")
    for number in range(30):
        create(client, f"{path}/e/{number}")
        append(client, f"{path}/e/{number}")
        assert wakes.next()["stream"] == f"{path}/e/{number}"
        assert subscriber.finish(subscriber.claimed()) is False
