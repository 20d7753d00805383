"""Tells a flipped bit from an unfinished write, by the effect of the bit on a checksum.

The journal has a CRC-32, on which each bit has an effect of its own. SQLite's write-ahead log has two sums of 32-bit
words, which are called `Sums` here.
"""

import struct
from collections.abc import Iterator
from typing import Final

CRC_POLYNOMIAL: Final = 0xEDB88320
"""That of `zlib.crc32`, with the lowest bit first."""
WORD_MAX: Final = 0xFFFFFFFF
Sums = tuple[int, int]


def flip_bit(data: bytes, bit: int) -> bytes:
    """Return the data with one bit changed. Bit 0 is the lowest one of the first byte."""
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def find_bit_in_crc(difference: int, size: int) -> int | None:
    """Return the bit whose flip changes the CRC-32 of this many bytes by `difference`; None if there is no such bit.

    Several bits together may have the same effect as one, so confirm the result with another checksum.
    """
    effect = CRC_POLYNOMIAL  # of the last bit
    for bit in range(8 * size - 1, -1, -1):
        if effect == difference:
            return bit
        effect = effect >> 1 ^ (CRC_POLYNOMIAL if effect & 1 else 0)
    return None


def compute_sums(data: bytes, order: str, before: Sums = (0, 0)) -> Sums:
    """Return the sums over pairs of words in this byte order (`<` or `>`), which continue the sums before them."""
    first, second = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for word in words:
        first = (first + word + second) & WORD_MAX
        second = (second + next(words) + first) & WORD_MAX
    return first, second


def differ_in_one_bit(data: bytes, order: str, before: Sums, expected: Sums) -> bool:
    """Return whether the data would have the expected sums if one of its bits were flipped.

    Which bit that is often remains open: high bits of words that are far apart have the same effect.
    """
    found = compute_sums(data, order, before)
    missing = (expected[0] - found[0]) & WORD_MAX, (expected[1] - found[1]) & WORD_MAX
    return any(
        (first << bit & WORD_MAX, second << bit & WORD_MAX)
        in (missing, (-missing[0] & WORD_MAX, -missing[1] & WORD_MAX))
        for first, second in _list_effects(len(data) // 4)
        for bit in range(32)
    )


def _list_effects(words: int) -> Iterator[Sums]:
    """Yield what adding 1 to a word adds to the sums, for each word from the last to the first."""
    even, odd = (1, 1), (0, 1)
    for _ in range(words // 2):
        yield odd
        yield even
        even, odd = _pass_pair(even), _pass_pair(odd)


def _pass_pair(effect: Sums) -> Sums:
    """Return what is left of an effect after another pair of words."""
    first = (effect[0] + effect[1]) & WORD_MAX
    return first, (effect[1] + first) & WORD_MAX
