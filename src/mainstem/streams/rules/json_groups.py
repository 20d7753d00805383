"""Splitting the contents of a large JSON array into groups of whole elements, so that no single call of a parser takes
long.

A parser in C keeps the interpreter lock until it returns. For 16 MiB of tiny messages that is a second in which the
event loop cannot run, whichever thread the parser runs in. So a large array is first split at its top-level commas:
its brackets are counted window by window, with a few calls that run at memory speed.

This only finds where to split. The parser decides whether a group is valid JSON; if every group is, so is the array.
"""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, NamedTuple

GROUP_BYTES: Final = 256 * 1024  # a few milliseconds for the parser, even if all elements are tiny

BACKSLASHES = re.compile(rb"\\*")
PUNCTUATION = re.compile(rb"[\[\]{},]")
OPENING, COMMA = b"[{", b","
STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class Window(NamedTuple):
    start: int
    end: int
    in_string: bool
    """Whether the window begins within a string."""
    bare: bytes
    """The part of its bytes that is outside strings."""

    def levels(self, level: int) -> Iterator[int]:
        """Yield the number of open containers, before the window and after each bracket in it, without running Python
        code per byte."""
        return accumulate(map(STEPS.__getitem__, self.bare.translate(None, NO_BRACKETS)), initial=level)


def windows(data: bytes, start: int, end: int, size: int = GROUP_BYTES) -> Iterator[Window]:
    in_string = False
    while start < end:
        until = min(start + size, end)
        if until < end and data[until - 1] == 0x5C:  # do not split an escape
            run = BACKSLASHES.match(data, until, end)
            assert run is not None
            until = min(run.end() + 1, end)
        parts = data[start:until].replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        yield Window(start, until, in_string, b"".join(parts[in_string::2]))
        in_string ^= not len(parts) % 2
        start = until


def split(data: bytes, start: int, end: int, group_bytes: int = GROUP_BYTES) -> Iterator[slice]:
    """Yield groups of the elements between two positions, each of one to two times `group_bytes`, without the comma
    after it.

    A group is larger only if a single element is. It is empty only if there is no element, or a comma too many.
    """
    level = 0
    begin = start
    for window in windows(data, start, end, group_bytes):
        levels = list(window.levels(level))
        if window.start > begin and min(levels) <= 0:
            comma = _find_comma(data, window, level)
            if comma is not None:
                yield slice(begin, comma)
                begin = comma + 1
        level = levels[-1]
    yield slice(begin, end)


def depth(data: bytes, start: int, end: int) -> int:
    """Return the maximum depth of nested containers."""
    level = deepest = 0
    for window in windows(data, start, end):
        levels = list(window.levels(level))
        level, deepest = levels[-1], max(deepest, max(levels))
    return deepest


def _find_comma(data: bytes, window: Window, level: int) -> int | None:
    """Return the position of the first top-level comma in the window."""
    text = data[window.start : window.end].replace(rb"\\", b"aa").replace(rb"\"", b"aa")
    at = window.start
    for number, part in enumerate(text.split(b'"')):
        if number % 2 == window.in_string:
            for match in PUNCTUATION.finditer(part):
                byte = match[0]
                if byte == COMMA:
                    if not level:
                        return at + match.start()
                elif byte in OPENING:
                    level += 1
                else:
                    level -= 1
        at += len(part) + 1
    return None
