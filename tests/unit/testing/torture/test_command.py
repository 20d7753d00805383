import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mainstem.streams.rules.offsets import Offset
from mainstem.testing.history.calls import encode_call
from mainstem.testing.history.violations import Violation
from mainstem.testing.torture import command
from mainstem.testing.torture.rounds import Outcome
from tests.support.histories import Story


@pytest.fixture
def rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """The outcomes of the rounds to come, in place of real ones."""
    outcomes: list[Outcome] = []
    seeds: list[str] = []

    async def run_round(directory: Path, seed: str, *_: Any) -> Outcome:
        seeds.append(seed)
        assert seed == f"5 {len(seeds) - 1}"
        return outcomes.pop(0)

    monkeypatch.setattr(command, "run_round", run_round)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    return outcomes


def test_rounds_follow_each_other_until_there_were_enough_kills(rounds: list[Outcome]) -> None:
    rounds += [Outcome(faults=Counter(kill=60), rounds=1) for _ in range(3)]
    done = CliRunner().invoke(command.torture, ["--seed", "5", "--kills", "100"])
    assert done.exit_code == 0, done.output
    assert "seed 5: 2 rounds" in done.output
    assert "verdict: one order explains every call" in done.output
    assert len(rounds) == 1


def test_a_violation_ends_the_run_with_exit_code_1(rounds: list[Outcome]) -> None:
    broken = Outcome(rounds=1, violations=[Violation("lost event", "'e'")], history=Path("/h.jsonl"))
    rounds += [broken, Outcome(rounds=1)]
    done = CliRunner().invoke(command.torture, ["--seed", "5", "--minutes", "1"])
    assert done.exit_code == 1
    assert "lost event: 'e'" in done.output
    assert "/h.jsonl" in done.output
    assert len(rounds) == 1


def test_a_kept_history_can_be_checked_again(tmp_path: Path) -> None:
    story = Story()
    story.create()
    story.append("a")
    story.finish()
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"".join(map(encode_call, story.calls)))
    done = CliRunner().invoke(command.torture, ["--check", str(file)])
    assert (done.exit_code, done.output) == (0, "0 violations\n")
    story.head_of(next=Offset(0, 0))
    story.finish()
    file.write_bytes(b"".join(map(encode_call, story.calls)))
    done = CliRunner().invoke(command.torture, ["--check", str(file)])
    assert done.exit_code == 1
    assert done.output.startswith("stale end: ")
    assert done.output.endswith("1 violations\n")


def test_the_history_of_a_round_that_ended_early_cannot_be_checked(tmp_path: Path) -> None:
    story = Story()
    story.create()
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"".join(map(encode_call, story.calls)))
    done = CliRunner().invoke(command.torture, ["--check", str(file)])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {file} cannot be checked: no reading of the whole log")
