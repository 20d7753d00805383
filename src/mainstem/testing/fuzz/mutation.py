"""Random inputs that resemble known ones: the fuzzer of the tests, which needs nothing but a seed."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from mainstem.testing.fuzz.target import Target

INPUT_BYTES_MAX: Final = 1_024
CHANGES_MAX: Final = 4
RANGE_BYTES_MAX: Final = 16
PIECES: Final = (
    *(b"", b"\0", b"\xff", b"\r\n", b"\n", b"\r", b" ", b"\t", b",", b";", b":", b"=", b'"', b"\\", b"/", b"%", b"%00"),
    *(b"0", b"-1", b"1e400", b"9" * 20, b"9007199254740992", b"-0", b"[", b"]", b"{", b"}", b"null", b"true"),
    *(b"\xc3\xa9", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\ud800", b"e\xcc\x81"),
)


def mutate_inputs(target: Target, known: Sequence[bytes], chance: Random) -> Iterator[bytes]:
    """Yield inputs without end. Each is a known one with a few changes."""
    pieces = (*PIECES, *target.pieces)
    while True:
        data = chance.choice(known)
        for _ in range(chance.randint(1, CHANGES_MAX)):
            data = chance.choice(CHANGES)(data, chance, known, pieces)
        yield data[:INPUT_BYTES_MAX]


Change = Callable[[bytes, Random, Sequence[bytes], Sequence[bytes]], bytes]


def _cut(data: bytes, chance: Random) -> tuple[bytes, bytes, bytes]:
    """Return the input in three parts, of which the middle one is short."""
    start = chance.randint(0, len(data))
    end = start + chance.randint(0, RANGE_BYTES_MAX)
    return data[:start], data[start:end], data[end:]


def _remove(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    before, _, after = _cut(data, chance)
    return before + after


def _repeat(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    before, part, after = _cut(data, chance)
    return before + part * chance.choice((2, 3, 40)) + after


def _insert(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    before, part, after = _cut(data, chance)
    return before + chance.choice(pieces) + part + after


def _replace(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    before, _, after = _cut(data, chance)
    return before + chance.choice(pieces) + after


def _change_byte(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _splice(data: bytes, chance: Random, known: Sequence[bytes], pieces: Sequence[bytes]) -> bytes:
    other = chance.choice(known)
    return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]


CHANGES: Final[tuple[Change, ...]] = (_remove, _repeat, _insert, _replace, _change_byte, _splice)
