"""A real server on a real socket, in a thread of this process, so that a test can set its limits, clock and store."""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvloop

from mainstem.log.store import Store
from mainstem.server.app import Mainstem, wall_clock_us
from mainstem.server.edge.listeners import open_listener
from mainstem.server.endpoints.console import choose_console
from mainstem.server.run import Server
from mainstem.server.settings import Settings
from mainstem.testing.server import START_S_MAX, STOP_S_MAX, ServerNotReady


class ServerThread:
    """A server with its own event loop. It serves between `start` and `stop`, or within a `with` block.

    Its address is known before it starts; `Settings(port=0)` chooses a free port. It uses the limits of this process,
    so patch them before it starts. `app` is the server itself: do not touch what its event loop is using.
    """

    def __init__(
        self, settings: Settings, clock_us: Callable[[], int] = wall_clock_us, store: Store | None = None
    ) -> None:
        self.app = Mainstem(
            settings, store=store, clock_us=clock_us, guard_hosts=True, console=choose_console(settings)
        )
        self.data = settings.data
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._listener = open_listener(settings)
        self._server = _AnnouncedServer(self.app, self._listener)
        self._server.ready = self._ready
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self.url = "http://{}:{}".format(*self.address)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, and return once it is ready. Raises `ServerNotReady` if it does not start."""
        self._thread.start()
        if not self._ready.wait(START_S_MAX) or not self._server.started:
            self.stop()
            raise ServerNotReady(str(self._error or f"the server did not start within {START_S_MAX:g} s"))

    def stop(self) -> None:
        """Shut the server down cleanly. A second call has no effect."""
        self._server.stop_from_thread()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        self._listener.close()
        if self._thread.is_alive():
            raise TimeoutError(f"the server did not stop within {STOP_S_MAX:g} s")

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._server.serve())
        except Exception as error:
            if self._server.started:
                raise
            self._error = error
        finally:
            self._ready.set()


class _AnnouncedServer(Server):
    ready: threading.Event

    def announce(self) -> None:
        self.ready.set()
