import os

import pytest

from mainstem.errors import BadPipelineFile, PipelineLocked
from mainstem.pipeline.service.state import JobState, LastRound, StateDirectory


def test_a_state_is_read_as_it_was_written(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    assert directory.read("lake") is None
    last = LastRound(started_s=1.5, seconds=2.0, rows=3, committed_id=4, lag=5, faults=6)
    state = JobState(
        job="archive", schedule="every 5m", next_s=7.25, rounds=1, committed_id=4, success_s=3.5, last=last
    )
    directory.write("lake", state)
    assert directory.read("lake") == state
    assert directory.checkpoint("lake") == tmp_path / "state" / "jobs" / "lake"


def test_a_damaged_state_is_named(tmp_path):
    directory = StateDirectory(tmp_path)
    (tmp_path / "rounds").mkdir()
    (tmp_path / "rounds" / "lake.json").write_text("{")
    with pytest.raises(BadPipelineFile, match=r"rounds/lake\.json is damaged"):
        directory.read("lake")


def test_only_one_service_holds_the_lock(tmp_path):
    directory = StateDirectory(tmp_path / "state")
    assert directory.find_holder() is None
    with directory.lock():
        assert directory.find_holder() == os.getpid()
        with (
            pytest.raises(PipelineLocked, match=f"is in use by process {os.getpid()}"),
            StateDirectory(directory.path).lock(),
        ):
            pass
        assert directory.find_holder() == os.getpid()
    assert directory.find_holder() is None
    with directory.lock():
        pass
