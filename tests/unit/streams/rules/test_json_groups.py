"""Large arrays are split into groups only between elements, whatever the elements contain."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadJson, EmptyArray, TooManyMessages
from mainstem.streams.rules.json_groups import depth, split
from mainstem.streams.rules.json_mode import (
    begins_message,
    find_end,
    find_message,
    message_groups,
    messages,
    parse_body,
)

texts = st.text(st.sampled_from('a"\\\\[]{},: é\\n'), max_size=12)
values = st.recursive(
    st.none() | st.integers(-9, 99) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=15,
)
elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def inside(array, **options):
    return json.dumps(array, **options)[1:-1].encode()


@given(st.lists(values, max_size=12), st.integers(1, 40), st.booleans())
@example(["\\\\"] * 6, 4, True)
@example(['\\\\"', ",", "]"] * 3, 3, True)
def test_the_groups_together_are_all_elements_and_none_is_split(array, group_bytes, ascii_only):
    data = inside(array, ensure_ascii=ascii_only)
    groups = list(split(data, 0, len(data), group_bytes))
    found = [element for group in groups for element in elements(b"[%b]" % data[group])]
    assert [json.loads(bytes(element)) for element in found] == array
    assert sum(group.stop - group.start + 1 for group in groups) == len(data) + 1  # with a comma between any two


def test_a_group_is_bounded_unless_one_element_is_larger():
    data = b",".join([b'{"a":[1,"],["]}'] * 10_000)
    sizes = [group.stop - group.start for group in split(data, 0, len(data), 1_000)]
    assert max(sizes) <= 2_000
    assert len(sizes) > 50


@pytest.mark.parametrize("array", [[], [[]], {"a": [{}, [[1]]]}, "[[[", ['"[', {"[": 1}], [[[[]]], [[]]]])
def test_the_depth_counts_containers_and_not_brackets_in_strings(array):
    def deep(value):
        if isinstance(value, dict):
            value = list(value.values())
        return 1 + max(map(deep, value), default=0) if isinstance(value, list) else 0

    data = json.dumps(array).encode()
    assert depth(data, 0, len(data)) == deep(array)


# The same through JSON mode, with bodies that are large enough to be split

LARGE = limits.PARSE_INLINE_BYTES_MAX
FILLER = b'"' + b"x" * 1000 + b'",'


def large(middle: bytes) -> bytes:
    return b" [ " + FILLER * (LARGE // 1000) + middle + b" ,1 ] "


def test_a_large_array_is_stored_like_a_small_one():
    stored = parse_body(large(b'{"a": [1 ,2]} , "\xc3\xa9\\\\" ,[ ]'))
    filler = LARGE // 1000
    assert stored.number == filler + 4
    assert stored.data == FILLER * filler + b'{"a": [1 ,2]},"\xc3\xa9\\\\",[ ],1,'


@pytest.mark.parametrize(
    "middle",
    [
        b"",
        b"1,",
        b",1",
        b"1 2",
        b"1],[2",
        b"]",
        b"[",
        b"{]",
        b'"',
        b'"\xff"',
        b"\xc3",
        b"nul",
        b'"\\"',
        b"NaN",
        b'{"a"}',
    ],
)
def test_a_large_array_that_is_not_json_is_refused(middle):
    with pytest.raises(BadJson):
        parse_body(large(middle))


@pytest.mark.parametrize("end", [b"", b"]", b"1", b"1]]", b"1]x", b"1],", b"1][", b"1}"])
def test_text_after_a_large_array_is_checked(end):
    with pytest.raises(BadJson):
        parse_body(b"[" + FILLER * (LARGE // 1000) + end)


def test_an_empty_array_is_empty_even_with_white_space_in_it():
    with pytest.raises(EmptyArray):
        parse_body(b"[" + b" " * 2 * LARGE + b"]")


def test_depth_is_limited_in_large_arrays_too():
    fits, too_deep = (b"[" * levels + b"]" * levels for levels in (limits.JSON_DEPTH_MAX - 1, limits.JSON_DEPTH_MAX))
    assert parse_body(large(fits)).number
    with pytest.raises(BadJson, match="levels deep"):
        parse_body(large(too_deep))


@pytest.mark.parametrize("message", [b"1", b"{}", b'"' + b"x" * 20 + b'"'])
def test_an_append_holds_a_limited_number_of_messages(message):
    most = limits.APPEND_MESSAGES_MAX
    assert parse_body(b"[" + b",".join([message] * most) + b"]").number == most
    with pytest.raises(TooManyMessages) as refusal:
        parse_body(b"[" + b",".join([message] * (most + 1)) + b"]")
    assert refusal.value.facts == {"limit_messages": most}


def test_commas_within_messages_do_not_count():
    message = b"[" + b"1," * 2_000 + b"1]"
    assert parse_body(b"[" + b",".join([message] * 100) + b"]").number == 100


STORED = parse_body(b"[" + b",".join(b'{"n":%d,"t":"],"}' % number for number in range(60_000)) + b"]").data


def test_stored_messages_are_found_in_groups():
    groups = list(message_groups(STORED))
    assert len(groups) > 3
    assert [part for _, parts in groups for part in parts] == messages(STORED)


def test_the_positions_of_messages_in_a_large_record_are_found():
    parts = [bytes(part) for part in messages(STORED)]
    for number in (0, 1, 20_000, 59_999):
        at = find_message(STORED, number)
        assert at == sum(len(part) + 1 for part in parts[:number])
        assert begins_message(STORED, at)
        assert not begins_message(STORED, at + 1)
    assert find_message(STORED, 60_000) == len(STORED)
    assert find_message(STORED, 60_001) is None
    assert begins_message(STORED, len(STORED))


def test_a_part_of_a_record_ends_at_a_message_boundary():
    first = len(messages(STORED)[0]) + 1
    assert find_end(STORED, 1) == first, "there is at least one message"
    for bytes_max in (first, 1_000, 400_000):
        end = find_end(STORED, bytes_max)
        assert bytes_max - 30 < end <= bytes_max
        assert begins_message(STORED, end)
    assert find_end(STORED, len(STORED)) == len(STORED)
