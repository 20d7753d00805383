"""Globs over stream paths: `*` within one segment, `**` for any number of segments (protocol section 6.2)."""

from functools import lru_cache

from mainstem.errors import BadRequest

ANY = None
"""`**` as a segment of a compiled glob."""
Segment = tuple[str, ...] | None
"""The literal pieces between the stars of a segment; one piece is a literal segment."""


@lru_cache(4096)
def compile_glob(pattern: str) -> tuple[Segment, ...]:
    return tuple(ANY if part == "**" else tuple(part.split("*")) for part in pattern.split("/"))


def check_glob(pattern: str) -> None:
    if not pattern or len(pattern.encode()) > 1024 or "\0" in pattern or pattern.startswith("/"):
        raise BadRequest("a pattern is 1 to 1024 bytes, relative to the stream root")
    if any("**" in segment and segment != "**" for segment in pattern.split("/")):
        raise BadRequest("** stands for whole segments: it must be a segment of its own")


def matches(pattern: str, path: str) -> bool:
    """Whether a glob matches a whole path. No expression engine: its time could be made to explode."""
    glob, segments = compile_glob(pattern), path.removesuffix("/").split("/")
    at = number = 0
    star, star_number = -1, 0
    while number < len(segments):
        if at < len(glob) and glob[at] is ANY:
            star, star_number = at, number
            at += 1
        elif at < len(glob) and _matches_segment(glob[at], segments[number]):
            at += 1
            number += 1
        elif star >= 0:  # let the last ** take one segment more
            star_number += 1
            at, number = star + 1, star_number
        else:
            return False
    return all(segment is ANY for segment in glob[at:])


def _matches_segment(pieces: Segment, segment: str) -> bool:
    assert pieces is not None
    if len(pieces) == 1:
        return segment == pieces[0]
    first, *middle, last = pieces
    if len(segment) < len(first) + len(last) or not (segment.startswith(first) and segment.endswith(last)):
        return False
    at, end = len(first), len(segment) - len(last)
    for piece in middle:
        at = segment.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return bool(segment)


class GlobIndex:
    """Which patterns match a path. Patterns are grouped by their first segment, answers are remembered."""

    def __init__(self) -> None:
        self._by_first: dict[str, dict[str, int]] = {}
        self._known: dict[str, frozenset[str]] = {}

    def add(self, pattern: str) -> None:
        group = self._by_first.setdefault(self._first(pattern), {})
        group[pattern] = group.get(pattern, 0) + 1
        self._known.clear()

    def remove(self, pattern: str) -> None:
        group = self._by_first[self._first(pattern)]
        group[pattern] -= 1
        if not group[pattern]:
            del group[pattern]
        self._known.clear()

    def find(self, path: str) -> frozenset[str]:
        known = self._known.get(path)
        if known is None:
            first = path.partition("/")[0]
            groups = (self._by_first.get(first, {}), self._by_first.get("*", {}))
            known = frozenset(pattern for group in groups for pattern in group if matches(pattern, path))
            if len(self._known) >= 65_536:
                self._known.clear()
            self._known[path] = known
        return known

    @staticmethod
    def _first(pattern: str) -> str:
        first = pattern.partition("/")[0]
        return "*" if "*" in first else first
