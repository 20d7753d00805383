"""Servers within this process, on real sockets: limits, the clock and the validator can be set from a test."""

import threading
from collections.abc import Callable

from mainstem.log.store import Store
from mainstem.server.app import Mainstem, wall_clock_us
from mainstem.server.run import Server, bind, configure
from mainstem.server.settings import Settings


class ThreadedServer:
    """A server with an event loop of its own, in a thread."""

    def __init__(
        self, settings: Settings, clock_us: Callable[[], int] = wall_clock_us, store: Store | None = None
    ) -> None:
        self.app = Mainstem(settings, store=store, clock_us=clock_us)
        self._listener = bind(settings)
        self._ready = threading.Event()
        ready = self._ready

        class AnnouncedServer(Server):
            async def startup(self, sockets=None):
                await super().startup(sockets)
                ready.set()

        self._server = AnnouncedServer(configure(self.app), self.app)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self.address: tuple[str, int] = self._listener.getsockname()
        self.url = "http://{}:{}".format(*self.address)

    def __enter__(self) -> "ThreadedServer":
        self._thread.start()
        self._ready.wait()
        assert self._server.started
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


class LoopServer:
    """A server on the event loop of its caller, quick to start and to stop."""

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
