from collections import Counter
from pathlib import Path

from mainstem.testing.history.violations import Violation
from mainstem.testing.torture.report import write_report
from mainstem.testing.torture.rounds import Outcome


def test_a_report_counts_calls_and_faults_and_ends_with_the_verdict() -> None:
    calls = Counter({("Append", "accepted"): 1_200, ("Append", "unknown"): 3, ("Read", "accepted"): 4})
    outcome = Outcome(calls, Counter({"kill": 20, "cut": 1}), lives=21, rounds=2)
    assert write_report(outcome, seed=7, seconds=60).splitlines() == [
        "seed 7: 2 rounds in 60 s, 21 lives, 1,207 calls, 20 kills (20 per minute)",
        "",
        "  Append     1,200 accepted, 3 unknown",
        "  Read       4 accepted",
        "",
        "  faults     20 kill, 1 cut",
        "",
        "verdict: one order explains every call",
    ]


def test_a_violation_comes_with_its_shortest_explanation_and_the_history() -> None:
    violations = [Violation("lost message", "a longer explanation"), Violation("lost event", "short")]
    report = write_report(Outcome(violations=violations, history=Path("/h.jsonl"), rounds=1), seed=7, seconds=60)
    assert report.splitlines()[-3:] == [
        "verdict: 2 violations; the history is in /h.jsonl",
        "lost event: short",
        "lost message: a longer explanation",
    ]
