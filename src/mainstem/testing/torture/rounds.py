"""One round: new servers, clients and faults for a while, and then the verdict about everything that was recorded."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainstem.checks import rules
from mainstem.cli.check import open_snapshot
from mainstem.log.store.sqlite.connections import STORE_NAME
from mainstem.testing.history.calls import AnyCall, encode_call
from mainstem.testing.history.checker import check_history
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.history.violations import Violation
from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.server import ServerNotReady
from mainstem.testing.torture.events import PartitionReader, SyncWorker
from mainstem.testing.torture.log import LogReader, read_whole_log
from mainstem.testing.torture.nemesis import Nemesis
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.sets import SetTailer
from mainstem.testing.torture.streams import Closer, Producer, Reader, Tailer, Writer
from mainstem.testing.torture.workers import Worker

WORKERS: tuple[tuple[type[Worker], int], ...] = (
    (Writer, 3),
    (Producer, 3),
    (Closer, 2),
    (Reader, 2),
    (Tailer, 3),
    (SetTailer, 1),
    (SyncWorker, 3),
    (PartitionReader, 1),
    (LogReader, 1),
)


TRACEBACK_SHOWN = 5_000


class Outcome(msgspec.Struct):
    """What happened in one or more rounds."""

    calls: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """By kind and outcome."""
    faults: Counter[str] = msgspec.field(default_factory=Counter)
    lives: int = 0
    rounds: int = 0
    violations: list[Violation] = msgspec.field(default_factory=list)
    history: Path | None = None
    """The file with the calls of a round that violates a promise."""

    def add(self, other: "Outcome") -> None:
        self.calls += other.calls
        self.faults += other.faults
        self.lives += other.lives
        self.rounds += other.rounds
        self.violations += other.violations
        self.history = self.history or other.history


async def run_round(
    directory: Path,
    seed: str,
    enough: Callable[[Nemesis], bool],
    postgres: PostgresProcess | None = None,
    sabotage: Callable[[], None] | None = None,
) -> Outcome:
    """Run one round in an empty directory, which keeps the history if a promise is broken or the round fails.

    `sabotage` breaks the servers, to show that the checker notices.
    """
    recorder = Recorder(time.perf_counter)
    outcome = Outcome(rounds=1, history=directory / "history.jsonl")
    try:
        async with _open_nodes(directory, postgres, sabotage) as (nodes, store):
            nemesis = Nemesis(nodes, seed, postgres)
            outcome.faults = nemesis.faults
            await _attack(
                nemesis,
                enough,
                [
                    kind(f"{kind.__name__.lower()}{number}", nodes, recorder, seed)
                    for kind, most in WORKERS
                    for number in range(most)
                ],
            )
            for node in nodes:
                await read_whole_log(node, recorder)
            for node in nodes:
                if code := await node.terminate():
                    outcome.violations.append(Violation("does not stop", f"{node.name} ended with exit code {code}"))
            outcome.violations += await asyncio.to_thread(check_history, recorder.calls)
            outcome.violations += await asyncio.to_thread(check_store, store)
            outcome.violations += find_tracebacks(*nodes)
            outcome.lives = sum(node.lives for node in nodes)
            if not outcome.violations:
                outcome.history = None
    except* ServerNotReady as failures:
        outcome.violations.append(Violation("does not start", _first(failures)[-TRACEBACK_SHOWN:]))
    finally:
        outcome.calls = Counter(map(classify, recorder.calls))
        if outcome.history is not None:
            with outcome.history.open("wb") as file:
                file.writelines(map(encode_call, recorder.calls))
    return outcome


def _first(failures: BaseExceptionGroup[ServerNotReady]) -> str:
    """Return the text of the first of some errors, which may be in groups."""
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


async def _attack(nemesis: Nemesis, enough: Callable[[Nemesis], bool], workers: Sequence[Worker]) -> None:
    """Let the clients work while the nemesis attacks. They survive every fault, so the failure of one is a bug."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(worker.run()) for worker in workers]
        await nemesis.run(lambda: enough(nemesis))
        for task in tasks:
            task.cancel()


def classify(call: AnyCall) -> tuple[str, str]:
    outcome = "unknown" if call.end is None else "accepted" if call.refusal is None else call.refusal
    return type(call).__name__, outcome


@asynccontextmanager
async def _open_nodes(
    directory: Path, postgres: PostgresProcess | None, sabotage: Callable[[], None] | None
) -> AsyncIterator[tuple[list[Node], Path | str]]:
    """Start one node with an embedded store, or two nodes on a new database; also yield where the store is."""
    if postgres is None:
        nodes, store = [Node("node", directory, "sqlite", sabotage)], directory / "data" / STORE_NAME
        async with _running(nodes):
            yield nodes, store
        return
    with postgres.database() as name:
        url = postgres.url(name)
        nodes = [Node(f"node{number}", directory, url, sabotage) for number in (1, 2)]
        async with _running(nodes):
            yield nodes, url


@asynccontextmanager
async def _running(nodes: list[Node]) -> AsyncIterator[None]:
    try:
        for node in nodes:
            await node.open()
        yield
    finally:
        for node in nodes:
            await node.close()


def check_store(store: Path | str) -> list[Violation]:
    """Return the faults that `mainstem check` finds."""
    with open_snapshot(store) as snapshot:
        return [
            Violation("store", f"{finding.rule}: {finding.detail}") for finding in rules.check_store(snapshot).findings
        ]


def find_tracebacks(*nodes: Node) -> list[Violation]:
    """Return the errors that servers have logged and did not expect."""
    return [Violation("traceback", node.stderr[-TRACEBACK_SHOWN:]) for node in nodes if "Traceback" in node.stderr]
