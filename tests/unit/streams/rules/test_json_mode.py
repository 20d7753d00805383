import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import BadJson, EmptyArray, MessageTooLarge
from mainstem.streams.rules.json_mode import NOTHING, Messages, messages, parse_body, wrap

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def sent_alone(text):
    return [bytes(message) for message in messages(parse_body(text.encode()).data)]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"event":"created"}',
        '{"b":1,"a":2}',
        '{"a":1,"a":2}',
        '{"spaced" :  [ 1 ,2 ]  }',
        "1",
        "-0",
        "1.0",
        "1.10",
        "1e2",
        "1E+02",
        "100000000000000000000000000000000000000001",
        "-9007199254740993",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1e999",
        "true",
        "false",
        "null",
        '""',
        '"plain"',
        '"é€🌊"',
        '"\\u00e9\\ud83c\\udf0a"',
        '"\\/\\b\\f\\n\\r\\t\\"\\\\"',
        '"\\u0000"',
        '"[1,2]"',
        '"a,b"',
        '{"nested":{"deep":[[[]],{}]}}',
    ],
)
def test_a_message_is_kept_byte_for_byte(text):
    """Serialising again would lose the order of keys, repeated keys, 1.0, exponents, big integers and escapes."""
    assert parse_body(text.encode()) == Messages(text.encode() + b",", 1)
    assert parse_body(b"[%b]" % text.encode()) == Messages(text.encode() + b",", 1)
    assert sent_alone(text) == [text.encode()]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('[{"event":"a"},{"event":"b"}]', ['{"event":"a"}', '{"event":"b"}']),
        ("[[1,2],[3,4]]", ["[1,2]", "[3,4]"]),
        ("[[[1,2,3]]]", ["[[1,2,3]]"]),
        ("[[]]", ["[]"]),
        ("[[],[]]", ["[]", "[]"]),
        ('["a,b","c]","[d"]', ['"a,b"', '"c]"', '"[d"']),
        ("[null]", ["null"]),
    ],
)
def test_an_array_is_flattened_exactly_one_level(body, expected):
    stored = parse_body(body.encode())
    assert stored.number == len(expected)
    assert [bytes(message).decode() for message in messages(stored.data)] == expected


def test_white_space_between_messages_is_removed_and_within_them_kept():
    assert parse_body(b' \r\n\t[ 1 ,\n { "b": 1,  "a":2 } ,[ ] ]\n ').data == b'1,{ "b": 1,  "a":2 },[ ],'
    assert parse_body(b'\n  {"a": 1}\t\r\n').data == b'{"a": 1},'


def test_an_empty_array_cannot_be_appended_but_creates_an_empty_stream():
    for body in (b"[]", b" [ ] ", b"\n[\n]\n"):
        with pytest.raises(EmptyArray):
            parse_body(body)
        assert parse_body(body, empty_array_ok=True) == NOTHING


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"]",
        b"[1",
        b"[1]]",
        b"[1,]",
        b"[,1]",
        b"[1,,2]",
        b"[1 2]",
        b"1 2",
        b"{}{}",
        b"[1]x",
        b'{"a":1,}',
        b"{a:1}",
        b"{'a':1}",
        b"{1:1}",
        b'{"a" 1}',
        b'{"a":}',
        b'{"a":1 "b":2}',
        b'"open',
        b'"\\x"',
        b'"\\u12"',
        b'"\\uZZZZ"',
        b'"\t"',
        b'"\x00"',
        b'["a\nb"]',
        b'{"a\nb":1}',
        b"01",
        b"-01",
        b"+1",
        b".5",
        b"1.",
        b"1e",
        b"-",
        b"0x10",
        b"1_000",
        b"[01]",
        b"tru",
        b"truex",
        b"None",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"[NaN]",
        b'[{"a":NaN}]',
        b"//c\n1",
        b"[1/**/]",
        b"\x00",
        b"[1]\x00",
        b"[\x0b1]",
        b"1\xc2\xa0",
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'["\xc3"]',
        b'["\xed\xa0\x80"]',
        b'["\xc0\xaf"]',
        b'{"\xff":1}',
        b"\xff\xfe[\x001\x00]\x00",
    ],
)
def test_invalid_json_or_utf8_is_refused(body):
    with pytest.raises(BadJson):
        parse_body(body)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_endless_nesting_is_refused_and_does_not_crash(opening, closing):
    with pytest.raises(BadJson):
        parse_body(opening * 100_000 + b"1" + closing * 100_000)
    with pytest.raises(BadJson):
        parse_body(opening * 1_000_000)


def test_reasonable_nesting_is_accepted():
    body = b'{"a":' * 200 + b"1" + b"}" * 200
    assert parse_body(body).data == body + b","


def test_what_is_accepted_does_not_depend_on_the_stack_of_the_caller():
    """Otherwise the server could store a message whose boundaries it cannot find again."""

    def deeper(frames, work, *arguments):
        return deeper(frames - 1, work, *arguments) if frames else work(*arguments)

    for depth in range(400, 1000, 20):
        body = b'{"a":' * depth + b"1" + b"}" * depth
        try:
            stored = parse_body(body)
        except BadJson:
            continue
        assert deeper(100, parse_body, body) == stored
        assert len(deeper(100, messages, stored.data)) == 1


def test_an_empty_read_is_an_empty_array():
    assert wrap(b"") == b"[]"
    assert messages(b"") == []


def test_a_read_of_several_appends_is_one_array():
    stored = parse_body(b'{"a":1}').data + parse_body(b"[2,[3]]").data
    assert wrap(stored) == b'[{"a":1},2,[3]]'


@given(st.lists(json_values, min_size=1, max_size=6), st.sampled_from([None, 1]))
def test_messages_survive_the_round_trip(values, indent):
    texts = [json.dumps(value, ensure_ascii=False, indent=indent) for value in values]
    stored = parse_body(("[" + " , ".join(texts) + "]").encode())
    assert stored.number == len(values)
    assert [bytes(message).decode() for message in messages(stored.data)] == texts
    assert json.loads(wrap(stored.data)) == values


@given(json_values.filter(lambda value: not isinstance(value, list)))
def test_a_single_value_is_stored_like_an_array_of_one(value):
    text = json.dumps(value).encode()
    assert parse_body(text) == parse_body(b"[%b]" % text)


@given(st.binary(max_size=40) | st.text("[]{},:\"\\ \n0123456789.eE+-truefalsn'", max_size=40).map(str.encode))
def test_other_parsers_accept_every_accepted_message(body):
    try:
        stored = parse_body(body, empty_array_ok=True)
    except BadJson:
        return
    assert len(json.loads(wrap(stored.data), parse_constant=pytest.fail)) == stored.number


@pytest.mark.parametrize("around", [b"%b", b"[%b]", b"[1,%b]", b"[%b,{}]", b'[ {"a": %b} ]'])
def test_a_single_message_has_its_own_limit(monkeypatch, around):
    monkeypatch.setattr(limits, "JSON_MESSAGE_BYTES_MAX", 2 * limits.MIB)
    assert parse_body(around % (b'"' + b"x" * limits.MIB + b'"')).number
    with pytest.raises(MessageTooLarge) as refused:
        parse_body(around % (b'"' + b"x" * 3 * limits.MIB + b'"'))
    assert refused.value.facts == {"limit_bytes": 2 * limits.MIB}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"a": nope}', "the body is not valid JSON at byte 7"),
        (b'[1, {"a" 2}]', "the body is not valid JSON at byte 9"),
        (b'{"a": 1', "the body is not valid JSON: it ends too early"),
        (b'"\xff"', "the body is not valid UTF-8 at byte 1"),
        (b"[" + b"[" * 600 + b"]" * 601, "the body is nested more than 500 levels deep"),
        (b"[" + b'"x",' * 200_000 + b"y]", "the body is not valid JSON at byte 800001"),
    ],
)
def test_a_body_that_is_not_json_is_refused_with_the_byte(body, detail):
    with pytest.raises(BadJson) as refused:
        parse_body(body, messages_max=10**6)
    assert refused.value.detail == detail
