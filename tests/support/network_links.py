"""The network between a browser and a server, which a test can cut and restore."""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from mainstem.testing.torture.proxy import Proxy


class NetworkLink:
    """A TCP proxy on a thread of its own. Connect through `url`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._proxy = Proxy()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.restore()
        asyncio.run_coroutine_threadsafe(self._proxy.open(), self._loop).result()
        host, port = self._proxy.address
        self.url = f"http://{host}:{port}"
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._proxy.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Cut all connections, and refuse new ones."""
        self._proxy.target = None
        self._call(self._cut_all)

    def stall(self) -> None:
        """Keep the connections, and pass nothing on."""
        self._call(self._hold_all)

    def restore(self) -> None:
        self._proxy.target = self._target

    def _hold_all(self) -> None:
        for client in list(self._proxy.clients):
            client.hold()

    def _cut_all(self) -> None:
        for client in list(self._proxy.clients):
            client.cut()

    def _call(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            work()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()
