import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import BadEpochStart, MainstemError, ProducerGap, StaleEpoch
from mainstem.log.records import TopicId
from mainstem.streams.rules.producers import is_duplicate
from mainstem.streams.states import ProducerState, ProducerTuple

TOPIC = TopicId(1)
ACCEPT, DUPLICATE = False, True

# Protocol section 5.2.1: (known epoch and last seq, or None), (epoch, seq) -> the expected outcome
TABLE = [
    (None, (0, 0), ACCEPT),
    (None, (7, 0), ACCEPT),
    (None, (0, 1), ProducerGap),
    (None, (7, 3), ProducerGap),
    ((0, 0), (0, 0), DUPLICATE),
    ((0, 0), (0, 1), ACCEPT),
    ((0, 0), (0, 2), ProducerGap),
    ((0, 5), (0, 0), DUPLICATE),
    ((0, 5), (0, 5), DUPLICATE),
    ((0, 5), (0, 6), ACCEPT),
    ((0, 5), (0, 7), ProducerGap),
    ((0, 5), (1, 0), ACCEPT),
    ((0, 5), (9, 0), ACCEPT),
    ((0, 5), (1, 1), BadEpochStart),
    ((0, 5), (1, 6), BadEpochStart),
    ((2, 5), (1, 0), StaleEpoch),
    ((2, 5), (1, 6), StaleEpoch),
    ((2, 5), (0, 0), StaleEpoch),
    ((2**53 - 1, 2**53 - 2), (2**53 - 1, 2**53 - 1), ACCEPT),
]


@pytest.mark.parametrize(("known", "request_", "expected"), TABLE)
def test_producers_follow_the_table_of_the_protocol(known, request_, expected):
    state = None if known is None else ProducerState(TOPIC, *known)
    asked = ProducerTuple("p", *request_)
    if isinstance(expected, bool):
        assert is_duplicate(state, asked) is expected
    else:
        with pytest.raises(expected):
            is_duplicate(state, asked)


def test_a_gap_names_the_expected_and_the_received_seq():
    with pytest.raises(ProducerGap) as caught:
        is_duplicate(ProducerState(TOPIC, 0, 4), ProducerTuple("p", 0, 9))
    assert caught.value.status == 409
    assert caught.value.headers == {"Producer-Expected-Seq": "5", "Producer-Received-Seq": "9"}


def test_an_unknown_producer_must_start_at_zero():
    with pytest.raises(ProducerGap) as caught:
        is_duplicate(None, ProducerTuple("p", 3, 2))
    assert caught.value.headers == {"Producer-Expected-Seq": "0", "Producer-Received-Seq": "2"}


def test_a_stale_epoch_gets_the_current_one():
    with pytest.raises(StaleEpoch) as caught:
        is_duplicate(ProducerState(TOPIC, 6, 4), ProducerTuple("p", 5, 5))
    assert caught.value.status == 403
    assert caught.value.headers == {"Producer-Epoch": "6"}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40))
def test_accepted_requests_have_no_gaps_within_an_epoch_and_epochs_only_grow(requests):
    known = None
    accepted = []
    for epoch, seq in requests:
        try:
            duplicate = is_duplicate(known, ProducerTuple("p", epoch, seq))
        except MainstemError:
            continue
        if duplicate:
            assert (epoch, seq) in accepted
        else:
            accepted.append((epoch, seq))
            known = ProducerState(TOPIC, epoch, seq)
    assert accepted == sorted(set(accepted))
    for epoch in {epoch for epoch, _ in accepted}:
        seqs = [seq for of, seq in accepted if of == epoch]
        assert seqs == list(range(len(seqs)))
