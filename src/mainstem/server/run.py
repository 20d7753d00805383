"""Running the server: sockets, signals, the ready line, and an orderly end."""

import asyncio
import gc
import logging
import signal
import socket
import sys

import uvloop

from mainstem import limits
from mainstem.errors import MainstemError, SettingsError
from mainstem.server.addresses import is_loopback
from mainstem.server.app import Mainstem, describe_store
from mainstem.server.edge.listeners import describe_listener, load_tls, open_listener
from mainstem.server.edge.server import EdgeServer
from mainstem.server.logs import configure_logs
from mainstem.server.settings import Settings

logger = logging.getLogger(__name__)


class Server:
    """A Mainstem on a listening socket, from its start to its end."""

    def __init__(self, app: Mainstem, listener: socket.socket) -> None:
        self.app = app
        self.listener = listener
        self.tls = load_tls(app.settings)
        self.started = False
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """End it, also while it starts: a database may be waited for then. Call it on the event loop."""
        self._stopping.set()
        if not self.started and self._task is not None:
            self._task.cancel()

    def stop_from_thread(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stop)

    async def serve(self) -> None:
        """Open the log, serve until `stop`, answer what was asked, and close the log."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        edge = EdgeServer(
            self.app, self.app.try_fast_append, shares=self.app.shares, message_bytes_max=limits.SYNC_MESSAGE_BYTES_MAX
        )
        try:
            async with self.app.lifespan():
                await edge.start(self.listener, self.tls)
                self.started = True
                self.announce()
                await self._stopping.wait()
                self.app.release_readers()
                await edge.stop()
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise

    def announce(self) -> None:
        """Called when it serves."""


class ConsoleServer(Server):
    """The server of the command line: it says when it is ready, and signals end it."""

    def announce(self) -> None:
        where = describe_listener(self.listener, secure=self.tls is not None)
        print(f"Mainstem is ready on {where} ({describe_store(self.app.settings)})", flush=True)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        await super().serve()


def check_exposure(settings: Settings, address: str | None = None) -> None:
    """Refuse a public address without authentication, unless the operator insists, and always with fault injection."""
    if settings.unix_socket is not None:
        return  # its file decides who may connect
    host = address or settings.host
    if settings.test_endpoints and not is_loopback(host):
        raise SettingsError(f"--test-endpoints lets anybody break requests, so it needs a loopback address, not {host}")
    if not (is_loopback(host) or settings.authenticates or settings.insecure):
        raise SettingsError(
            f"{host} is not a loopback address, and anybody who reaches it could read and write everything; "
            "ask for tokens with --jwt-secret-file or --jwks, or insist with --insecure"
        )


def make_app(settings: Settings) -> Mainstem:
    """The app; with --test-endpoints, the one into which faults can be injected."""
    if not settings.test_endpoints:
        return Mainstem(settings, guard_hosts=True)
    from mainstem.server.endpoints.fault_injection import FaultInjectingMainstem

    return FaultInjectingMainstem(settings, guard_hosts=True)


def run(settings: Settings) -> int:
    """Serve until a signal comes. Returns the exit code."""
    configure_logs(settings)
    try:
        if settings.fd is None:
            check_exposure(settings)
        with open_listener(settings) as listener:
            if settings.fd is not None and listener.family != socket.AF_UNIX:
                check_exposure(settings, listener.getsockname()[0])
            gc.set_threshold(limits.GC_ALLOCATIONS, 20, 50)
            server = ConsoleServer(make_app(settings), listener)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(server.serve())
    except MainstemError as error:
        print(f"mainstem: {error.detail}", file=sys.stderr)
        return 2
    return 0
