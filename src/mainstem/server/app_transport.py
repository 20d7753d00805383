"""The transport of `Mainstem.client`: requests of the embedding program to the app itself, without a socket.

An append calls the handler of streams directly. Everything else is an ASGI request, whose body arrives in pieces.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from mainstem import limits
from mainstem.access import EVERYBODY
from mainstem.client.core.effects import NoResponse
from mainstem.client.core.errors import BadArgument
from mainstem.client.core.protocol import Request, Response
from mainstem.errors import MainstemError
from mainstem.http.asgi import HeaderList, Headers, Message, Scope
from mainstem.http.responses import problem_response
from mainstem.streams.rules.paths import parse_path

if TYPE_CHECKING:
    from mainstem.server.app import Mainstem

logger = logging.getLogger(__name__)

HOST: Final = "embedded"
SERVER: Final = (HOST, 80)


class AppTransport:
    url: Final = f"http://{HOST}"

    def __init__(self, app: "Mainstem") -> None:
        self._app = app

    async def send(self, request: Request) -> "AppReply":
        if self._app.endpoints is None:
            raise BadArgument("the log is not open: run the lifespan of the Mainstem app, and use the client inside it")
        target, headers = request.target.encode(), encode_headers(request)
        mount = self._app.mount
        if request.on_body_sent is not None:
            request.on_body_sent()  # nothing can be lost on the way
        if (
            request.method == "POST"
            and target.startswith(mount.root)
            and not target.startswith(mount.control)
            and b"?" not in target
            and len(request.body) <= self._app.settings.max_body_bytes
        ):
            return await self._append(target, headers, request.body)
        reply = AppReply()
        await reply.open(self._app, make_scope(request.method, target, headers), request.body)
        return reply

    async def _append(self, target: bytes, headers: Headers, body: bytes) -> "AppReply":
        assert self._app.endpoints is not None
        try:
            path = parse_path(target[len(self._app.mount.root) :])
            status, reply = await self._app.endpoints.streams.append(path, headers, body)
            return AppReply(make_head(status, reply))
        except MainstemError as error:
            status, reply, content = problem_response(error)
            return AppReply(make_head(status, reply), content)

    async def close(self) -> None:
        """Do nothing: the app belongs to its lifespan."""


class AppReply:
    """The reply to a request, whose body a task sends while the caller receives it."""

    def __init__(self, head: Response | None = None, body: bytes = b"") -> None:
        self._task: asyncio.Task[None] | None = None
        self._disconnected = asyncio.Event()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue(limits.APP_REPLY_PIECES_MAX)
        self._ended = False
        self._broken = False
        if head is not None:
            self.head = head
            if body:
                self._pieces.put_nowait(body)
            self._ended = True

    async def open(self, app: "Mainstem", scope: Scope, body: bytes) -> None:
        """Begin the request, and return once the head of the reply is there."""
        started: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        requests = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Message:
            message = next(requests, None)
            if message is None:
                await self._disconnected.wait()
                return {"type": "http.disconnect"}
            return message

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.set_result(make_head(message["status"], message["headers"]))
            elif not self._ended:
                if piece := bytes(message.get("body", b"")):
                    await self._pieces.put(piece)
                if not message.get("more_body", False):
                    self._ended = True
                    await self._pieces.put(b"")

        async def serve() -> None:
            try:
                await app.serve_admitted(scope["path"].encode(), scope, receive, send)
            except Exception:
                logger.exception("a request of the embedding program failed")
                self._broken = True
                if not started.done():
                    started.set_exception(NoResponse("the app failed", sent=True, is_final=True))
            finally:
                self._ended = True
                if self._pieces.empty():
                    self._pieces.put_nowait(b"")

        self._task = asyncio.create_task(serve(), name="mainstem-embedded-request")
        try:
            self.head = await started
        except BaseException:
            await self.close()
            raise

    async def receive(self) -> bytes:
        piece = b"" if self._ended and self._pieces.empty() else await self._pieces.get()
        if not piece and self._broken:
            raise NoResponse("the reply broke off", sent=True)
        return piece

    async def close(self) -> None:
        self._disconnected.set()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def encode_headers(request: Request) -> Headers:
    headers = {name.lower().encode(): value.encode() for name, value in request.headers.items()}
    if request.body:
        headers[b"content-length"] = b"%d" % len(request.body)
    return headers


def make_scope(method: str, target: bytes, headers: Headers) -> dict[str, Any]:
    path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "method": method,
        "scheme": "http",
        "server": SERVER,
        "client": None,
        "root_path": "",
        "path": path.decode(),
        "raw_path": path,
        "query_string": query,
        "headers": [(b"host", HOST.encode()), *headers.items()],
        "mainstem.identity": EVERYBODY,
    }


def make_head(status: int, headers: HeaderList) -> Response:
    return Response(status, {name.decode(): value.decode("latin-1") for name, value in headers})
