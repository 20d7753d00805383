"""What the log and the protocols report to traces. They know nothing of OpenTelemetry, and without a tracer they report
nothing.

Times are nanoseconds since 1970. The methods of all protocols here are called on the event loop: they must be quick,
and raise no error.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from mainstem.errors import MainstemError

T = TypeVar("T")


class SettledCommand(NamedTuple):
    """A command of a traced request that has its outcome, and the batch that it was part of."""

    command: Any
    outcome: Any
    """Its result, or the error."""
    accepted: bool
    enqueued_ns: int
    taken_ns: int
    """When the committer took it from the queue."""
    settled_ns: int
    """When the batch was durable, or had failed."""
    commands: int
    """The number of commands in the batch."""
    first_id: int
    """The lowest committed id of the batch; 0 if it has no records."""
    last_id: int


class Trace(Protocol):
    """The trace of a request or a submit."""

    def add_command(self, settled: SettledCommand) -> None:
        """Add what happened to a command: its wait in the queue, and its commit."""

    def add_page(self, began_ns: int, size: int) -> None:
        """Add a page that was just read from the store."""


class SubmitTrace(Trace, Protocol):
    """The trace of a submit over the sync protocol."""

    def end(self, error: str = "") -> None:
        """End the trace, with the code of the error if there was one."""


class Delivery(NamedTuple):
    """One call of a webhook."""

    subscription: str
    wake_id: str
    url: str
    attempt: int
    """The number of earlier calls for the same wake."""
    streams: Sequence[tuple[str, str, str]]
    """The path of each stream, and the offsets between which its new data is."""


class DeliveryTrace(Protocol):
    """The trace of one call of a webhook."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers with which the receiver can continue the trace."""

    def end(self, status: int, error: str = "") -> None:
        """End the trace, with the status of the response, or 0, and what went wrong, in a word."""


class Tracer(Protocol):
    """Begins the traces of everything that does not begin with an HTTP request."""

    def begin_submit(self, drafts: int) -> SubmitTrace | None:
        """Return the trace of a submit, or None if it is not traced."""

    def begin_delivery(self, delivery: Delivery) -> DeliveryTrace:
        """Return the trace of a call of a webhook. It continues the traces of the appends that it announces."""


current_trace: Final[ContextVar[Trace | None]] = ContextVar("mainstem.trace", default=None)
"""The trace of the request that the current task handles."""


def name_error(error: BaseException) -> str:
    """Return what a trace calls an error: its code, if it is one of ours."""
    return error.code if isinstance(error, MainstemError) else type(error).__name__


async def read_traced(read: Awaitable[T], measure: Callable[[T], int]) -> T:
    """Read a page, and add it to the current trace. `measure` returns its size in bytes."""
    trace = current_trace.get()
    if trace is None:
        return await read
    began_ns = time.time_ns()
    page = await read
    trace.add_page(began_ns, measure(page))
    return page
