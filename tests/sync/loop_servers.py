"""A server on the event loop of the caller."""

import asyncio

from mainstem.server.app import Mainstem
from mainstem.server.edge.listeners import open_listener
from mainstem.server.run import Server
from mainstem.server.settings import Settings


class LoopServer:
    """A server that starts and stops quickly."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address: tuple[str, int] = ("", 0)

    async def start(self) -> None:
        self.app = Mainstem(self.settings)
        self._listener = open_listener(self.settings)
        self._server = AnnouncedServer(self.app, self._listener)
        self._serving = asyncio.create_task(self._server.serve())
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait([ready, self._serving], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._serving
        self.address = self._listener.getsockname()

    async def stop(self) -> None:
        self._server.stop()
        await self._serving
        self._listener.close()

    async def restart(self) -> None:
        """Serve the same data again, after closing all connections."""
        await self.stop()
        await self.start()


class AnnouncedServer(Server):
    def __init__(self, app, listener):
        super().__init__(app, listener)
        self.ready = asyncio.Event()

    def announce(self) -> None:
        self.ready.set()
