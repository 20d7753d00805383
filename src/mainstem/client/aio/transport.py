"""How the streams client for asyncio reaches its server: over HTTP, or in the same process (see `Mainstem.client`)."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

import httpx2

from mainstem.client import transports
from mainstem.client.core.protocol import Request, Response


class Reply(Protocol):
    """A reply whose body may still be arriving."""

    head: Response

    async def receive(self) -> bytes:
        """Return the next piece of the body, and b"" at its end."""
        ...

    async def close(self) -> None: ...


class Transport(Protocol):
    async def send(self, request: Request) -> Reply:
        """Send a request, and return once the head of the reply is there. Raises `NoResponse` if there is none."""
        ...

    async def close(self) -> None: ...


class HttpTransport:
    """Sends requests with httpx2."""

    def __init__(self, http: httpx2.AsyncClient, url: str, timeout_s: float, *, owns_http: bool) -> None:
        self._http = http
        self._url = url
        self._timeout_s = timeout_s
        self._owns_http = owns_http

    async def send(self, request: Request) -> "HttpReply":
        transports.check_open(self._http.is_closed)
        options = transports.request_options(self._url, request, self._timeout_s)
        if request.on_body_sent is not None:
            options["content"] = _stream_body(request.body, request.on_body_sent)
        try:
            return HttpReply(await self._http.send(self._http.build_request(**options), stream=True))
        except transports.HTTP_ERRORS as error:
            raise transports.translate_error(error) from error

    async def close(self) -> None:
        if self._owns_http:
            await self._http.aclose()


class HttpReply:
    def __init__(self, response: httpx2.Response) -> None:
        self.head = transports.read_head(response)
        self._response = response
        self._pieces = response.aiter_bytes() if "content-encoding" in response.headers else response.aiter_raw()

    async def receive(self) -> bytes:
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except transports.HTTP_ERRORS as error:
            raise transports.translate_error(error) from error
        return b""

    async def close(self) -> None:
        await self._response.aclose()


async def _stream_body(body: bytes, on_body_sent: Callable[[], None]) -> AsyncIterator[bytes]:
    yield body
    on_body_sent()
