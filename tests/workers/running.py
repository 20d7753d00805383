"""Runs workers inside tests, and records what they do."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any

from mainstem.client import AsyncStreams, NotFound
from mainstem.client.core.retries import Retries
from mainstem.client.workers import Worker, WorkerBatch, worker
from tests.support.http_gates import HttpGate
from tests.support.waits import eventually_async

HASTE = Retries(attempts_max=None, delay_s=0.01, delay_s_max=0.05)
JSON = "application/json"


class Record:
    """A function for workers that records its calls; `act` is what it does besides."""

    def __init__(self, act: Callable[[WorkerBatch], Any] | None = None) -> None:
        self.act = act
        self.started: list[WorkerBatch] = []
        self.batches: list[WorkerBatch] = []
        self.active: set[str] = set()
        self.most_active = 0

    async def __call__(self, batch: WorkerBatch) -> None:
        assert batch.stream not in self.active, "two calls for one stream at the same time"
        self.started.append(batch)
        self.active.add(batch.stream)
        self.most_active = max(self.most_active, len(self.active))
        try:
            if self.act is not None:
                await self.act(batch)
        finally:
            self.active.remove(batch.stream)
        self.batches.append(batch)

    @property
    def messages(self) -> list[Any]:
        return [message for batch in self.batches for message in batch.messages]

    def make_worker(self, pattern: str, **options: Any) -> Worker:
        async def handle(batch: WorkerBatch) -> None:
            await self(batch)

        return worker(pattern, **{"subscription": "billing", "backoff": HASTE, **options})(handle)


@asynccontextmanager
async def running(made: Worker, streams: AsyncStreams) -> AsyncIterator["asyncio.Task[None]"]:
    """Run a worker; it has subscribed when the block begins, and it stops with the block."""
    task = asyncio.create_task(made.run(streams))
    try:
        await eventually_async(lambda: is_subscribed(streams, made.subscription, task), "the worker subscribes")
        yield task
        if not task.done():
            made.stop()
            await asyncio.wait_for(task, 30)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def is_subscribed(streams: AsyncStreams, subscription: str, task: "asyncio.Task[None]") -> bool:
    if task.done():
        task.result()
    return (await describe(streams, subscription)) is not None


async def describe(streams: AsyncStreams, subscription: str = "billing") -> dict[str, Any] | None:
    try:
        reply = await streams.request("GET", f"/v1/stream/__ds/subscriptions/{subscription}")
    except NotFound:
        return None
    described: dict[str, Any] = reply.json()
    return described


async def is_processed(streams: AsyncStreams, *paths: str, subscription: str = "billing") -> bool:
    """Return whether the subscription has acknowledged these streams up to their ends."""
    described = await describe(streams, subscription)
    assert described is not None
    acked = {link["path"]: link["acked_offset"] for link in described["streams"]}
    return all([acked.get(path) == (await streams.head(path)).next_offset for path in paths])


@contextmanager
def counting(server: str, end: str) -> Iterator[tuple[str, list[float]]]:
    """Yield a URL that leads to a server, and the times of the requests whose path ends like this."""
    times_s: list[float] = []

    def holds(method: str, path: str) -> bool:
        if path.partition("?")[0].endswith(end):
            times_s.append(time.monotonic())
        return False

    with closing(HttpGate(server, holds)) as gate:
        yield gate.url, times_s
