"""Which pruned history counts as lost."""

import pytest

from mainstem.errors import HistoryLost, OtherLog
from mainstem.pipeline.log_reader import Head, Position, check_history, check_position, check_reached


@pytest.mark.parametrize(("pruned", "known", "after"), [(0, 0, 0), (50, 0, 50), (50, 0, 80), (50, 50, 0), (40, 50, 10)])
def test_history_that_was_read_or_known_to_be_pruned_is_not_lost(pruned, known, after):
    check_history(Head(100, pruned), known, after)


@pytest.mark.parametrize(("pruned", "known", "after"), [(1, 0, 0), (51, 0, 50), (90, 50, 60)])
def test_history_that_was_pruned_unread_is_lost(pruned, known, after):
    with pytest.raises(HistoryLost, match=r"rows are lost.*failOnDataLoss=false"):
        check_history(Head(100, pruned), known, after)


def test_a_log_that_ends_before_the_checkpoint_is_another_log():
    check_reached("this query", 100, Head(100, 0))
    with pytest.raises(OtherLog, match=r"another server, or one that was restored from an older backup"):
        check_reached("this query", 100, Head(99, 0))


ORIGINAL = Head(200, 0, "http://one", "abc", ((0, "0"),))
RESTORED = Head(200, 0, "http://two", "abc", ((0, "0"), (100, "1-aa")))
RESTORED_AGAIN = Head(200, 0, "http://three", "abc", ((0, "0"), (100, "1-bb")))
COPY_OF_RESTORED = Head(200, 0, "http://four", "abc", ((0, "0"), (100, "1-aa"), (150, "2-cc")))
COPIES = (ORIGINAL, RESTORED, RESTORED_AGAIN, COPY_OF_RESTORED)


def accepts(head: Head, position: Position) -> bool:
    try:
        check_position(head, position)
    except OtherLog:
        return False
    return True


@pytest.mark.parametrize("read", COPIES)
@pytest.mark.parametrize("found", COPIES)
def test_a_reader_continues_with_a_copy_of_its_log_up_to_the_id_at_which_they_diverge(read, found):
    common = {
        frozenset([ORIGINAL, RESTORED]): 100,
        frozenset([ORIGINAL, RESTORED_AGAIN]): 100,
        frozenset([ORIGINAL, COPY_OF_RESTORED]): 100,
        frozenset([RESTORED, RESTORED_AGAIN]): 100,
        frozenset([RESTORED_AGAIN, COPY_OF_RESTORED]): 100,
        frozenset([RESTORED, COPY_OF_RESTORED]): 150,
    }.get(frozenset([read, found]), 200)
    for reached in (0, 1, 99, 100, 101, 149, 150, 151, 200):
        assert accepts(found, read.locate(reached)) == (reached <= common), reached


def test_a_refusal_is_one_sentence_that_names_both_logs_or_both_epochs():
    with pytest.raises(
        OtherLog, match=r"^this query belongs to log abc, but http://x serves log other\. Use the server"
    ):
        check_position(Head(5, 0, "http://x", "other", ((0, "0"),)), ORIGINAL.locate(0))
    with pytest.raises(
        OtherLog, match=r"committed id 120 in epoch 0 .* epoch 1-aa since committed id 100: it was rest"
    ):
        check_position(RESTORED, ORIGINAL.locate(120))


def test_a_position_or_a_server_of_an_older_version_is_accepted():
    check_position(RESTORED, Position(150))
    check_position(Head(200, 0), ORIGINAL.locate(150))
