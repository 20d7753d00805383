"""Globs over stream paths: `*` within one segment, `**` for any number of segments (protocol section 6.2)."""

from functools import lru_cache
from typing import Final

from mainstem import limits
from mainstem.errors import BadRequest

PATTERN_BYTES_MAX: Final = 1024
ANY: Final = "**"


class Glob:
    """A compiled glob. Bit n of a set of states stands for "the first n segments of the glob are matched", so one pass
    over the path follows all ways to match it at once, and no path can make it go back."""

    __slots__ = ("_accepted", "_any", "_literals", "_stars")

    def __init__(self, pattern: str) -> None:
        parts: list[str] = []
        for part in pattern.split("/"):
            if part != ANY or parts[-1:] != [ANY]:  # two ** in a row mean the same as one
                parts.append(part)
        self._any = 0
        self._literals: dict[str, int] = {}
        stars: dict[tuple[str, ...], int] = {}
        for number, part in enumerate(parts):
            state = 1 << number
            if part == ANY:
                self._any |= state
            elif "*" in part:
                pieces = tuple(part.split("*"))
                stars[pieces] = stars.get(pieces, 0) | state
            else:
                self._literals[part] = self._literals.get(part, 0) | state
        self._stars = tuple(stars.items())
        self._accepted = 1 << len(parts)

    def matches(self, path: str) -> bool:
        states = 1 | (self._any & 1) << 1
        for segment in path.split("/"):
            fits = self._literals.get(segment, 0)
            for pieces, where in self._stars:
                if states & where and _matches_segment(pieces, segment):
                    fits |= where
            states = (states & fits) << 1 | states & self._any
            if not states:
                return False
            states |= (states & self._any) << 1  # ** may stand for no segment
        return bool(states & self._accepted)


def _matches_segment(pieces: tuple[str, ...], segment: str) -> bool:
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


compile_glob = lru_cache(4096)(Glob)


@lru_cache(limits.GLOB_PAIRS_MAX)
def matches(pattern: str, path: str) -> bool:
    """Whether a glob matches a whole path.

    A slash at the end is part of a name: `team` matches the stream `team` and not `team/`, which is another one.
    """
    return compile_glob(pattern).matches(path)


def check_glob(pattern: str) -> None:
    if not pattern or len(pattern.encode()) > PATTERN_BYTES_MAX or "\0" in pattern or pattern.startswith("/"):
        raise BadRequest(f"a pattern is 1 to {PATTERN_BYTES_MAX} bytes, relative to the stream root")
    if any(ANY in segment and segment != ANY for segment in pattern.split("/")):
        raise BadRequest("** stands for whole segments: it must be a segment of its own")


def check_cost(pattern: str) -> None:
    """Refuse a glob that would be costly to match against every path that changes."""
    segments = pattern.split("/")
    if len(segments) > limits.GLOB_SEGMENTS_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_SEGMENTS_MAX} segments; this one has {len(segments)}")
    if segments.count(ANY) > limits.GLOB_ANY_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_ANY_MAX} segments **; this one has {segments.count(ANY)}")
    if pattern.count("*") - 2 * segments.count(ANY) > limits.GLOB_STARS_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_STARS_MAX} stars within its segments")


class GlobIndex:
    """Which patterns match a path. Patterns are grouped by their first segment, answers are remembered.

    A path can be looked up in steps of a bounded number of patterns: see `advance`.
    """

    def __init__(self) -> None:
        self._by_first: dict[str, dict[str, int]] = {}
        self._known: dict[str, frozenset[str]] = {}
        self._lookup: _PartialLookup | None = None

    def add(self, pattern: str) -> None:
        group = self._by_first.setdefault(self._first(pattern), {})
        group[pattern] = group.get(pattern, 0) + 1
        self._known.clear()
        if self._lookup is not None and group[pattern] == 1:
            self._lookup.left.append(pattern)

    def remove(self, pattern: str) -> None:
        group = self._by_first[self._first(pattern)]
        group[pattern] -= 1
        if not group[pattern]:
            del group[pattern]
            if self._lookup is not None:
                self._lookup.forget(pattern)
        self._known.clear()

    def find(self, path: str) -> frozenset[str]:
        while path not in self._known:
            self.advance(path, limits.INTEGER_MAX)
        return self._known[path]

    def knows(self, path: str) -> bool:
        return path in self._known

    def advance(self, path: str, tries_max: int) -> int:
        """Try some more patterns on a path; how many were tried. The path is known once all were."""
        if path in self._known:
            return 0
        lookup = self._lookup
        if lookup is None or lookup.path != path:
            first = path.partition("/")[0]
            groups = (self._by_first.get(first, {}), self._by_first.get("*", {}))
            lookup = self._lookup = _PartialLookup(path, [pattern for group in groups for pattern in group])
        tries = lookup.advance(tries_max)
        if not lookup.left:
            if len(self._known) >= limits.GLOB_ANSWERS_MAX:
                self._known.clear()
            self._known[path] = frozenset(lookup.found)
            self._lookup = None
        return tries

    @staticmethod
    def _first(pattern: str) -> str:
        first = pattern.partition("/")[0]
        return "*" if "*" in first else first


class _PartialLookup:
    """A path that some patterns are still to be tried on."""

    def __init__(self, path: str, left: list[str]) -> None:
        self.path = path
        self.left = left
        self.found: set[str] = set()

    def advance(self, tries_max: int) -> int:
        tries = min(tries_max, len(self.left))
        for _ in range(tries):
            pattern = self.left.pop()
            if matches(pattern, self.path):
                self.found.add(pattern)
        return tries

    def forget(self, pattern: str) -> None:
        self.found.discard(pattern)
        if pattern in self.left:
            self.left.remove(pattern)
