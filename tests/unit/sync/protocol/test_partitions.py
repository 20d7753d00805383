import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.partitions import (
    FILTER_PARTITIONS_MAX,
    NAME_BYTES_MAX,
    NAME_CHARS_MAX,
    PARTITIONS_MAX,
    normalise,
    normalise_filter,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
both = pytest.mark.parametrize("rule", [normalise, normalise_filter])


def refused(rule, partitions):
    with pytest.raises(ValidationFailed) as failure:
        rule(partitions)
    assert failure.value.field == "partitions"
    return failure.value.detail


@both
def test_names_are_normalised_to_nfc_and_then_deduplicated(rule):
    assert rule(["e\u0301", "é", "e\u0301"]) == ("é",)


@both
def test_names_are_sorted_by_their_utf8_bytes(rule):
    assert rule(["\U0001f600", "\uffff", "é", "b", "a", "B"]) == ("B", "a", "b", "é", "\uffff", "\U0001f600")


@both
def test_names_are_neither_trimmed_nor_case_folded(rule):
    assert rule([" a", "a ", "A", "a", "ﬁ", "fi"]) == (" a", "A", "a", "a ", "fi", "ﬁ")


@both
@given(partitions=st.lists(names, min_size=1, max_size=20))
def test_the_result_is_the_sorted_set_of_nfc_names(rule, partitions):
    composed = {unicodedata.normalize("NFC", name) for name in partitions}
    assert rule(partitions) == tuple(sorted(composed, key=str.encode))


@both
@given(partitions=st.lists(names, min_size=1, max_size=20), data=st.data())
def test_input_order_and_form_do_not_matter_and_normalising_twice_changes_nothing(rule, partitions, data):
    once = rule(partitions)
    shuffled = data.draw(st.permutations(partitions))
    assert rule([unicodedata.normalize("NFD", name) for name in shuffled]) == once
    assert rule(once) == once


@both
@pytest.mark.parametrize("name", ["a" * NAME_BYTES_MAX, "é" * (NAME_BYTES_MAX // 2), "\U0001f600" * 32])
def test_a_name_has_up_to_128_bytes_of_utf8(rule, name):
    assert rule([name]) == (name,)
    assert "128 bytes" in refused(rule, [name + "b"])


@both
def test_the_length_counts_after_nfc(rule):
    """42 letters of three bytes that decompose into eight bytes: 336 bytes are sent, 126 are kept."""
    composed = "\u1f82" * 42
    assert rule([unicodedata.normalize("NFD", composed)]) == (composed,)
    assert "128 bytes" in refused(rule, ["\u0958" * 22])  # excluded from composition: three bytes become six


def test_no_character_decomposes_into_more_than_four():
    """This justifies refusing a name by its number of characters before it is normalised."""
    longest = max(len(unicodedata.normalize("NFD", chr(code))) for code in range(0x110000))
    assert longest * NAME_BYTES_MAX == NAME_CHARS_MAX


@both
def test_a_long_run_of_combining_marks_is_refused(rule):
    assert "128 bytes" in refused(rule, ["a" + "\u0315\u0300" * 500_000])


@both
@pytest.mark.parametrize("partitions", [[""], ["a", ""]])
def test_an_empty_name_is_refused(rule, partitions):
    assert "empty" in refused(rule, partitions)


@both
@pytest.mark.parametrize("name", ["\ud800", "a\udfffb", "\ud800" * 200])
def test_a_lone_surrogate_is_refused(rule, name):
    assert "surrogate" in refused(rule, [name])


def test_an_event_belongs_to_at_least_one_partition():
    assert "at least one" in refused(normalise, [])


def test_a_sync_list_may_be_empty():
    assert normalise_filter([]) == ()


@pytest.mark.parametrize(("rule", "most"), [(normalise, PARTITIONS_MAX), (normalise_filter, FILTER_PARTITIONS_MAX)])
def test_the_names_are_counted_after_deduplication(rule, most):
    full = [f"p{number}" for number in range(most)]
    assert len(rule(full + full)) == most
    assert f"at most {most}" in refused(rule, [*full, "one more"])


def test_the_limits_are_those_of_the_protocol():
    assert (NAME_BYTES_MAX, PARTITIONS_MAX) == (128, 64)
