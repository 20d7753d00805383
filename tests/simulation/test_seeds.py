"""The simulation passes with many seeds, and the same seed is the same run."""

import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = 500
SEEDS_PER_TEST = 50  # so that several workers share them
ONCE_FAILED = [
    int(line.split("#")[0])
    for line in Path(__file__).with_name("failed_seeds.txt").read_text().splitlines()
    if line.split("#")[0].strip()
]


def simulate(*arguments: str) -> str:
    command = [sys.executable, "-m", "mainstem.testing.simulation", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_few_seeds_pass():
    assert "20 seeds" in simulate("--seeds", "1..20")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_seeds_pass(first):
    assert "all passed" in simulate("--seeds", f"{first}..{first + SEEDS_PER_TEST - 1}")


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_seeds_that_once_failed_pass(seed):
    assert f"seed {seed} passed" in simulate("--seed", str(seed))


def test_the_same_seed_is_the_same_run():
    traces = [simulate("--seed", "11") for _ in range(2)]
    assert traces[0] == traces[1]
    assert "crashes" in traces[0] or "loses power" in traces[0]


def test_different_seeds_are_different_runs():
    assert simulate("--seed", "11") != simulate("--seed", "12")
