"""Running the app with uvicorn: sockets, signals, the ready line, and an orderly end."""

import asyncio
import gc
import ipaddress
import socket
import sys

import uvicorn

from mainstem import limits
from mainstem.errors import MainstemError, SettingsError
from mainstem.server.app import Mainstem, describe_store
from mainstem.server.logs import configure_logs
from mainstem.server.protocol import BoundedHttpProtocol
from mainstem.server.settings import Settings
from mainstem.server.websocket_protocol import FramedWebSocketProtocol


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and lets live readers go before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: Mainstem) -> None:
        super().__init__(config)
        self.mainstem = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """A signal ends it too: a database may be waited for meanwhile."""
        starting = asyncio.ensure_future(self._start(sockets))
        while not (starting.done() or self.should_exit):
            await asyncio.wait([starting], timeout=limits.SIGNAL_CHECK_S)
        if not starting.done():
            self.lifespan.logger.disabled = True  # it would take the end of the waiting for a fault
            starting.cancel()
            return
        if failed := await starting:
            raise failed
        if self.started and sockets:
            settings = self.mainstem.settings
            host, port = sockets[0].getsockname()[:2]
            where = f"[{host}]" if ":" in host else host
            print(f"Mainstem is ready on http://{where}:{port} ({describe_store(settings)})", flush=True)

    async def _start(self, sockets: list[socket.socket] | None) -> SystemExit | None:
        """A task that raised what ends the process would stop the event loop before anybody could say why."""
        try:
            await super().startup(sockets)
        except SystemExit as failed:
            return failed
        return None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.mainstem.release_readers()
        await super().shutdown(sockets)


def bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted sockets inherit it: a reader that takes nothing for this long is dropped by the kernel.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.SEND_STALL_S_MAX * 1000))
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {settings.host} port {settings.port}: {error.strerror}") from None
    listener.listen(2048)
    return listener


def check_exposure(settings: Settings) -> None:
    """A public address without authentication is refused unless the operator insists; one with faults always is."""
    try:
        loopback = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        loopback = settings.host == "localhost"
    if settings.test_endpoints and not loopback:
        raise SettingsError(
            f"--test-endpoints lets anybody break requests, so it needs a loopback address, not {settings.host}"
        )
    if not (loopback or settings.authenticates or settings.insecure):
        raise SettingsError(
            f"{settings.host} is not a loopback address, and anybody who reaches it could read and write everything; "
            "ask for tokens with --jwt-secret-file or --jwks, or insist with --insecure"
        )


def choose_app(settings: Settings) -> tuple[Mainstem, type[BoundedHttpProtocol]]:
    """The app and its protocol: others that can go wrong on demand with --test-endpoints."""
    if not settings.test_endpoints:
        return Mainstem(settings), BoundedHttpProtocol
    from mainstem.server.test_endpoints import FaultyHttpProtocol, FaultyMainstem

    return FaultyMainstem(settings), FaultyHttpProtocol


def configure(app: Mainstem, protocol: type[BoundedHttpProtocol] = BoundedHttpProtocol) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol,
        ws=FramedWebSocketProtocol,
        ws_max_size=limits.SYNC_MESSAGE_BYTES_MAX,
        ws_per_message_deflate=False,  # the same frame goes to many
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a proxy's word counts only in URLs that we make, and is read there
        timeout_keep_alive=limits.KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(limits.SHUTDOWN_S_MAX),
    )


def run(settings: Settings) -> int:
    """Serve until a signal comes. Returns the exit code."""
    configure_logs(settings)
    try:
        check_exposure(settings)
        gc.set_threshold(limits.GC_ALLOCATIONS, 20, 50)
        app, protocol = choose_app(settings)
        with bind(settings) as listener:
            try:
                Server(configure(app, protocol), app).run(sockets=[listener])
            except SystemExit:
                if app.start_error is None:
                    raise
                raise app.start_error from None  # uvicorn ends the process itself when the app does not start
    except MainstemError as error:
        print(f"mainstem: {error.detail}", file=sys.stderr)
        return 2
    return 0
