import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.streams.rules.etags import make_etag, matches
from mainstem.streams.rules.offsets import Offset

START, END = Offset(0, 0), Offset(0, 5)
ETAG = make_etag("a/b", START, END, False)


def test_a_tag_names_the_stream_the_range_and_the_end():
    assert ETAG == '"YS9i:0000000000000000_0000000000000000:0000000000000000_0000000000000005"'
    assert make_etag("a/b", START, END, True) == ETAG[:-1] + ':c"'


def test_every_change_of_the_answer_changes_the_tag():
    others = [
        make_etag("a/b", START, END, True),
        make_etag("a/c", START, END, False),
        make_etag("a/b", Offset(0, 1), END, False),
        make_etag("a/b", START, Offset(0, 6), False),
        make_etag("a/b", Offset(1, 0), Offset(1, 5), False),
    ]
    assert len({ETAG, *others}) == 6


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_tag_is_one_quoted_ascii_string_for_any_path(path):
    tag = make_etag(path, START, END, False)
    assert tag.isascii()
    assert tag[0] == tag[-1] == '"'
    assert not set(tag[1:-1]) & set('", \r\n')
    assert matches(tag, tag)


@pytest.mark.parametrize("header", [ETAG, f"W/{ETAG}", f'"x", {ETAG}', f'{ETAG},"x"', f' W/"y" ,W/{ETAG} ', "*", " * "])
def test_any_tag_of_the_list_matches_weakly(header):
    assert matches(header, ETAG)


@pytest.mark.parametrize("header", ["", '""', '"x"', ETAG[1:-1], ETAG[:-1] + ':c"', '"*"', f"w/{ETAG}", "garbage,,,"])
def test_any_other_list_does_not_match(header):
    assert not matches(header, ETAG)
