"""Canonical equality: RFC 8785, with the RFC's own vectors and the `rfc8785` package as oracles."""

import hashlib
import json
import math
import struct
from contextlib import nullcontext

import pytest
import rfc8785
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mainstem import limits
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol import canonical
from mainstem.sync.protocol.canonical import canonicalize, content_hash, content_hashes
from tests.support.examples import examples

RFC_8785_APPENDIX_B = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
awkward_text = st.text(
    st.sampled_from('aé"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\ud7ff\ue000\uffff\U00010000\U0001f600'), max_size=4
)
texts = any_text | awkward_text
safe_integers = st.integers(-limits.INTEGER_MAX, limits.INTEGER_MAX)
doubles = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", struct.pack(">Q", bits))[0])
finite_doubles = doubles.filter(math.isfinite) | st.floats(allow_nan=False, allow_infinity=False)


def json_trees(scalars):
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=5),
        max_leaves=20,
    )


json_values = json_trees(st.none() | st.booleans() | safe_integers | finite_doubles | texts)
json_objects = st.dictionaries(texts, json_values, max_size=5)


def hash_of(event, partitions=("p",)):
    return content_hash(partitions, event.encode())


def same(one, other):
    return hash_of(one) == hash_of(other)


@pytest.mark.parametrize(("bits", "text"), RFC_8785_APPENDIX_B)
def test_numbers_are_written_as_the_rfc_lists_them(bits, text):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonicalize(number) == text.encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_nan_and_infinity_have_no_canonical_form(bits):
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    with pytest.raises(ValidationFailed) as refused:
        canonicalize({"deep": [number]})
    assert refused.value.field == "event"


@given(finite_doubles)
@settings(max_examples=examples(500))
def test_a_number_reads_back_as_the_same_double_and_agrees_with_the_oracle(number):
    written = canonicalize(number)
    assert float(written) == number
    assert written == rfc8785.dumps(number)


@given(st.integers(min_value=-(2**1030), max_value=2**1030))
@example(2**53)
@example(2**53 + 1)
@example(-(2**63) - 1)
@example(2**64)
@example(2**1024 - 2**970)
@example(2**1024 - 2**970 - 1)
def test_an_integer_is_written_as_the_double_it_is(number):
    """The oracle refuses integers beyond 2^53, so compare with the double."""
    try:
        double = float(number)
    except OverflowError:
        with pytest.raises(ValidationFailed):
            canonicalize(number)
        return
    assert canonicalize(number) == canonicalize(double) == rfc8785.dumps(double)


def test_the_rfc_sample_of_section_3_2_2_comes_out_byte_for_byte():
    sample = rb"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    assert canonicalize(json.loads(sample)) == (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_the_keys_of_the_rfc_sample_are_sorted_by_utf_16_units():
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    assert list(json.loads(canonicalize(names)).values()) == [2, 4, 6, 7, 1, 5, 3]


@pytest.mark.parametrize("before_bmp_end", ["\U00010000", "\U0001f600", "\U0010ffff"])
@pytest.mark.parametrize("late", ["\ue000", "\uf8ff", "\uffff"])
def test_an_astral_key_sorts_before_private_use_and_later_keys_of_the_bmp(before_bmp_end, late):
    assert list(json.loads(canonicalize({late: 1, before_bmp_end: 2, "a" + late: 3, "a" + before_bmp_end: 4}))) == [
        "a" + before_bmp_end,
        "a" + late,
        before_bmp_end,
        late,
    ]


@given(json_values)
@settings(max_examples=examples(300))
def test_any_value_agrees_with_the_oracle(value):
    assert canonicalize(value) == rfc8785.dumps(value)


@given(json_values)
@settings(max_examples=examples(300))
def test_the_fast_path_and_the_exact_serializer_write_the_same(value):
    assert canonicalize(value) == canonical._serialize(value)


@given(json_trees(st.booleans() | safe_integers | st.floats(0.0001, 1e15, exclude_max=True) | any_text))
@settings(max_examples=examples(300))
def test_plain_values_are_written_alike_by_both_encoders(value):
    assume(canonical._is_plain(value))
    assert canonical._encode_sorted(value) == canonical._serialize(value)


def test_an_ordinary_event_takes_the_fast_path():
    event = {"type": "note", "payload": {"title": "Grüße", "at": 1735689600123, "share": 0.25, "tags": ["a", None]}}
    assert canonical._is_plain(event)


@pytest.mark.parametrize("value", [1.0, -0.0, 1e-5, 1e15 + 0.5, 2**53, {"\U0001f600": 1}, {"a": [{"b": 3.0}]}])
def test_values_that_the_encoder_writes_differently_do_not_take_the_fast_path(value):
    assert not canonical._is_plain(value)


@given(st.dictionaries(texts, json_values, max_size=5), st.lists(any_text, max_size=3))
def test_the_hash_is_sha_256_over_the_canonical_partitions_and_event(event, partitions):
    expected = hashlib.sha256(rfc8785.dumps({"partitions": partitions, "event": event})).digest()
    assert content_hash(partitions, json.dumps(event).encode()) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"n":1}', '{"n":1.0}'),
        ('{"n":1}', '{"n":1e0}'),
        ('{"n":100}', '{"n":1E+2}'),
        ('{"n":0}', '{"n":-0}'),
        ('{"n":0}', '{"n":-0.0}'),
        ('{"n":0}', '{"n":1e-400}'),
        ('{"n":9007199254740993}', '{"n":9007199254740992}'),
        ('{"n":10000000000000000000000}', '{"n":1e22}'),
        ('{"n":0.1}', '{"n":0.1000000000000000055511151231257827021181583404541015625}'),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":{"c":1,"b":2}}', '{"a":{"b":2,"c":1}}'),
        ('{"a":[1,2]}', ' {\n"a" :\t[ 1 , 2 ] }\r\n'),
        ('{"a":"A"}', r'{"a":"\u0041"}'),
        ('{"a":"/"}', r'{"a":"\/"}'),
        ('{"a":"😀"}', r'{"a":"\ud83d\ude00"}'),
        ('{"A":1}', r'{"\u0041":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
    ],
)
def test_different_spellings_of_a_value_are_the_same_content(one, other):
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"n":1}', '{"n":"1"}'),
        ('{"n":1}', '{"n":true}'),
        ('{"n":0}', '{"n":null}'),
        ('{"n":null}', "{}"),
        ('{"n":9007199254740992}', '{"n":9007199254740994}'),
        ('{"n":0.1}', '{"n":0.10000000000000002}'),
        ('{"a":[1,2]}', '{"a":[2,1]}'),
        ('{"a":"x"}', '{"a":"X"}'),
        ('{"a":"x"}', '{"a":"x "}'),
        ('{"a":"é"}', '{"a":"e\u0301"}'),
        ('{"a":[]}', '{"a":{}}'),
    ],
)
def test_other_values_are_other_content(one, other):
    """Strings in an event are not normalised: the two ways to write é stay different."""
    assert not same(one, other)


@given(st.lists(st.tuples(st.lists(any_text, max_size=3), json_objects), max_size=5))
@settings(max_examples=examples(300))
def test_many_events_have_the_same_hashes_as_one_by_one(pairs):
    texts = [(names, json.dumps(event).encode()) for names, event in pairs]
    found = content_hashes([names for names, _ in texts], [text for _, text in texts])
    assert found == [content_hash(names, text).hex() for names, text in texts]


@given(st.lists(json_objects, max_size=3))
@settings(max_examples=examples(300))
def test_a_batch_takes_the_fast_path_if_every_event_of_it_does(events):
    assert canonical._are_plain(events) == all(map(canonical._is_plain, events))


def test_different_partitions_are_different_content():
    assert hash_of("{}", ["a"]) != hash_of("{}", ["a", "b"])


@given(json_objects, st.randoms(use_true_random=False))
def test_key_order_and_whitespace_never_change_the_hash(event, random):
    items = list(event.items())
    random.shuffle(items)
    assert hash_of(json.dumps(event)) == hash_of(json.dumps(dict(items), indent=2, ensure_ascii=False))


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True).filter(
        lambda text: math.isfinite(float(text))
    )
)
@settings(max_examples=examples(300))
def test_a_number_is_hashed_as_the_double_nearest_to_its_text(text):
    assert hash_of(f'{{"n":{text}}}') == hash_of(json.dumps({"n": float(text)}))


@pytest.mark.parametrize(
    "event",
    [
        b'{"n":1e400}',
        b'{"n":-1e400}',
        b'{"n":' + b"9" * 310 + b"}",
        b'{"n":' + b"9" * 5000 + b"}",
        rb'{"s":"\ud800"}',
        rb'{"s":"\udc00"}',
        rb'{"s":"\ud800x"}',
        rb'{"s":"\ud800\u0041"}',
        rb'{"\udead":1}',
        b'{"s":"\xed\xa0\x80"}',
        b'{"s":"\xff"}',
        b'{"\xff":1}',
        b'{"n":NaN}',
        b'{"n":Infinity}',
        b"[1]",
        b'"text"',
        b"{",
        b"",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_an_event_without_a_canonical_form_is_refused(event):
    with pytest.raises(ValidationFailed) as refused:
        content_hash(["p"], event)
    assert refused.value.field == "event"
    with pytest.raises(ValidationFailed) as refused_too:
        content_hashes([["p"], ["p"]], [b"{}", event])
    assert refused_too.value.detail == refused.value.detail


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}, {"\ud800": 1.0}, [1.0, "\ud800"]])
def test_a_lone_surrogate_has_no_canonical_form(value):
    with pytest.raises(ValidationFailed) as refused:
        canonicalize(value)
    assert refused.value.field == "event"


def nested(levels, innermost):
    for _ in range(levels):
        innermost = [innermost]
    return innermost


@pytest.mark.parametrize("innermost", ["plain", 1.0], ids=["fast", "exact"])
def test_the_depth_limit_is_the_same_on_both_paths(innermost):
    assert canonicalize(nested(limits.JSON_DEPTH_MAX, innermost)).count(b"[") == limits.JSON_DEPTH_MAX
    with pytest.raises(ValidationFailed, match="levels deep"):
        canonicalize(nested(limits.JSON_DEPTH_MAX + 1, innermost))
    for levels, is_refused in ((limits.JSON_DEPTH_MAX - 1, False), (limits.JSON_DEPTH_MAX, True)):
        text = json.dumps({"a": nested(levels, innermost)}).encode()
        with pytest.raises(ValidationFailed, match="levels deep") if is_refused else nullcontext():
            content_hashes([["p"], ["p"]], [b"{}", text])


def test_an_empty_container_counts_as_a_level():
    with pytest.raises(ValidationFailed, match="levels deep"):
        canonicalize(nested(limits.JSON_DEPTH_MAX, []))


@pytest.mark.parametrize("value", [(1,), {1: 2}, {"a": b"bytes"}, {1, 2}])
def test_a_value_that_is_not_json_is_an_error_of_the_caller(value):
    with pytest.raises(TypeError):
        canonicalize(value)
