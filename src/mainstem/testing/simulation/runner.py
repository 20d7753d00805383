"""Runs seeds: several lives of one server, with its clients, and the verdict on all that the clients have seen."""

import asyncio
import gc
import logging
import shutil
import socket
import sys
import tempfile
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import apsw

from mainstem import limits
from mainstem.checks.rules import check_store
from mainstem.errors import MainstemError
from mainstem.log.store import SqliteStore
from mainstem.log.store.sqlite.snapshot import open_snapshot
from mainstem.server.app import Mainstem
from mainstem.server.run import Server
from mainstem.server.settings import Settings
from mainstem.testing.clock import START_US
from mainstem.testing.history.calls import encode_call
from mainstem.testing.history.checker import check_history
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.clients import Client
from mainstem.testing.simulation.disk import Files, SimulatedDisk
from mainstem.testing.simulation.faults import NO_FAULTS, Plan, schedule
from mainstem.testing.simulation.fork_clients import Forker
from mainstem.testing.simulation.log_reader import read_log
from mainstem.testing.simulation.loop import Crash, VirtualClock, VirtualLoop
from mainstem.testing.simulation.network import ConnectionLost, Network
from mainstem.testing.simulation.partition_clients import Administrator, PartitionReader, find_unpruned
from mainstem.testing.simulation.receivers import Receivers, find_unacknowledged, subscribe
from mainstem.testing.simulation.retention import check_retention
from mainstem.testing.simulation.stream_clients import (
    BYTES_KEPT,
    TRIMMED,
    Producer,
    Reader,
    StreamClient,
    Writer,
)
from mainstem.testing.simulation.sync_clients import SyncClient
from mainstem.testing.simulation.wires import WireNetwork

LIVES: Final = 3
HANGS_S: Final = 60.0
"""After this much virtual time, the server hangs."""
SMALL_LIMITS: Final[dict[str, Any]] = {
    "RESERVE_BYTES": 64 * limits.KIB,
    "FREE_BYTES_MIN": 16 * limits.KIB,
    "JOURNAL_STEP_BYTES": 16 * limits.KIB,
    "FOLD_RECORDS": 24,
    "UNMERGED_APPENDS_MAX": 40,
    "WAL_PAGES": 40,
    "FOLD_DELAY_S": 0.1,
    "REAP_EVERY_S": 0.2,
    "RETENTION_EVERY_S": 0.2,
    "TOUCHES_FLUSH_S": 0.5,
}
"""Limits that a short life can reach, so that it also folds, merges, checkpoints, trims and erases."""
SETTINGS: Final = Settings(
    store="sqlite", insecure=True, allow_local_webhooks=True, long_poll_ms=1_000, page_bytes=32 * limits.KIB
)
EXPECTED = (MainstemError, apsw.Error, OSError)
"""Errors that a failing disk causes."""


Act = Callable[[Network, Random], Coroutine[Any, Any, None]]
"""What the clients do in a life."""


class Verdict(NamedTuple):
    seed: int
    problems: tuple[str, ...]
    trace: tuple[str, ...]
    lives: int
    calls: int


def run_seed(seed: int, lives: int = LIVES, *, keep_trace: bool = True) -> Verdict:
    """Run one seed: some lives that end somehow, and a last one in which everything is found out."""
    with use_small_limits():
        verdict = Simulation(seed).run(lives)
    return verdict if keep_trace else verdict._replace(trace=())


@contextmanager
def use_small_limits() -> Iterator[None]:
    before = {name: getattr(limits, name) for name in SMALL_LIMITS}
    for name, value in SMALL_LIMITS.items():
        setattr(limits, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(limits, name, value)


@contextmanager
def make_directory() -> Iterator[Path]:
    """Make a directory, in memory where the system has such a file system."""
    memory = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="mainstem-", dir=memory if memory.is_dir() else None))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@cache
def prepare_files() -> Files:
    """Return the files of a new store. To make them for every seed would take longer than a life."""
    random = Random(0)
    loop = VirtualLoop(VirtualClock(), random)
    with make_directory() as directory, SimulatedDisk(loop, directory, {}) as disk:

        async def live() -> None:
            app = Mainstem(SETTINGS, store=SqliteStore(directory, disk), random=random, webhooks=Receivers(random))
            async with app.lifespan():
                pass

        loop.run_until_complete(live())
        loop.close()
        files = disk.fail_power(random)
    gc.collect()
    gc.freeze()  # or each collection after a life would look at everything that was imported
    return files


class Simulation:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = VirtualClock()
        self.recorder = Recorder(lambda: self.clock.now_s)
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.files = prepare_files()
        self.receivers = Receivers(self.derive("receivers"))
        self.subscribed = False
        self._lives = 0
        self._alive = False
        """Whether a server is running. What a crash has left is not."""
        self.judge = StreamClient("judge", self.derive("judge"), self.recorder)
        self.clients: list[Client] = [
            kind(name, self.derive(name), self.recorder)
            for name, kind in (
                ("w1", Writer),
                ("w2", Writer),
                ("p1", Producer),
                ("p2", Producer),
                ("p3", Producer),
                ("r1", Reader),
                ("r2", Reader),
                ("f1", Forker),
                ("s1", SyncClient),
                ("s2", SyncClient),
                ("h1", PartitionReader),
                ("a1", Administrator),
            )
        ]

    def derive(self, name: str) -> Random:
        """Return a generator for one purpose, so that a change of one part does not change all others."""
        return Random(f"{self.seed}/{name}")

    def note(self, text: str) -> None:
        self.trace.append(f"{self.clock.now_s:.6f} {text}")

    def report(self, text: str) -> None:
        self.note(f"PROBLEM {text}")
        self.problems.append(text)

    def run(self, lives: int) -> Verdict:
        with make_directory() as directory, self._watch_logs(), self._watch_garbage():
            random = self.derive("pauses between lives")
            for number in range(1, lives + 1):
                plan = Plan.draw(self.derive(f"plan {number}"))
                self._live(number, directory / str(number), plan, self._act)
                if self.problems:
                    break
                self.clock.now_s += random.choice((0.0, random.expovariate(1)))
            else:
                self.receivers.failures = 0.0
                self._live(lives + 1, directory / "last", NO_FAULTS, self._settle)
                self._check_store(directory / "last")
        if not self.problems:
            self.problems += [violation.explain() for violation in check_history(self.recorder.calls)]
        return Verdict(self.seed, tuple(self.problems), tuple(self.trace), self._lives, len(self.recorder.calls))

    # One life

    def _live(self, number: int, directory: Path, plan: Plan, act: Act) -> None:
        directory.mkdir()
        random = self.derive(f"life {number}")
        loop = VirtualLoop(self.clock, random)
        loop.set_exception_handler(self._note_loop_error)
        disk = SimulatedDisk(loop, directory, self.files)
        loop.crash_at = plan.crashes_at
        disk.power_failure = plan.power_failure
        self.note(f"life {number} begins: {plan}")
        recorded = len(self.recorder.calls)
        app = Mainstem(
            SETTINGS,
            store=SqliteStore(directory, disk),
            clock_us=lambda: START_US + self.clock.now_us(),
            random=random,
            webhooks=self.receivers,
        )
        self._alive = True
        self._lives = number
        try:
            loop.run_until_complete(self._serve(app, loop, disk, plan, act, random))
            ending = "stops"
        except Crash:
            ending = "crashes" if disk.has_power else "loses power"
        except TimeoutError:
            self.report("the server hangs")
            ending = "hangs"
        except MainstemError as error:
            self.report(f"the server cannot start: {error.detail}")
            ending = "cannot start"
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the other seeds
            self._report_error(error)
            ending = "fails"
        self._alive = False
        self.files = disk.fail_power(random)
        self._end_calls(recorded)
        self.note(f"life {number} {ending} after {loop.steps} steps and {disk.operations} operations")
        del app
        self._dispose(loop, disk)

    async def _serve(
        self,
        app: Mainstem,
        loop: VirtualLoop,
        disk: SimulatedDisk,
        plan: Plan,
        act: Act,
        random: Random,
    ) -> None:
        async with app.lifespan() if plan.embedded else serve(app):
            kind = Network if plan.embedded else WireNetwork
            network = kind(app, loop, random, plan.cuts, self.note_error)
            self.receivers.network = network
            schedule(plan, loop, disk, network)
            async with asyncio.timeout(HANGS_S):
                await act(network, random)

    async def _act(self, network: Network, random: Random) -> None:
        actions = random.randint(3, 12)
        pause_s = random.choice((0.001, 0.025))  # short pauses make large batches
        async with asyncio.TaskGroup() as group:
            group.create_task(self._subscribe(network))
            for client in self.clients:
                group.create_task(client.run(network, actions, pause_s))

    async def _subscribe(self, network: Network) -> None:
        while not self.subscribed:
            try:
                self.subscribed = await subscribe(network)
            except ConnectionLost:
                return

    async def _settle(self, network: Network, random: Random) -> None:
        """Find out everything that is uncertain, and read everything."""
        await self._subscribe(network)
        for client in self.clients:
            await client.settle(network)
        while await find_unacknowledged(network):  # noqa: ASYNC110 - only a request finds out
            await asyncio.sleep(1.0)
        await asyncio.sleep(3 * limits.RETENTION_EVERY_S)
        trimmed = await self.judge.head(network, TRIMMED)
        app = network.app
        assert isinstance(app, Mainstem)
        await read_log(app.store, self.recorder)
        for problem in (
            *check_retention(trimmed, self.recorder.calls, BYTES_KEPT),
            *find_unpruned(self.recorder.calls),
        ):
            self.report(problem)

    def _dispose(self, loop: VirtualLoop, disk: SimulatedDisk) -> None:
        """Drop everything that a life has left. Nothing of it must run any more."""
        self.receivers.disconnect()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of coroutines that nobody awaits any more
            loop.close()
            while gc.collect() or gc.collect():  # what a coroutine revives as it is closed is not counted
                pass
        disk.unregister()

    def _check_store(self, directory: Path) -> None:
        if self.problems:
            return
        with open_snapshot(directory / "mainstem.db") as snapshot:
            for finding in check_store(snapshot).findings:
                self.report(f"{finding.rule}: {finding.detail}")

    # What happens

    def _report_error(self, error: Exception) -> None:
        """Report the failure of a client, or of the server at its end, and note where it happened."""
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        self.report(f"a client does not understand the server, or the server failed: {error!r}")
        self.trace += "".join(traceback.format_exception(error)).splitlines()

    def _end_calls(self, since: int) -> None:
        """Note the calls of a life. Those without an answer cannot take effect any more."""
        for call in self.recorder.calls[since:]:
            if call.end is None:
                call.lapsed = self.clock.now_s
            self.trace.append(encode_call(call).decode().rstrip())

    def note_error(self, message: str, error: BaseException | None) -> None:
        """Note an error of the server, and report it unless the disk is the cause."""
        if not self._alive:
            return
        if error is None or isinstance(error, EXPECTED):
            self.note(message)
        else:
            self.report(f"{message}: {error!r}")

    def _note_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.note_error(str(context.get("message")), error)

    def _note_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        self.note_error(f"{unraisable.err_msg} {unraisable.object!r}", unraisable.exc_value)

    @contextmanager
    def _watch_garbage(self) -> Iterator[None]:
        """Collect garbage only between lives: what a crash has left must not run any more."""
        hook, sys.unraisablehook = sys.unraisablehook, self._note_unraisable
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
            sys.unraisablehook = hook

    @contextmanager
    def _watch_logs(self) -> Iterator[None]:
        """Report unexpected errors that the server has logged."""
        logger = logging.getLogger("mainstem")
        handler = _Handler(self)
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before


@asynccontextmanager
async def serve(app: Mainstem) -> AsyncIterator[None]:
    """Run the server as `mainstem serve` does, on a loop that listens in memory."""
    started = asyncio.Event()

    class AnnouncingServer(Server):
        def announce(self) -> None:
            started.set()

    with socket.socket() as listener:
        server = AnnouncingServer(app, listener)
        serving = asyncio.create_task(server.serve())
        serving.add_done_callback(lambda serving: started.set())
        await started.wait()
        if not serving.done():
            yield
            server.stop()
        await serving


class _Handler(logging.Handler):
    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.WARNING)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        self._simulation.note_error(record.getMessage(), record.exc_info[1] if record.exc_info else None)
