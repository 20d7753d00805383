"""A flipped bit is recognised by its effect on a checksum."""

import random
from zlib import crc32

import pytest

from mainstem.log.store.sqlite.bit_flips import compute_sums, differ_in_one_bit, find_bit_in_crc, flip_bit


def make_data(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 100])
def test_every_bit_is_found_by_its_effect_on_the_crc(size: int) -> None:
    data = make_data(size)
    for bit in range(8 * size):
        flipped = flip_bit(data, bit)
        assert find_bit_in_crc(crc32(data, 7) ^ crc32(flipped, 7), size) == bit


def test_no_bit_explains_an_unchanged_crc() -> None:
    assert find_bit_in_crc(0, 100) is None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("size", [8, 16, 104])
def test_every_bit_is_recognised_by_its_effect_on_the_sums(size: int, order: str) -> None:
    data, before = make_data(size), (123_456_789, 987_654_321)
    sums = compute_sums(data, order, before)
    for bit in range(8 * size):
        flipped = flip_bit(data, bit)
        assert compute_sums(flipped, order, before) != sums
        assert differ_in_one_bit(flipped, order, before, sums)


def test_other_changes_are_not_taken_for_one_bit() -> None:
    data, before = make_data(8_184), (1, 2)
    sums = compute_sums(data, "<", before)
    assert not differ_in_one_bit(data[:512] + make_data(7_672), "<", before, sums)
    assert not differ_in_one_bit(data[:-512] + bytes(512), "<", before, sums)
    assert not differ_in_one_bit(bytes(8_184), "<", before, sums)
