"""A server on the event loop of its caller."""

from mainstem.server.app import Mainstem
from mainstem.server.run import Server, bind, configure
from mainstem.server.settings import Settings


class LoopServer:
    """Quick to start and to stop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address: tuple[str, int] = ("", 0)

    async def start(self) -> None:
        self.app = Mainstem(self.settings)
        self._listener = bind(self.settings)
        config = configure(self.app)
        config.load()
        self._server = Server(config, self.app)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup([self._listener])
        assert self._server.started
        self.address = self._listener.getsockname()

    async def stop(self) -> None:
        await self._server.shutdown([self._listener])

    async def restart(self) -> None:
        """Serve the same data again. Whoever is connected is sent away."""
        await self.stop()
        await self.start()
