"""A small soak: everything at once, for a short time. The command runs for longer, with more clients and Spark."""

from pathlib import Path

import pytest

from mainstem.testing.soak.run import Plan, run_soak
from tests.soak import sabotage

pytestmark = pytest.mark.slow


async def test_a_server_under_everything_at_once_keeps_its_promises(tmp_path: Path, seed: int) -> None:
    result = await run_soak(tmp_path, Plan(minutes=0.25, seed=seed, idle=100, busy=60, spark=False, flood_s=3))
    assert result.violations == []
    assert {kind for kind, _ in result.calls} >= {"Append", "Read", "Submit", "SyncPage", "LogPage"}
    assert result.restarts == 1
    assert result.connected > 0
    assert result.looks > 0
    assert result.webhooks > 0
    assert result.flood is not None
    assert result.flood.refused > 0


async def test_a_server_that_keeps_what_it_should_forget_is_found(tmp_path: Path, seed: int) -> None:
    plan = Plan(minutes=0.15, seed=seed, idle=0, busy=60, spark=False, flood_s=0, leave_s=0)
    result = await run_soak(tmp_path, plan, sabotage.keep_everything)
    assert {violation.rule for violation in result.violations} >= {"expired too late", "leak"}
