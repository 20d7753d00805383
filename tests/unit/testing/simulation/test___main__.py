import pytest

from mainstem.testing.simulation import __main__ as command
from mainstem.testing.simulation.runner import Verdict


def run(seed, lives, *, keep_trace=True):
    """Let every third seed fail, without running any."""
    problems = ("lost message: it is not there\n  the call that shows it",) * (6 if seed % 3 == 0 else 0)
    return Verdict(seed, problems, ("0.000000 life 1 begins",), lives + 1, 10)


@pytest.fixture(autouse=True)
def run_nothing(monkeypatch):
    monkeypatch.setattr(command, "run_seed", run)


def test_it_passes_if_no_seed_fails(capsys):
    assert command.main(["--seeds", "1..2", "--lives", "4"]) == 0
    printed = capsys.readouterr().out
    assert "2 seeds, 10 lives, 20 calls in " in printed
    assert "all passed" in printed


def test_it_reports_seeds_that_fail(capsys):
    assert command.main(["--seeds", "1..6"]) == 1
    printed = capsys.readouterr().out
    assert "seed 3 failed:\n  lost message: it is not there\n    the call that shows it" in printed
    assert "... and 1 more" in printed
    assert "2 failed" in printed


def test_it_shows_what_happens_in_one_run(capsys):
    assert command.main(["--seed", "1"]) == 0
    assert capsys.readouterr().out == "0.000000 life 1 begins\nseed 1 passed: 10 calls\n"
    assert command.main(["--seed", "3"]) == 1


def test_it_refuses_what_is_not_a_range(capsys):
    with pytest.raises(SystemExit):
        command.main(["--seeds", "one"])
    assert "'one' is not a range of seeds, such as 1..500" in capsys.readouterr().err
