"""Globs for stream paths: `*` matches within one segment, `**` any number of segments (protocol section 6.2)."""

from functools import lru_cache
from typing import Final

from mainstem import limits
from mainstem.errors import BadRequest

PATTERN_BYTES_MAX: Final = 1024
ANY: Final = "**"


class Glob:
    """A compiled glob: a state machine whose set of states is an integer.

    Bit n means "the first n segments of the glob have matched". One pass over the path follows all possible matches at
    once, so no path can cause backtracking.
    """

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
    """Return whether a glob matches a whole path.

    A trailing slash is part of the name: `team` matches the stream `team` but not `team/`, which is another stream.
    """
    return compile_glob(pattern).matches(path)


def check_glob(pattern: str) -> None:
    if not pattern or len(pattern.encode()) > PATTERN_BYTES_MAX or "\0" in pattern or pattern.startswith("/"):
        raise BadRequest(
            f"a pattern must be 1 to {PATTERN_BYTES_MAX} bytes long and relative to the stream root: no leading slash"
        )
    if any(ANY in segment and segment != ANY for segment in pattern.split("/")):
        raise BadRequest("** matches whole segments, so it must be a segment of its own, as in a/**/b")


def check_cost(pattern: str) -> None:
    """Raise BadRequest if a glob would be too expensive to match against every path that changes."""
    segments = pattern.split("/")
    if len(segments) > limits.GLOB_SEGMENTS_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_SEGMENTS_MAX} segments; this one has {len(segments)}")
    if segments.count(ANY) > limits.GLOB_ANY_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_ANY_MAX} ** segments; this one has {segments.count(ANY)}")
    stars = pattern.count("*") - 2 * segments.count(ANY)
    if stars > limits.GLOB_STARS_MAX:
        raise BadRequest(f"a pattern has at most {limits.GLOB_STARS_MAX} stars within segments; this one has {stars}")


class GlobIndex:
    """Finds the patterns that match a path. It groups patterns by their first segment and caches the answers.

    `advance` looks a path up in steps, each over a bounded number of patterns.
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
        """Try up to `tries_max` more patterns on a path, and return how many were tried.

        `knows` returns True for the path once all patterns have been tried.
        """
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
    """A lookup that has not tried all patterns yet."""

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
