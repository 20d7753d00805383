"""JSON bodies in JSON mode, and the canonical form of events: Python's own parser is the oracle."""

import json
from itertools import accumulate
from typing import Any, Final

from mainstem import limits
from mainstem.errors import MainstemError
from mainstem.streams.rules import json_groups, json_mode
from mainstem.sync.protocol.canonical import canonicalize, content_hash, decode_event
from mainstem.testing.fuzz.target import Target

GROUP_BYTES: Final = 4
"""So small that even short inputs have several groups."""


def read_json_body(data: bytes) -> None:
    """A body is accepted if Python accepts it; its messages, joined again, are the same values."""
    expected = _parse(data)
    try:
        stored = json_mode.parse_body(data, empty_array_ok=True)
    except MainstemError:
        assert expected is INVALID or _nests_deeply(data) or b"\\u" in data
        return
    assert expected is not INVALID
    items = expected if isinstance(expected, list) else [expected]
    if not items:
        assert stored == json_mode.NOTHING
        return
    messages = json_mode.messages(stored.data)
    assert [_parse(bytes(message)) for message in messages] == items
    assert len(messages) == stored.number == json_mode.count_messages(stored.data)
    if len(data) <= BOUNDARIES_BYTES_MAX:
        _check_boundaries(stored.data, [len(message) + 1 for message in messages])


def _check_boundaries(stored: bytes, sizes: list[int]) -> None:
    begins = list(accumulate(sizes, initial=0))
    assert [json_mode.find_message(stored, number) for number in range(len(begins))] == begins
    assert json_mode.find_message(stored, len(begins)) is None
    assert [at for at in range(len(stored) + 1) if json_mode.begins_message(stored, at)] == begins
    assert {json_mode.find_end(stored, at) for at in range(len(stored) + 1)} == set(begins[1:])
    groups = list(json_groups.split(stored, 0, len(stored) - 1, GROUP_BYTES))
    assert b",".join(stored[group] for group in groups) == stored[:-1]
    assert {group.start for group in groups} <= set(begins)


BOUNDARIES_BYTES_MAX: Final = 64  # every position is tried
INVALID: Final = object()


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse, parse_int=float, parse_float=float)
    except (ValueError, RecursionError):
        return INVALID


def _refuse(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def _nests_deeply(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > limits.JSON_DEPTH_MAX


def make_canonical(data: bytes) -> None:
    """The canonical form is the same value, and its own canonical form; a retry with it is the same event."""
    event = decode_event(data)
    form = canonicalize(event)
    assert canonicalize(decode_event(form)) == form
    assert content_hash(("p",), form) == content_hash(("p",), data)
    assert _parse(form) == _parse(data)
    json.loads(form, object_pairs_hook=_check_order)


def _check_order(members: list[tuple[str, Any]]) -> None:
    """Check that the keys of an object are in the order of their UTF-16 units (RFC 8785, section 3.2.3)."""
    units = [key.encode("utf-16-be") for key, _ in members]
    assert units == sorted(set(units))


TARGETS: Final = (
    Target(
        "json-bodies",
        read_json_body,
        (
            b'[{"a":[1,"]"]},2.5, "\\"",null]',
            b" \t[ ]\r\n",
            b'{"a":{"b":"\xc3\xa9"}}',
            b"-0.5e+3",
            b'"\\u00e9\\ud83d\\ude00"',
        ),
        (b"[]", b"{}", b'"a":', b"NaN", b"1e5", b"\\", b"\\\\", b'\\"', b"[[[["),
    ),
    Target(
        "canonical",
        make_canonical,
        (
            b'{"b":1.0,"a":[-0,1e21,1e-7,333333333.33333329],"\xc3\xa9":"\\n"}',
            b'{"\xf0\x9f\x98\x80":1,"\xef\xac\xb3":2,"a":9007199254740993}',
            b'{"a":{"a":true,"a":false},"n":123456789012345680000,"x":5e-324}',
        ),
        (b"1e308", b"1e309", b"0.1", b"-0.0", b'"\\ud800"', b'"\\ud83d\\ude00"', b'"a":', b"0.000001", b"1e16"),
    ),
)
