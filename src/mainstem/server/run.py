"""Running the app with uvicorn: sockets, signals, the ready line, and an orderly end."""

import asyncio
import ipaddress
import socket
import sys

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mainstem import limits
from mainstem.errors import BadRequest, HeadTooLarge, MainstemError, RequestTimeout, SettingsError, problem
from mainstem.server.app import Mainstem
from mainstem.server.logs import configure_logs
from mainstem.server.settings import Settings


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP with bounds on a request's head and on its time, and with errors as problem documents."""

    _in_head = True
    _incomplete = True
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(limits.REQUEST_WAIT_S_MAX, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._incomplete:  # most requests come in one piece, and need no timer
            if self._timer is None:
                self._timer = self.loop.call_later(limits.REQUEST_WAIT_S_MAX, self._give_up)
            if self._in_head:
                self._head_bytes += len(data)
                if self._head_bytes > limits.REQUEST_HEAD_BYTES_MAX:
                    self._refuse(HeadTooLarge(f"more than {limits.REQUEST_HEAD_BYTES_MAX} bytes"))

    def on_message_begin(self) -> None:
        self._in_head = self._incomplete = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._incomplete = False
        if self._timer is not None:
            self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest("this is not a valid HTTP request"))

    def _refuse(self, error: MainstemError) -> None:
        if self.transport.is_closing():
            return
        body = msgspec.json.encode(problem(error))
        self.transport.write(
            b"HTTP/1.1 %d %b\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (error.status, error.title.encode(), len(body), body)
        )
        self.transport.close()

    def _give_up(self) -> None:
        self._timer = None
        self._refuse(RequestTimeout(f"the request was not complete after {limits.REQUEST_WAIT_S_MAX:g} s"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and lets live readers go before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: Mainstem) -> None:
        super().__init__(config)
        self.mainstem = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            settings = self.mainstem.settings
            host, port = sockets[0].getsockname()[:2]
            where = f"[{host}]" if ":" in host else host
            kept = f"sqlite in {settings.data}" if settings.store == "sqlite" else "memory only: nothing is kept"
            print(f"Mainstem is ready on http://{where}:{port} ({kept})", flush=True)

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
    """A public address without authentication is refused unless the operator insists."""
    try:
        loopback = ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        loopback = settings.host == "localhost"
    if not loopback and not settings.insecure:
        raise SettingsError(
            f"{settings.host} is not a loopback address, and anybody who reaches it could read and write everything; "
            "put an authenticating proxy in front, or insist with --insecure"
        )


def run(settings: Settings) -> int:
    """Serve until a signal comes. Returns the exit code."""
    configure_logs(settings)
    try:
        check_exposure(settings)
        app = Mainstem(settings)
        with bind(settings) as listener:
            config = uvicorn.Config(
                app,
                loop="uvloop",
                http=BoundedHttpProtocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # a proxy's word counts only in Location, and is read there
                timeout_keep_alive=limits.KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(limits.SHUTDOWN_S_MAX),
            )
            server = Server(config, app)
            server.run(sockets=[listener])
            return 0 if server.started else 2
    except MainstemError as error:
        print(f"mainstem: {error.detail}", file=sys.stderr)
        return 2
