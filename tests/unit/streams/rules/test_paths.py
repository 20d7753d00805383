import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadPath
from mainstem.streams.rules.paths import parse_path


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a", "a"),
        (b"a/b/c", "a/b/c"),
        (b"a/", "a/"),
        (b"a.b/c..d/.e", "a.b/c..d/.e"),
        (b"...", "..."),
        (b"a%20b", "a b"),
        (b"a+b", "a+b"),
        (b"%C3%A9t%c3%a9", "été"),
        (b"%E2%82%AC/%F0%9F%8C%8A", "€/🌊"),
        (b"a%2Fb", "a/b"),
        (b"100%25", "100%"),
        (b"%2541", "%41"),
        (b"tenant:1@x,y;z=1&a'b(c)!*$~-_", "tenant:1@x,y;z=1&a'b(c)!*$~-_"),
    ],
)
def test_a_path_is_decoded_exactly_once(raw, path):
    assert parse_path(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b".",
        b"..",
        b"../secret",
        b"a/../b",
        b"a/..",
        b"a/./b",
        b"%2e%2e",
        b"%2E%2e/secret",
        b"a/%2e%2e/b",
        b"a%2f..%2fb",
        b"%2e",
        b"/",
        b"/a",
        b"//",
        b"a//b",
        b"a//",
        b"%2Fa",
        b"a/%2Fb",
    ],
)
def test_dots_and_empty_segments_are_refused_in_every_spelling(raw):
    with pytest.raises(BadPath):
        parse_path(raw)


@pytest.mark.parametrize("raw", [b"a%00b", b"%00", b"a%0Ab", b"a%0d%0ab", b"%1F", b"%7f", b"a\x00b", b"a\tb"])
def test_control_characters_are_refused(raw):
    with pytest.raises(BadPath):
        parse_path(raw)


@pytest.mark.parametrize("raw", [b"%ff", b"%C3", b"a%80", b"%ED%A0%80", b"%C0%AE%C0%AE", b"\xff", b"caf\xe9"])
def test_invalid_utf8_is_refused(raw):
    with pytest.raises(BadPath):
        parse_path(raw)


@pytest.mark.parametrize("raw", [b"%", b"%4", b"%zz", b"a%", b"a%2", b"%u0041", b"%%41"])
def test_a_broken_percent_sign_is_refused(raw):
    """If it were accepted, `%zz` would be a second name of the stream `%25zz`."""
    with pytest.raises(BadPath):
        parse_path(raw)


def test_the_path_limit_counts_decoded_bytes():
    longest = limits.STREAM_PATH_BYTES_MAX
    assert parse_path(b"a" * longest) == "a" * longest
    assert parse_path(b"%61" * longest) == "a" * longest
    assert parse_path(b"%C3%A9" * (longest // 2)) == "é" * (longest // 2)
    for raw in (b"a" * (longest + 1), b"%C3%A9" * (longest // 2 + 1), b"a" * 10_000):
        with pytest.raises(BadPath):
            parse_path(raw)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_path_or_a_bad_path(raw):
    try:
        path = parse_path(raw)
    except BadPath:
        return
    assert path
    assert not any(segment in (".", "..") for segment in path.split("/"))
    assert not any(ord(character) < 0x20 for character in path)
