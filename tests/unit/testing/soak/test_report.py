from collections import Counter

import pytest

from mainstem.testing.history.violations import Violation
from mainstem.testing.soak.overload import Overload
from mainstem.testing.soak.report import judge, write_report
from mainstem.testing.soak.run import Plan, Result
from mainstem.testing.soak.samples import Growth

PLAN = Plan(minutes=30, seed=7, idle=10_000, busy=1_000, spark=True)
FLOOD = Overload(stored=100, refused=900, unanswered=0, stored_s=1.5, refused_s=0.2, recovered_s=0.4)


def make_result(**fields):
    return Result(PLAN, flood=FLOOD, calls=Counter({("Append", "accepted"): 5, ("Append", "unknown"): 1}), **fields)


def test_a_flat_server_without_violations_passes():
    result = make_result(growth=[Growth("memory_bytes", 100e6, 101e6, 109e6)])
    assert judge(result) == []
    report = write_report(result)
    assert "seed 7: 30 minutes" in report
    assert "6 Append" in report
    assert "memory     100 MB, later 101 MB (at most 109 MB)" in report
    assert report.endswith("verdict: one order explains every call, and the server did not grow")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"growth": [Growth("tasks", 10, 30, 20)]}, "not flat: tasks      10, later 30 (at most 20)"),
        ({"violations": [Violation("leak", "3 files")]}, "leak: 3 files"),
        ({"flood": FLOOD._replace(refused=0)}, "never refused: the flood was not large enough"),
        ({"flood": FLOOD._replace(refused_s=2.0)}, "refused too late: a refusal takes longer than an append"),
        ({"flood": FLOOD._replace(recovered_s=1.1)}, "recovered too late: after 1.1 s"),
    ],
)
def test_everything_that_is_wrong_is_reported(changes, expected):
    result = make_result()
    for name, value in changes.items():
        setattr(result, name, value)
    assert judge(result) == [expected]
    assert write_report(result).endswith(f"verdict: 1 faults\n{expected}")
