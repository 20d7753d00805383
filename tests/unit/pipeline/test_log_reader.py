"""Which pruned history counts as lost."""

import pytest

from mainstem.errors import HistoryLost, OtherLog
from mainstem.pipeline.log_reader import Head, check_head, check_history


@pytest.mark.parametrize(("pruned", "known", "after"), [(0, 0, 0), (50, 0, 50), (50, 0, 80), (50, 50, 0), (40, 50, 10)])
def test_history_that_was_read_or_known_to_be_pruned_is_not_lost(pruned, known, after):
    check_history(Head(100, pruned), known, after)


@pytest.mark.parametrize(("pruned", "known", "after"), [(1, 0, 0), (51, 0, 50), (90, 50, 60)])
def test_history_that_was_pruned_unread_is_lost(pruned, known, after):
    with pytest.raises(HistoryLost, match=r"unless all pruned rows belong to.*failOnDataLoss=false"):
        check_history(Head(100, pruned), known, after)


def test_a_log_that_ends_before_the_checkpoint_is_another_log():
    check_head(Head(100, 0), 100)
    with pytest.raises(OtherLog, match=r"another server, or the server was restored from an older backup"):
        check_head(Head(99, 0), 100)
