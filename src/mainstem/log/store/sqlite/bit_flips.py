"""Finds a flipped bit by its effect on a CRC-32: each bit has an effect of its own."""

from typing import Final

CRC_POLYNOMIAL: Final = 0xEDB88320
"""That of `zlib.crc32`, with the lowest bit first."""


def flip_bit(data: bytes, bit: int) -> bytes:
    """Return the data with one bit changed. Bit 0 is the lowest one of the first byte."""
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def find_flipped_bit(difference: int, size: int) -> int | None:
    """Return the bit whose flip changes the CRC-32 of this many bytes by `difference`; None if there is no such bit.

    Several bits together may have the same effect as one, so confirm the result with another checksum.
    """
    effect = CRC_POLYNOMIAL  # of the last bit
    for bit in range(8 * size - 1, -1, -1):
        if effect == difference:
            return bit
        effect = effect >> 1 ^ (CRC_POLYNOMIAL if effect & 1 else 0)
    return None
