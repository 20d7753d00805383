"""Globs over stream paths: `*` within one segment, `**` for any number of segments (protocol section 6.2)."""

import re
from functools import lru_cache

from mainstem.errors import BadRequest


@lru_cache(4096)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """An expression for the path with a slash before it, so that every segment begins with one."""
    expression = ""
    for segment in pattern.split("/"):
        if segment == "**":
            # Any number of whole segments, none included; it takes the slash before it along.
            expression += "(?:/[^/]+)*"
        else:
            expression += "/" + ("[^/]+" if segment == "*" else "[^/]*".join(map(re.escape, segment.split("*"))))
    return re.compile(expression)


def check_glob(pattern: str) -> None:
    if not pattern or len(pattern.encode()) > 1024 or "\0" in pattern or pattern.startswith("/"):
        raise BadRequest("a pattern is 1 to 1024 bytes, relative to the stream root")
    if any("**" in segment and segment != "**" for segment in pattern.split("/")):
        raise BadRequest("** stands for whole segments: it must be a segment of its own")


def matches(pattern: str, path: str) -> bool:
    return compile_glob(pattern).fullmatch("/" + path) is not None


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
