"""Live traffic over both protocols, in its own thread: producers append to streams, sync clients submit events."""

import asyncio
import math
import random
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mainstem.client import AsyncIdempotentProducer, AsyncStreams
from mainstem.client.offline import MemoryClientStore, OfflineClient

TICK_S = 0.05
SETTLE_S_MAX = 30.0

# The share of the traffic that each one gets.
STREAMS = {"orders/eu": 8, "orders/us": 5, "orders/asia": 3, "clicks/web": 12, "clicks/app": 7, "sensors/hall": 4}
PARTITIONS = {"board-red": 6, "board-blue": 3, "board-green": 2, "chat": 4}
CLIENTS = ("laptop", "phone")


@dataclass
class Sent:
    messages: int = 0
    events: int = 0


class Traffic:
    """Use it as `with Traffic(url, seconds) as traffic`. `wait` returns once everything is committed."""

    def __init__(self, url: str, seconds: float, seed: int = 1) -> None:
        self.sent = Sent()
        self._url = url
        self._seconds = seconds
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, type_: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        if type_ is None:
            self._thread.join(SETTLE_S_MAX)  # after Ctrl-C the server has stopped too: do not wait for it

    @property
    def flowing(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> Sent:
        self._thread.join(self._seconds + SETTLE_S_MAX)
        if self._error is not None:
            raise self._error
        if self._thread.is_alive():
            raise TimeoutError(f"the traffic has not ended within {self._seconds + SETTLE_S_MAX:g} s")
        return self.sent

    def _run(self) -> None:
        try:
            asyncio.run(self._flow())
        except Exception as error:  # noqa: BLE001 - `wait` raises it again
            self._error = error

    async def _flow(self) -> None:
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(AsyncStreams(self._url))
            producers = []
            for path in STREAMS:
                await streams.create(path, "application/json")
                producers.append(await stack.enter_async_context(AsyncIdempotentProducer(streams, path)))
            clients = [
                await stack.enter_async_context(OfflineClient(self._url, client_id=name, store=MemoryClientStore()))
                for name in CLIENTS
            ]
            await self._make(producers, clients)
            for producer in producers:
                await producer.flush()
            async with asyncio.timeout(SETTLE_S_MAX):
                for client in clients:
                    await client.synced()

    async def _make(self, producers: Sequence[AsyncIdempotentProducer], clients: Sequence[OfflineClient]) -> None:
        begun_s = time.monotonic()
        while (passed_s := time.monotonic() - begun_s) < self._seconds and not self._stop.is_set():
            # Two overlapping waves give the chart a shape.
            strength = 1.2 + math.sin(passed_s / 2.5) * 0.6 + math.sin(passed_s * 1.7) * 0.3
            for producer, (path, share) in zip(producers, STREAMS.items(), strict=True):
                for _ in range(self._draw(share * strength / 3)):
                    await producer.append(self._message(path))
                    self.sent.messages += 1
            for partition, share in PARTITIONS.items():
                for _ in range(self._draw(share * strength / 6)):
                    client = self._chance.choice(clients)
                    await client.submit([partition], self._event())
                    self.sent.events += 1
            await asyncio.sleep(TICK_S)

    def _draw(self, mean: float) -> int:
        return int(mean + self._chance.random())

    def _message(self, path: str) -> dict[str, object]:
        kind = path.partition("/")[0].removesuffix("s")
        return {"type": kind, "amount": self._chance.randint(1, 500), "shelf": f"s-{self._chance.randint(1, 40)}"}

    def _event(self) -> dict[str, object]:
        column = self._chance.choice(["todo", "doing", "done"])
        return {"type": "card.moved", "key": f"card-{self._chance.randint(1, 25)}", "column": column}
