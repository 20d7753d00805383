"""An event loop whose time is virtual: it passes only when nothing is left to do, and then at once.

It has no threads. What would run in a thread runs on the loop, after a delay that the random generator chooses.
"""

import asyncio
import selectors
from asyncio import SelectorEventLoop
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from random import Random
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")

SHORT_S = 0.002
LONG_S = 0.05


class Crash(KeyboardInterrupt):
    """The process ends here. It leaves the event loop at once, as only this kind of exception does."""


class NothingToDo(Exception):
    """Every task waits for something that will never happen."""


class VirtualClock:
    """The time of a simulation in seconds. It continues across the lives of a server."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)


class _Selector(selectors.SelectSelector):
    """Waits by moving the clock. No file is ever ready."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingToDo("every task waits for something that will never happen")
        self._clock.now_s += max(0.0, timeout)
        return []


class VirtualLoop(SelectorEventLoop):
    def __init__(self, clock: VirtualClock, random: Random) -> None:
        super().__init__(_Selector(clock))
        self.clock = clock
        self.random = random
        self._make_protocol: Callable[[], asyncio.BaseProtocol] | None = None
        self.steps = 0
        """How many callbacks were scheduled so far."""
        self.crash_at: int | None = None
        """The number of the callback before which the process ends."""

    def time(self) -> float:
        return self.clock.now_s

    def draw_delay_s(self) -> float:
        """Return how long some work takes: usually little, now and then a hundred times as much."""
        return self.random.random() * (SHORT_S if self.random.random() < 0.95 else LONG_S)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self.steps += 1
        if self.steps == self.crash_at:
            super().call_soon(self.crash)
        return super().call_soon(callback, *args, context=context)

    def crash(self) -> None:
        raise Crash

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], **options: Any
    ) -> "VirtualServer":
        """Accept connections in memory, for `accept`."""
        self._make_protocol = protocol_factory
        return VirtualServer(self)

    def accept(self) -> asyncio.BaseProtocol | None:
        """Return the protocol of a new connection to the server of this loop; None if nothing listens."""
        return None if self._make_protocol is None else self._make_protocol()

    def refuse(self) -> None:
        """Accept no more connections."""
        self._make_protocol = None

    def close(self) -> None:
        """Close the loop, and forget its server: SQLite's open files know the loop, and the server knows SQLite."""
        self.refuse()
        super().close()

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], Any], *args: *Ts
    ) -> "asyncio.Future[Any]":
        """Run a function on the loop, after a while."""
        outcome: asyncio.Future[Any] = self.create_future()
        self.call_later(self.draw_delay_s(), run_job, outcome, func, args)
        return outcome


class VirtualServer:
    """A server that listens in memory only."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        self._loop.refuse()


def run_job(outcome: "asyncio.Future[Any]", job: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Run a job, and give its result or error to those who wait for it, unless they have left meanwhile."""
    try:
        value = job(*args)
    except Exception as error:  # noqa: BLE001 - it is raised where the outcome is awaited
        if not outcome.done():
            outcome.set_exception(error)
    else:
        if not outcome.done():
            outcome.set_result(value)
