"""A flipped bit is found by its effect on a checksum."""

import random
from zlib import crc32

import pytest

from mainstem.log.store.sqlite.bit_flips import find_flipped_bit, flip_bit


def make_data(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 100])
def test_every_bit_is_found_by_its_effect_on_the_crc(size: int) -> None:
    data = make_data(size)
    for bit in range(8 * size):
        flipped = flip_bit(data, bit)
        assert find_flipped_bit(crc32(data, 7) ^ crc32(flipped, 7), size) == bit


def test_no_bit_explains_an_unchanged_crc() -> None:
    assert find_flipped_bit(0, 100) is None
