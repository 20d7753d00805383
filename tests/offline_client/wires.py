"""A proxy between client and server that delays, cuts off or corrupts data, and the events at the server's end."""

import asyncio
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import httpx2

WINDOW_BYTES = 200, 6_000  # a fault happens after this number of bytes from the server
SLOW_BYTES = 97


class Wire:
    """A TCP proxy. `fault` is what happens to each new connection, once, at a random byte."""

    def __init__(self, target: tuple[str, int], seed: int = 0) -> None:
        self.target = target
        self.fault: str | None = None
        self.faults = 0
        self.connections = 0
        self.watch: Callable[[bytes], bool] | None = None
        """A function that gets the data from the server; if it returns True, the data and the connection are lost."""
        self._chance = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1/sync"
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        writers = [writer, far_writer]
        ways = [self._pass(reader, far_writer, writers, None), self._pass(far_reader, writer, writers, self.fault)]
        for way in ways:
            task = asyncio.create_task(way)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        both: list[asyncio.StreamWriter],
        fault: str | None,
    ) -> None:
        left = self._chance.randint(*WINDOW_BYTES) if fault in ("cut", "corrupt") else None
        down = writer is both[0]
        try:
            while data := await reader.read(65_536):
                if down and self.watch is not None and self.watch(data):
                    break
                if left is not None and len(data) > left:
                    self.faults += 1
                    if fault == "cut":
                        writer.write(data[:left])
                        await writer.drain()
                        break
                    data = data[:left] + b"\xff" + data[left + 1 :]
                    left = None
                elif left is not None:
                    left -= len(data)
                await self._write(writer, data, slowly=fault == "slow")
        except ConnectionError:
            pass  # the other side has closed
        finally:
            for end in both:
                end.transport.abort()

    async def _write(self, writer: asyncio.StreamWriter, data: bytes, *, slowly: bool) -> None:
        if not slowly:
            writer.write(data)
            await writer.drain()
            return
        self.faults += 1
        for start in range(0, len(data), SLOW_BYTES):
            writer.write(data[start : start + SLOW_BYTES])
            await writer.drain()
            await asyncio.sleep(0.0005)


async def read_truth(url: str, partition: str) -> list[dict[str, Any]]:
    """Return all events of a partition from the server over HTTP, without an offline client."""
    found: list[dict[str, Any]] = []
    offset = "-1"
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as http:
        while True:
            reply = await http.get(f"/v1/partition/{partition}", params={"offset": offset})
            reply.raise_for_status()
            found += reply.json()
            offset = reply.headers["stream-next-offset"]
            if "stream-up-to-date" in reply.headers:
                return found
