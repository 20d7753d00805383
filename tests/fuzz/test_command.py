"""The command line of the fuzzers."""

import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mainstem.testing.fuzz import __main__ as command
from mainstem.testing.fuzz.target import Target


def run(monkeypatch, capsys, *arguments: str) -> tuple[object, str]:
    """Run the command in this process, without atheris; return its exit code and its output."""
    monkeypatch.setattr(sys, "argv", ["fuzz", *arguments])
    monkeypatch.setattr(command, "is_installed", lambda: False)
    monkeypatch.setattr(logging, "disable", lambda: None)
    with pytest.raises(SystemExit) as ended:
        command.main()
    output = capsys.readouterr()
    return ended.value.code, output.out + output.err


def test_it_reports_the_number_of_inputs(monkeypatch, capsys):
    code, output = run(monkeypatch, capsys, "offsets", "cursors", "--minutes", "0.001")
    assert code == 0
    assert "offsets: " in output
    assert output.endswith(" inputs, 0 findings\n")


def test_targets_share_the_time_that_is_left(monkeypatch, capsys):
    now_s, shares_s = 0.0, []

    def fuzz(name: str, seconds: float, seed: int, corpus: Path | None) -> int:
        nonlocal now_s
        shares_s.append(seconds)
        now_s += 30  # longer than its share
        return 1

    monkeypatch.setattr(command, "time", SimpleNamespace(perf_counter=lambda: now_s))
    monkeypatch.setattr(command, "fuzz", fuzz)
    code, _ = run(monkeypatch, capsys, "offsets", "cursors", "paths", "--minutes", "1")
    assert code == 0
    assert shares_s == [20, 15, 0]


def test_it_prints_an_input_that_fails_as_a_line_of_the_corpus(monkeypatch, capsys):
    def fail(data: bytes) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(command, "load_targets", lambda: {"faulty": Target("faulty", fail, (b"\r\n",))})
    code, output = run(monkeypatch, capsys, "faulty")
    assert code == 1
    assert "ZeroDivisionError: planted" in output
    assert "0 inputs, 1 findings" in output


def test_it_refuses_an_unknown_target(monkeypatch, capsys):
    code, output = run(monkeypatch, capsys, "offset")
    assert code == 2
    assert "there is no target offset; there are: " in output
