"""Servers that are killed, stopped, disconnected and lied to about the time keep every promise to every client."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import pytest

from mainstem import limits
from mainstem.testing.history.calls import AnyCall
from mainstem.testing.history.recorder import Recorder
from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.torture.nemesis import Nemesis
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.rounds import WORKERS, Outcome, run_round
from tests.support.waits import eventually_async
from tests.torture import sabotage

KINDS = {kind.__name__ for kind in get_args(AnyCall)} - {"Prune"}  # only the simulation prunes
SQLITE_S = 25.0
POSTGRES_S = 35.0
ROUNDS_MAX = 5
SABOTAGE_S_MAX = 150.0

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick_threads() -> Iterator[None]:
    """Let the threads that start servers run while the event loop is busy with clients."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(limits.THREAD_SWITCH_S)
    yield
    sys.setswitchinterval(before)


def end_after(seconds: float) -> Callable[[Nemesis], bool]:
    end_s = time.monotonic() + seconds
    return lambda nemesis: time.monotonic() > end_s


async def torture(directory: Path, seed: int, seconds: float, postgres: PostgresProcess | None = None) -> Outcome:
    """Run rounds of this length until much has happened: one is enough unless the machine is very busy."""
    print(f"MAINSTEM_TEST_SEED={seed} makes the same choices again")
    outcome = Outcome()
    while not has_much_happened(outcome):
        assert outcome.rounds < ROUNDS_MAX, outcome.calls
        round_directory = directory / str(outcome.rounds)
        round_directory.mkdir()
        outcome.add(await run_round(round_directory, f"{seed} {outcome.rounds}", end_after(seconds), postgres))
        assert not outcome.violations, explain(outcome)
    return outcome


def explain(outcome: Outcome) -> str:
    return "\n".join(violation.explain() for violation in outcome.violations[:5])


def has_much_happened(outcome: Outcome) -> bool:
    """Return whether the servers accepted every kind of call, and left the outcome of some unknown."""
    accepted = {kind for kind, how in outcome.calls if how == "accepted"}
    unknown = {kind for kind, how in outcome.calls if how == "unknown"}
    return accepted == KINDS and {"Append", "Read", "Submit"} <= unknown and outcome.faults["kill"] > 0


async def test_one_order_explains_every_call_to_a_server_with_sqlite(tmp_path: Path, seed: int) -> None:
    await torture(tmp_path, seed, SQLITE_S)


async def test_one_order_explains_every_call_to_two_nodes(tmp_path: Path, seed: int) -> None:
    postgres = PostgresProcess()  # of its own, since it is restarted
    try:
        await asyncio.to_thread(postgres.start)
        outcome = await torture(tmp_path, seed, POSTGRES_S, postgres)
    finally:
        postgres.close()
    assert outcome.faults["restart database"] + outcome.faults["crash database"] > 0


async def test_every_client_gets_answers_from_a_server_without_faults(tmp_path: Path) -> None:
    """A client that the server always refuses would record nothing that can be wrong."""
    recorder = Recorder(time.perf_counter)
    node = Node("node", tmp_path, "sqlite")
    await node.open()
    try:
        workers = [kind(kind.__name__, [node], recorder, "1") for kind, _ in WORKERS]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        await eventually_async(lambda: {worker.name for worker in workers} <= _list_answered(recorder.calls))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await node.close()


def _list_answered(calls: Sequence[AnyCall]) -> set[str]:
    """Return the names of the clients of which the server has accepted a call."""
    return {call.client.partition(".")[0] for call in calls if call.accepted}


# The same torture finds servers that break a promise


@pytest.mark.parametrize(
    ("fault", "rules"),
    [
        (sabotage.answer_before_saving, {"lost message", "lost event", "stale end", "stale page", "readers disagree"}),
        (sabotage.forget_duplicates, {"stored twice"}),
    ],
    ids=["answers before it saves", "forgets duplicates"],
)
async def test_a_broken_server_is_found(tmp_path: Path, seed: int, fault: Callable[[], None], rules: set[str]) -> None:
    print(f"MAINSTEM_TEST_SEED={seed} makes the same choices again")
    end_s = time.monotonic() + SABOTAGE_S_MAX
    found: set[str] = set()
    number = 0
    while not rules & found:
        assert time.monotonic() < end_s, f"only {found} was found"
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        outcome = await run_round(directory, f"{seed} {number}", lambda nemesis: nemesis.kills >= 5, None, fault)
        found |= {violation.rule for violation in outcome.violations}
        assert not outcome.violations or outcome.history is not None


async def test_a_server_that_does_not_start_is_a_violation(tmp_path: Path) -> None:
    outcome = await run_round(tmp_path, "1", lambda nemesis: True, None, sabotage.refuse_to_start)
    (violation,) = outcome.violations
    assert violation.rule == "does not start"
    assert "exit code 3" in violation.detail
    assert outcome.history is not None


async def test_a_server_that_fails_at_its_end_is_a_violation(tmp_path: Path) -> None:
    outcome = await run_round(tmp_path, "1", lambda nemesis: True, None, sabotage.fail_at_the_end)
    assert "does not stop" in {violation.rule for violation in outcome.violations}


def test_the_command_runs_until_there_were_enough_kills() -> None:
    command = [sys.executable, "-m", "mainstem.testing.torture", "--kills", "3", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: one order explains every call" in done.stdout
