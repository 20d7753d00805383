"""What retain remembers: it is used only for the same log and the same policies."""

import pytest

from mainstem.pipeline.jobs.retain.checkpoint import (
    NAME,
    PartitionProgress,
    StreamProgress,
    digest_policies,
    load_checkpoint,
    save_checkpoint,
)
from mainstem.pipeline.jobs.retain.policies import parse_policies

POLICIES = parse_policies("[[policy]]\npartitions='a'\nmax_events=1")
OTHERS = parse_policies("[[policy]]\npartitions='a'\nmax_events=2")


@pytest.fixture
def saved(tmp_path):
    checkpoint = load_checkpoint(tmp_path, "log 1", POLICIES, 10)
    assert (checkpoint.counted, checkpoint.partitions) == (0, {})
    checkpoint.counted = 10
    checkpoint.partitions["a"] = PartitionProgress(3, 4, 5, 6)
    checkpoint.streams["s"] = StreamProgress(0, 7)
    save_checkpoint(tmp_path, checkpoint)
    return checkpoint


def test_the_next_round_continues(tmp_path, saved):
    assert load_checkpoint(tmp_path, "log 1", POLICIES, 12) == saved
    assert digest_policies(POLICIES) != digest_policies(OTHERS)


@pytest.mark.parametrize(
    ("log", "policies", "head"), [("log 2", POLICIES, 12), ("log 1", OTHERS, 12), ("log 1", POLICIES, 9)]
)
def test_what_is_about_another_log_or_other_policies_does_not_count(tmp_path, saved, log, policies, head):
    found = load_checkpoint(tmp_path, log, policies, head)
    assert (found.counted, found.partitions, found.streams) == (0, {}, {})


def test_a_damaged_file_is_as_good_as_none(tmp_path, saved):
    (tmp_path / NAME).write_bytes(b"{")
    assert load_checkpoint(tmp_path, "log 1", POLICIES, 12).counted == 0
