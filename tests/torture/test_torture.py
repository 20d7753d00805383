"""Servers that are killed, stopped, disconnected and lied to about the time keep every promise to every client."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from mainstem import limits
from mainstem.testing.history.calls import AnyCall
from mainstem.testing.postgres import PostgresProcess
from mainstem.testing.torture.rounds import Outcome, run_round
from tests.torture import sabotage

KINDS = {kind.__name__ for kind in get_args(AnyCall)}
SQLITE_S = 25.0
POSTGRES_S = 35.0
SABOTAGE_S_MAX = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick_threads() -> Iterator[None]:
    """Let the threads that start servers run while the event loop is busy with clients."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(limits.THREAD_SWITCH_S)
    yield
    sys.setswitchinterval(before)


async def torture(directory: Path, seed: str, seconds: float, postgres: PostgresProcess | None = None) -> Outcome:
    end_s = time.monotonic() + seconds
    return await run_round(directory, seed, lambda nemesis: time.monotonic() > end_s, postgres)


def explain(outcome: Outcome) -> str:
    return "\n".join(violation.explain() for violation in outcome.violations[:5])


def assert_much_happened(outcome: Outcome) -> None:
    assert {kind for kind, how in outcome.calls if how == "accepted"} == KINDS
    assert {"Append", "Read", "Submit"} <= {kind for kind, how in outcome.calls if how == "unknown"}
    assert outcome.faults["kill"] > 0


async def test_one_order_explains_every_call_to_a_server_with_sqlite(tmp_path: Path, seed: int) -> None:
    print(f"MAINSTEM_TEST_SEED={seed} makes the same choices again")
    outcome = await torture(tmp_path, str(seed), SQLITE_S)
    assert not outcome.violations, explain(outcome)
    assert_much_happened(outcome)


async def test_one_order_explains_every_call_to_two_nodes(tmp_path: Path, seed: int) -> None:
    print(f"MAINSTEM_TEST_SEED={seed} makes the same choices again")
    postgres = PostgresProcess()  # of its own, since it is restarted
    try:
        await asyncio.to_thread(postgres.start)
        outcome = await torture(tmp_path, str(seed), POSTGRES_S, postgres)
    finally:
        postgres.close()
    assert not outcome.violations, explain(outcome)
    assert_much_happened(outcome)
    assert outcome.faults["restart database"] + outcome.faults["crash database"] > 0


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


def test_the_command_runs_until_there_were_enough_kills() -> None:
    command = [sys.executable, "-m", "mainstem.testing.torture", "--kills", "3", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: one order explains every call" in done.stdout
