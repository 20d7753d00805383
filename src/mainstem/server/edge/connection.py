"""The connection of a client: moves bytes between its socket, the machine and the handlers, and keeps deadlines."""

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, cast

from mainstem import limits
from mainstem.errors import RETRY_AFTER, MainstemError, Overloaded, RequestTimeout
from mainstem.server.edge.heads import RequestHead
from mainstem.server.edge.machine import Machine
from mainstem.server.edge.request_cycle import Plan, RequestCycle, error_reply
from mainstem.server.edge.states import Reading, Write, Writing

if TYPE_CHECKING:
    from mainstem.server.edge.server import EdgeServer

# Looking up a member of an enum takes about 0.1 us.
BODY = Reading.BODY
COMPLETE = Reading.COMPLETE
ENDED = Reading.ENDED
BEGIN = Write.BEGIN


class Connection(asyncio.Protocol):
    """Processes one request and its reply at a time. What the client sends meanwhile waits in a bounded buffer."""

    __slots__ = (
        "_admitted",
        "_advancing",
        "_began",
        "_drained",
        "_dropped",
        "_held",
        "_lingering",
        "_paused",
        "_scheduled",
        "client",
        "closing",
        "cycle",
        "deadline",
        "local",
        "machine",
        "secure",
        "server",
        "transport",
        "write_paused",
    )

    def __init__(self, server: "EdgeServer") -> None:
        self.server = server
        self.machine = Machine(server.heads)
        self.transport: asyncio.Transport
        self.cycle: RequestCycle | None = None
        self.client: tuple[str, int] | None = None
        self.local: tuple[str, int | None] | None = None
        self.secure = False
        self.closing = False
        """Whether the connection closes after the reply to the current request."""
        self.deadline: float | None = None
        """When to give up waiting for the client, on the clock of the event loop; the server checks it periodically."""
        self._began: float | None = None
        """When the first byte of the current request arrived; None unless a request is incomplete."""
        self._advancing = False
        self._scheduled = False
        self._paused = False
        self.write_paused = False
        """Whether the client does not read its replies: send nothing more until the buffer is drained."""
        self._drained: asyncio.Future[None] | None = None
        self._lingering = False
        self._dropped = 0
        self._held = False
        self._admitted = False

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.secure = transport.get_extra_info("sslcontext") is not None
        self.client = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        self._began = self.server.loop.time()
        self.deadline = self._began + limits.REQUEST_WAIT_S_MAX
        self.server.add(self)
        try:
            self.server.admit(self.client)
            self._admitted = True
        except MainstemError as error:
            self._refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.remove(self)
        self.release()
        self.deadline = None
        self._leave()
        if self._held:
            self.server.memory.hold(self, 0)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            self._drop(len(data))
            return
        self.machine.feed(data)
        self._advance()

    def eof_received(self) -> bool:
        """Keep the socket open only for a client that has closed its half and still waits for a reply."""
        if self._lingering or self.machine.reading is ENDED:
            return False
        self.machine.receive_eof()
        if self.cycle is None:
            return False
        if self.cycle.handler is not None:
            self.cycle.handler.client_disconnected()
        return not self.secure and self.cycle is not None

    def pause_writing(self) -> None:
        self.write_paused = True
        self._settle()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self._advance()

    # Requests

    def _advance(self) -> None:
        """Process the buffer as far as the current request allows, without blocking the event loop for long."""
        if self._advancing:
            return  # a handler replied immediately: the loop below continues
        self._advancing = True
        machine = self.machine
        turns = limits.REQUESTS_AT_ONCE
        try:
            while turns and not (self.write_paused and self.cycle is None):
                event = machine.next_event()
                if event is None:
                    break
                if isinstance(event, RequestHead):
                    turns -= 1
                    self._begin(event)
                elif isinstance(event, bytes):
                    self._receive_body(event)
                    turns -= machine.more
                else:
                    self._complete_request()
                if machine.more:
                    break
        except MainstemError as error:
            self._refuse(error)
        finally:
            self._advancing = False
        if (not turns or machine.more) and machine.buffered and not self._scheduled:
            self._scheduled = True
            self.server.loop.call_soon(self._advance_later)
        self._settle()

    def _advance_later(self) -> None:
        self._scheduled = False
        if not self.transport.is_closing():
            self._advance()

    def _begin(self, head: RequestHead) -> None:
        """Pass a request to the handler that replies to it."""
        machine = self.machine
        machine.write(BEGIN)
        if head.websocket:
            machine.write(Write.SWITCH)
            self._leave_to_websocket(head)
            return
        self.cycle = cycle = RequestCycle(self, head, perf_counter())
        if self.server.tracer is not None:
            cycle.span = self.server.tracer.begin(cycle)
        plan: Plan | None = head.plan
        handler = None if plan is None else plan.begin(cycle)
        if handler is None:
            handler = self.server.serve(cycle)
        if self.cycle is not cycle:
            return  # the handler has replied already
        cycle.handler = handler
        if head.length:
            body = machine.take_whole_body()
            if body is None:
                return
            cycle.received = len(body)
            handler.receive_data(body)
        handler.receive_end()

    def _leave_to_websocket(self, head: RequestHead) -> None:
        rest = self.machine.take_rest()
        self.deadline = None
        self._count_memory()
        self._resume()
        self.server.remove(self)
        self.server.upgrade(self, head, rest)

    def _receive_body(self, data: bytes) -> None:
        cycle = self.cycle
        if cycle is None or cycle.handler is None:
            self._drop(len(data))  # the request already has its reply
            return
        cycle.received += len(data)
        cycle.handler.receive_data(data)

    def _complete_request(self) -> None:
        if self.cycle is not None and self.cycle.handler is not None:
            self.cycle.handler.receive_end()
        elif self.machine.cycle_over:
            self._start_next_cycle()

    # Replies

    def send(self, data: bytes | bytearray | memoryview) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has received most of what was sent."""
        if not self.transport.is_closing():
            if self._drained is None:
                self._drained = self.server.loop.create_future()
            await asyncio.shield(self._drained)

    def body_taken(self) -> None:
        """Resume reading: the handler has consumed its backlog."""
        self._settle()

    def reply_completed(self, close: bool) -> None:
        """Called when the reply is complete, even if the request is not."""
        cycle, self.cycle = self.cycle, None
        if cycle is not None:
            cycle.handler = None  # they refer to each other, and only the garbage collector would free them
            if self.server.observer is not None:
                self.server.observer.observe(cycle, True)
        machine = self.machine
        if close or self.closing or machine.reading is ENDED:
            machine.write(Write.CLOSE)
            if machine.reading is BODY or machine.buffered:
                self._linger()
            else:
                self.transport.close()
        elif machine.cycle_over:
            self._start_next_cycle()
        if not self._advancing and (machine.buffered or self._paused or self._held):
            self._advance()

    def _start_next_cycle(self) -> None:
        self._dropped = 0
        self.machine.start_next_cycle()
        self.deadline = self.server.loop.time() + limits.KEEP_ALIVE_S

    def _refuse(self, error: MainstemError) -> None:
        """Send an error in place of the reply, and close. If a reply has begun, just close."""
        if self.cycle is None and self.server.observer is not None:
            self.server.observer.observe_refusal(self, error)
        self._leave(error)
        if self.machine.writing in (Writing.IDLE, Writing.PENDING):
            self.machine.write(Write.ERROR)
            self.send(error_reply(error, self.server.date_line))
            self._linger()
        elif not self.transport.is_closing():
            self.machine.write(Write.CLOSE)
            self.transport.close()

    def _leave(self, error: MainstemError | None = None) -> None:
        """End the current cycle, and notify its handler that the client is gone, or will be after this error."""
        cycle, self.cycle = self.cycle, None
        if cycle is None:
            return
        if error is not None and not cycle.status:
            cycle.status, cycle.code = error.status, error.code
        if cycle.handler is not None:
            cycle.handler.client_disconnected()
        if self.server.observer is not None:
            self.server.observer.observe(cycle, False)

    def _linger(self) -> None:
        """Read and drop what is still in transit for a moment, then close.

        Closing with unread data would reset the connection, and the client might never see the reply.
        """
        self._lingering = True
        self._dropped = 0
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.deadline = None
        self.server.loop.call_later(limits.LINGER_S, self.transport.close)
        self._resume()

    def _drop(self, size: int) -> None:
        """Count bytes that are read and dropped, and abort if they are too many."""
        self._dropped += size
        most = limits.LINGER_BYTES_MAX if self._lingering else limits.BODY_DISCARD_BYTES_MAX
        if self._dropped > most:
            self.abort()

    def abort(self) -> None:
        self.transport.abort()

    def release(self) -> None:
        """Stop counting this connection for its client."""
        if self._admitted:
            self._admitted = False
            self.server.release(self.client)

    # Limits

    def _settle(self) -> None:
        """Decide whether to read on, set the deadline, and report the memory that this connection holds."""
        machine, cycle = self.machine, self.cycle
        if machine.reading is COMPLETE and not (
            machine.buffered or self._paused or self._held or self.write_paused
        ):  # the common case: a complete request waits for its reply
            self._began = self.deadline = None
            return
        if self._lingering or machine.reading is Reading.SWITCHED or self.transport.is_closing():
            return
        backlog = 0 if cycle is None or cycle.handler is None else cycle.handler.backlog
        if self._scheduled or self.write_paused or max(machine.buffered, backlog) > limits.READ_AHEAD_BYTES:
            self._pause()
        else:
            self._resume()
        if machine.in_request:
            if self._began is None:
                self._began = self.server.loop.time()
            received = 0 if cycle is None else cycle.received
            self.deadline = self._began + limits.REQUEST_WAIT_S_MAX + received / limits.BODY_BYTES_S_MIN
        else:
            self._began = None
            if cycle is not None:
                self.deadline = None  # the handler decides how long a reply may take
        self._count_memory()

    def expire(self) -> None:
        """Called by the server when the deadline has passed."""
        self.deadline = None
        if self.machine.in_request:
            self._refuse(RequestTimeout(f"the request was not complete after {limits.REQUEST_WAIT_S_MAX:g} s"))
        else:
            self.transport.close()

    def finish_soon(self) -> None:
        """Finish the current request and close: the server is stopping."""
        self.closing = True
        if self.cycle is None and not self._lingering:
            self.transport.close()

    @property
    def stalls(self) -> bool:
        return self.write_paused or self.machine.in_request

    def shed(self) -> None:
        self._held = False
        if self.write_paused or self.transport.is_closing():
            self.abort()
        else:
            self._refuse(Overloaded("the server holds too many unfinished requests in memory", headers=RETRY_AFTER))

    def _count_memory(self) -> None:
        cycle = self.cycle
        size = self.machine.buffered
        if cycle is not None and (cycle.received > limits.READ_AHEAD_BYTES or self.machine.in_request):
            size += cycle.received  # a large body counts until its reply; a small one soon becomes a command
        if self.write_paused:
            size += self.transport.get_write_buffer_size()
        if size or self._held:
            self._held = size > 0
            self.server.memory.hold(self, size)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self.transport.resume_reading()


def _address(name: object) -> tuple[str, int] | None:
    """Return the host and port of one end; None for a Unix socket."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
