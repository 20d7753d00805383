"""Running the server: sockets, signals, the ready line, and an orderly shutdown."""

import asyncio
import gc
import logging
import shlex
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
from mainstem.server.endpoints.console import choose_console
from mainstem.server.logs import configure_logs
from mainstem.server.settings import Settings, find_unknown_variables
from mainstem.server.telemetry.export_failures import quiet_sdk

logger = logging.getLogger(__name__)


class Server:
    """A Mainstem on a listening socket, from start to stop."""

    def __init__(self, app: Mainstem, listener: socket.socket) -> None:
        self.app = app
        self.listener = listener
        self.tls = load_tls(app.settings)
        self.started = False
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Stop the server, even while it is starting and waits for a database. Call this on the event loop."""
        self._stopping.set()
        if not self.started and self._task is not None:
            self._task.cancel()

    def stop_from_thread(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stop)

    async def serve(self) -> None:
        """Open the log, serve until `stop` is called, finish open requests, and close the log."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        edge = EdgeServer(
            self.app,
            self.app.plan_fast_path,
            runs_eagerly=self.app.reads_from_memory,
            shares=self.app.shares,
            message_bytes_max=limits.SYNC_MESSAGE_BYTES_MAX,
            observer=self.app.observer,
            tracer=self.app.tracing,
            marks_requests=self.app.marks_requests,
        )
        edge.measure(self.app.metrics)
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
        """Called once the server accepts connections."""


class ConsoleServer(Server):
    """The server of the command line: it prints a line when it is ready, and stops on SIGINT or SIGTERM."""

    def announce(self) -> None:
        url = describe_listener(self.listener, secure=self.tls is not None)
        settings = self.app.settings
        print(f"Mainstem is ready on {url} ({describe_store(settings)})", flush=True)
        if settings.log_format == "text":  # in JSON, every line of standard error is one object
            print(suggest_requests(url, settings), file=sys.stderr, flush=True)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        await super().serve()


def suggest_requests(url: str, settings: Settings) -> str:
    """Return what to try first: commands that create a stream and read it."""
    options = ' -H "Authorization: Bearer $TOKEN"' if settings.authenticates else ""
    if url.startswith("unix:"):
        options += f" --unix-socket {shlex.quote(url.removeprefix('unix:'))}"
        url = "http://localhost"
    stream = f"{url}{settings.stream_prefix}/hello"
    return (
        "Try it from another terminal:\n"
        f"  curl -i{options} -X PUT {stream} -H 'Content-Type: application/json' -d '[{{\"text\": \"hello\"}}]'\n"
        f"  curl{options} {stream}\n"
        "Press Ctrl-C to stop the server."
    )


def check_exposure(settings: Settings, address: str | None = None) -> None:
    """Refuse a public address without authentication, unless `insecure` is set, and always with fault injection."""
    if settings.unix_socket is not None:
        return  # the mode of its file decides who may connect
    host = address or settings.host
    if settings.test_endpoints and not is_loopback(host):
        raise SettingsError(
            f"--test-endpoints lets anybody break requests, so it works on a loopback address only, and not on {host}"
        )
    if not (is_loopback(host) or settings.authenticates or settings.insecure):
        raise SettingsError(
            f"{host or 'an empty host'} is not a loopback address, so anybody who can reach it could read and write "
            "everything; require tokens with --jwt-secret-file or --jwks, or allow it with --insecure"
        )


def make_app(settings: Settings, address: str | None = None) -> Mainstem:
    """Return the app; with --test-endpoints, one that injects faults. `address` is that of an inherited socket."""
    console = choose_console(settings, address)
    if not settings.test_endpoints:
        return Mainstem(settings, guard_hosts=True, console=console)
    from mainstem.server.endpoints.fault_injection import FaultInjectingMainstem

    return FaultInjectingMainstem(settings, guard_hosts=True, console=console)


def run(settings: Settings) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit code."""
    configure_logs(settings)
    quiet_sdk()
    for warning in find_unknown_variables():
        logger.warning("%s", warning)
    try:
        if settings.fd is None:
            check_exposure(settings)
        with open_listener(settings) as listener:
            address = None
            if settings.fd is not None and listener.family != socket.AF_UNIX:
                address = listener.getsockname()[0]
                check_exposure(settings, address)
            gc.set_threshold(limits.GC_ALLOCATIONS, 20, 50)
            sys.setswitchinterval(limits.THREAD_SWITCH_S)
            server = ConsoleServer(make_app(settings, address), listener)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(server.serve())
    except MainstemError as error:
        print(f"mainstem: {error.detail}{f'. {error.hint}' if error.hint else ''}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        pass  # a signal before the event loop could handle it
    if settings.log_format == "text":
        print("mainstem: stopped", file=sys.stderr)
    else:
        logger.info("stopped")
    return 0
