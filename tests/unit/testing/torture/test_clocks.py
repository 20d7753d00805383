import time
from pathlib import Path

import pytest

from mainstem.testing.torture.clocks import SteerableClock, follow_clock

DAY_S = 24 * 3600


def test_a_process_that_follows_a_clock_jumps_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_s, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", real_s)  # restores both at the end
    monkeypatch.setattr(time, "time_ns", real_ns)
    clock = SteerableClock(tmp_path / "clock")
    follow_clock(clock.file)
    for shift_s in (0.0, DAY_S, -DAY_S):
        clock.jump(shift_s)
        before_s, between_s, after_s = real_s(), time.time(), real_s()
        assert before_s + shift_s - 0.001 <= between_s <= after_s + shift_s + 0.001
        before_ns, between_ns, after_ns = real_ns(), time.time_ns(), real_ns()
        assert before_ns <= between_ns - shift_s * 1_000_000_000 <= after_ns
