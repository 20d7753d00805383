import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadRequest
from mainstem.globs import GlobIndex, check_cost, matches

TABLE = [
    # pattern, paths that match, paths that do not match
    ("a", ["a"], ["b", "aa", "a/b", "A", "a/"]),
    ("a/b", ["a/b"], ["a", "a/b/c", "a/bb", "a/b/"]),
    ("a/", ["a/"], ["a", "a/b"]),
    ("*", ["a", "abc", "ü", "a.b"], ["a/b", "a/b/c"]),
    ("a/*", ["a/b", "a/bcd", "a/*"], ["a", "a/", "a/b/", "a/b/c", "b/a", "ab/c"]),
    ("*/b", ["a/b", "x.y/b"], ["b", "a/b/b", "a/c"]),
    ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
    ("*/*", ["a/b"], ["a", "a/b/c"]),
    ("**", ["a", "a/", "a/b", "a/b/c/d"], []),
    ("a/**", ["a", "a/", "a/b", "a/b/", "a/b/c"], ["b", "ab", "ab/c", "b/a"]),
    ("**/c", ["c", "a/c", "a/b/c"], ["cc", "a/cc", "c/a"]),
    ("a/**/c", ["a/c", "a/b/c", "a/x/y/c"], ["a", "c", "ac", "a/cx", "xa/c"]),
    ("**/b/**", ["b", "a/b", "b/c", "a/b/c", "b/b"], ["a", "a/bb/c"]),
    ("**/*", ["a", "a/b"], []),
    ("*/**", ["a", "a/b", "a/b/c"], []),
    ("**/**", ["a", "a/b"], []),
    ("a*", ["a", "ab", "a.b"], ["ba", "a/b", "ab/c"]),
    ("*a", ["a", "ba"], ["ab", "b/a"]),
    ("a*c", ["ac", "abc", "abbc"], ["a", "c", "a/c", "abcd"]),
    ("a*b*c", ["abc", "axbxc", "abbc"], ["ac", "acb"]),
    (
        "user-*/events-*.json",
        ["user-1/events-2.json", "user-/events-.json"],
        ["user-1/events-2xjson", "user-1/events-2"],
    ),
    ("a.b", ["a.b"], ["axb"]),
    ("a+(b)[c]?", ["a+(b)[c]?"], ["aa(b)c", "abc"]),
    ("a?", ["a?"], ["ab", "a"]),
    ("[ab]", ["[ab]"], ["a"]),
    ("{a,b}", ["{a,b}"], ["a", "b"]),
    ("é/*", ["é/ü"], ["e/ü"]),
]


@pytest.mark.parametrize(("pattern", "hits", "misses"), TABLE, ids=[row[0] for row in TABLE])
def test_one_star_stays_within_a_segment_and_two_match_any_number_of_segments(pattern, hits, misses):
    assert [path for path in hits if not matches(pattern, path)] == []
    assert [path for path in misses if matches(pattern, path)] == []


@pytest.mark.parametrize(("pattern", "hits", "misses"), TABLE, ids=[row[0] for row in TABLE])
def test_the_index_finds_every_matching_pattern(pattern, hits, misses):
    index = GlobIndex()
    index.add(pattern)
    assert [path for path in hits if index.find(path) != {pattern}] == []
    assert [path for path in misses if index.find(path)] == []


def test_the_index_agrees_with_each_single_pattern():
    index = GlobIndex()
    patterns = [row[0] for row in TABLE]
    for pattern in patterns:
        index.add(pattern)
    for path in {path for _, hits, misses in TABLE for path in hits + misses}:
        expected = {pattern for pattern in patterns if matches(pattern, path)}
        assert index.find(path) == expected
        assert index.find(path) == expected  # also from the cache


def test_a_pattern_is_counted_as_often_as_it_was_added():
    index = GlobIndex()
    index.add("a/*")
    index.add("a/*")
    index.remove("a/*")
    assert index.find("a/b") == {"a/*"}
    index.remove("a/*")
    assert index.find("a/b") == frozenset()


def test_the_index_drops_cached_answers_when_patterns_change():
    index = GlobIndex()
    assert index.find("a/b") == frozenset()
    index.add("a/*")
    assert index.find("a/b") == {"a/*"}
    index.add("**")
    assert index.find("a/b") == {"a/*", "**"}
    index.remove("a/*")
    assert index.find("a/b") == {"**"}


def test_the_index_handles_many_patterns_and_paths():
    index = GlobIndex()
    chance = random.Random(7)
    patterns = {f"tenant-{number}/**" for number in range(500)} | {f"*/kind-{number}" for number in range(50)}
    for pattern in patterns:
        index.add(pattern)
    for _ in range(500):
        tenant, kind = chance.randrange(600), chance.randrange(60)
        expected = {f"tenant-{tenant}/**", f"*/kind-{kind}"} & patterns
        assert index.find(f"tenant-{tenant}/kind-{kind}") == expected


SEGMENTS = st.lists(st.text("ab*", min_size=1, max_size=3).filter(lambda s: "**" not in s) | st.just("**"), min_size=1)


def match_slowly(pattern: list[str], path: list[str]) -> bool:
    """Apply the rule as the protocol states it, one segment at a time."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return match_slowly(pattern[1:], path) or (bool(path) and match_slowly(pattern, path[1:]))
    return bool(path) and match_segment(pattern[0], path[0]) and match_slowly(pattern[1:], path[1:])


def match_segment(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return match_segment(pattern[1:], text) or (bool(text) and match_segment(pattern, text[1:]))
    return text[:1] == pattern[0] and match_segment(pattern[1:], text[1:])


@given(SEGMENTS.filter(lambda s: len(s) <= 4), st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4))
def test_patterns_match_as_the_rule_says(pattern, path):
    assert matches("/".join(pattern), "/".join(path)) is match_slowly(pattern, path)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/".join(["**"] * 340), "/".join("a" * 500) + "/" + "b" * 20),
        ("/".join(["**"] * 300) + "/x", "/".join("a" * 500)),
        ("**/a/" * 100 + "x", "/".join("a" * 500)),
        ("*a" * 400 + "*b", "a" * 1000),
        ("*" + "a*" * 400 + "b", "a" * 1000),
    ],
    ids=["wildcards", "wildcards-and-end", "wildcards-and-segments", "stars", "stars-between"],
)
def test_no_pattern_takes_long_to_match(pattern, path):
    """Anybody may send a pattern, and the event loop matches every append against it: a matcher that backtracks could
    block the server for years."""
    assert len(pattern.encode()) <= 1024
    assert matches(pattern, path) is pattern.endswith("**")


@pytest.mark.parametrize("pattern", ["a/" * 31 + "a", "**/a/" * 4 + "b", "*a*/" * 16 + "b", "/".join("*" * 32)])
def test_a_pattern_within_the_limits_may_be_costly(pattern):
    check_cost(pattern)


@pytest.mark.parametrize(
    ("pattern", "bound"),
    [
        ("a/" * 32 + "a", f"at most {limits.GLOB_SEGMENTS_MAX} segments"),
        ("**/a/" * 5 + "b", f"at most {limits.GLOB_ANY_MAX} \\*\\* segments"),
        ("a" + "*a" * 33, f"at most {limits.GLOB_STARS_MAX} stars"),
    ],
)
def test_a_pattern_beyond_a_limit_is_refused_and_the_limit_named(pattern, bound):
    with pytest.raises(BadRequest, match=bound):
        check_cost(pattern)


def test_a_path_is_matched_in_steps_of_a_limited_number_of_patterns():
    index = GlobIndex()
    patterns = {f"*/{number}" for number in range(25)} | {"*/x", "**"}
    for pattern in patterns:
        index.add(pattern)
    tries = []
    while not index.knows("a/x"):
        tries.append(index.advance("a/x", 10))
    assert tries == [10, 10, 7]
    assert index.find("a/x") == {"*/x", "**"}
    assert index.advance("a/x", 10) == 0


def test_patterns_added_or_removed_between_two_steps_count():
    index = GlobIndex()
    for number in range(25):
        index.add(f"*/{number}")
    index.add("**")
    index.advance("a/x", 10)
    index.remove("**")
    index.add("*/x")
    index.add("a/*")
    while not index.knows("a/x"):
        assert index.advance("a/x", 10) <= 10
    assert index.find("a/x") == {"*/x", "a/*"}
