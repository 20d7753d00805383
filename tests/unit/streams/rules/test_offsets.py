import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import BadOffset
from mainstem.streams.rules.offsets import Offset, Sentinel, parse_offset

offsets = st.builds(Offset, st.integers(0, 10**16 - 1), st.integers(0, 10**16 - 1))


def test_an_offset_is_two_numbers_of_sixteen_digits():
    assert str(Offset(3, 1234)) == "0000000000000003_0000000000001234"


@given(offsets)
def test_every_offset_round_trips(offset):
    assert parse_offset(str(offset)) == offset


@given(offsets, offsets)
def test_offsets_sort_as_text_in_stream_order(one, other):
    assert (str(one) < str(other)) == (one < other)


@given(offsets)
def test_an_offset_needs_no_escaping_in_a_query(offset):
    assert not set(str(offset)) & set(",&=?/%+ ")


def test_both_sentinels_are_recognised():
    assert parse_offset("-1") is Sentinel.BEGINNING
    assert parse_offset("now") is Sentinel.NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "0",
        "1",
        "-2",
        "NOW",
        "now ",
        " -1",
        "--1",
        "null",
        "abc",
        "0_0",
        "0000000000000000",
        "0000000000000000_",
        "_0000000000000000",
        "0000000000000000-0000000000000000",
        "000000000000000_0000000000000000",
        "00000000000000000_0000000000000000",
        "0000000000000000_00000000000000000",
        "0000000000000000_0000000000000000\n",
        "0000000000000000_000000000000000a",
        "0000000000000000_-000000000000001",
        "+000000000000000_0000000000000000",
        "0000000000000000_0000000000000000,0000000000000000_0000000000000000",
        "\0",
        "٠" * 16 + "_" + "٠" * 16,
        "../../etc/passwd",
        "9" * 10_000,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(BadOffset) as caught:
        parse_offset(text)
    assert len(caught.value.detail) < 400  # absurd input is not repeated in full
