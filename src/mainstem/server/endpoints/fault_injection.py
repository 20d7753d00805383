"""Fault injection for tests of clients: `mainstem serve --test-endpoints`, on a loopback address only.

`POST /_test/inject-error` injects a fault into the next requests to a path; `DELETE` removes all pending faults. The
fields have the names that the public client suite uses. Without the flag none of this code runs: only with it does
`FaultInjectingMainstem` replace the ordinary app.
"""

import asyncio
import random
from collections.abc import Callable, MutableMapping
from typing import Annotated, Any

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import BadRequest, MainstemError, MethodNotAllowed
from mainstem.http.asgi import HeaderList, Receive, Scope, Send
from mainstem.http.requests import collect_headers, read_body
from mainstem.http.responses import respond, respond_problem
from mainstem.json_errors import explain_json_error
from mainstem.server.app import Mainstem
from mainstem.server.edge.heads import RequestHead

PATH = "/_test/inject-error"

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=limits.LONG_POLL_MS_MAX)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]


class SseEvent(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    event_type: str
    data: str


class Fault(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A fault to inject. It may combine several kinds of failure."""

    path: str
    """The path of a stream, with or without the prefix, or any other path of the server."""
    method: str | None = None
    count: Count = 1
    probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    retry_after: int | str | None = None
    delay_ms: Milliseconds = 0
    jitter_ms: Milliseconds = 0
    drop_connection: bool = False
    """Drop the connection before the request is processed."""
    drop_reply: bool = False
    """Drop the connection after the request was carried out, so that the client does not learn the outcome."""
    drop_after_bytes: Bytes | None = None
    """Drop the connection after this much of the reply's body."""
    truncate_body_bytes: Bytes | None = None
    """Shorten the body to this size, in a reply that looks complete."""
    corrupt_body: bool = False
    inject_sse_event: SseEvent | None = None

    def matches(self, scope: Scope, prefix: str) -> bool:
        stream = f"{prefix}/{self.path}"
        return scope["path"] in (self.path, stream) and self.method in (None, scope["method"])


class FaultInjectingMainstem(Mainstem):
    """The app, with the faults that tests inject."""

    faults: list[Fault]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.faults = []

    def plan_fast_path(self, head: RequestHead) -> None:
        """Return None, so that every request goes through ASGI, where faults are injected."""
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "OPTIONS":
            await super().__call__(scope, receive, send)
        elif scope["path"] == PATH:
            await self._serve_control(scope, receive, send)
        else:
            fault = self._take_fault(scope)
            if fault is None:
                await super().__call__(scope, receive, send)
            else:
                await self._apply(fault, scope, receive, send)

    async def _serve_control(self, scope: Scope, receive: Receive, send: Send) -> None:
        send = self.follow_policy(scope, PATH.encode(), send)
        try:
            self._check_origin(scope, PATH.encode())
            if self.gate is not None:
                await self.gate.admit(scope, PATH.encode())
                identity: Identity = scope["mainstem.identity"]
                identity.require_admin()
            if scope["method"] == "POST":
                headers = collect_headers(scope["headers"])
                body = await read_body(headers, receive, limits.CONTROL_BODY_BYTES_MAX)
                self._add_fault(body)
            elif scope["method"] == "DELETE":
                self.faults.clear()
            else:
                raise MethodNotAllowed(
                    "POST injects a fault, DELETE removes all of them", headers={"Allow": "POST, DELETE"}
                )
            await respond(send, 204, [])
        except MainstemError as error:
            await respond_problem(scope, send, error)

    def _add_fault(self, body: bytes) -> None:
        if len(self.faults) >= limits.INJECTED_FAULTS_MAX:
            raise BadRequest(f"{limits.INJECTED_FAULTS_MAX} faults are pending already; remove them with DELETE {PATH}")
        try:
            # The public suite sends null for fields that it does not set.
            given = {name: value for name, value in msgspec.json.decode(body, type=dict).items() if value is not None}
            self.faults.append(msgspec.convert(given, Fault))
        except msgspec.DecodeError as error:
            raise BadRequest(f"this is not a fault: {explain_json_error(error)}") from None

    def _take_fault(self, scope: Scope) -> Fault | None:
        for fault in self.faults:
            if fault.matches(scope, self.mount.prefix) and random.random() < fault.probability:
                fault.count -= 1
                if not fault.count:
                    self.faults.remove(fault)
                return fault
        return None

    async def _apply(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        if fault.delay_ms or fault.jitter_ms:
            await asyncio.sleep((fault.delay_ms + random.random() * fault.jitter_ms) / 1000)
        abort: Callable[[], None] = scope["extensions"]["mainstem.abort"]
        del scope["extensions"]["mainstem.detach"]  # a detached reply would not pass through `FaultInjectingSend`
        if fault.drop_connection:
            abort()
        elif fault.status is not None:
            await respond_with_status(fault, fault.status, scope, send)
        else:
            await super().__call__(scope, receive, FaultInjectingSend(fault, send, abort))


class FaultInjectingSend:
    """Applies a fault to a response while it is sent."""

    def __init__(self, fault: Fault, send: Send, abort: Callable[[], None]) -> None:
        self._fault = fault
        self._send = send
        self._abort = abort
        self._sent = 0
        self._dropped = False
        self._events = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if self._dropped:
            return
        if self._fault.drop_reply:
            self._drop()
        elif message["type"] == "http.response.start":
            await self._send({**message, "headers": self._alter_headers(list(message["headers"]))})
        else:
            await self._send_body(message)

    def _alter_headers(self, headers: HeaderList) -> HeaderList:
        self._events = (b"content-type", b"text/event-stream") in headers
        if self._fault.truncate_body_bytes is None:
            return headers
        # Without Content-Length the body is chunked, so the shortened body looks complete.
        return [header for header in headers if header[0] != b"content-length"]

    async def _send_body(self, message: MutableMapping[str, Any]) -> None:
        fault = self._fault
        body: bytes = message.get("body", b"")
        if fault.inject_sse_event is not None and self._events and not self._sent:
            event = fault.inject_sse_event
            body = f"event: {event.event_type}\ndata: {event.data}\n\n".encode() + body
        if fault.corrupt_body:
            body = bytes(byte ^ 0x80 if index % 8 == 0 else byte for index, byte in enumerate(body))
        end = min((n for n in (fault.truncate_body_bytes, fault.drop_after_bytes) if n is not None), default=None)
        if end is None or self._sent + len(body) <= end:
            self._sent += len(body)
            await self._send({**message, "body": body})
            return
        body = body[: end - self._sent]
        if fault.drop_after_bytes == end:
            await self._send({**message, "body": body, "more_body": True})
            await asyncio.sleep(0)
            self._drop()
        else:
            await self._send({**message, "body": body, "more_body": False})
            self._dropped = True

    def _drop(self) -> None:
        self._dropped = True
        self._abort()


async def respond_with_status(fault: Fault, status: int, scope: Scope, send: Send) -> None:
    """Reply with the status of the fault and a problem document."""
    facts = {"status": status, "code": "injected_fault", "title": "Injected fault", "detail": "a test asked for this"}
    headers: HeaderList = [(b"content-type", b"application/problem+json"), (b"cache-control", b"no-store")]
    if fault.retry_after is not None:
        headers.append((b"retry-after", str(fault.retry_after).encode()))
    await respond(send, status, headers, b"" if scope["method"] == "HEAD" else msgspec.json.encode(facts))
