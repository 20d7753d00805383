from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from mainstem.client.state.messages import Change, Control, Malformed, name_kind, parse_message, quote

INSERT = {"type": "user", "key": "1", "value": {"name": "Ada"}, "headers": {"operation": "insert"}}
ALL_HEADERS = {
    "operation": "update",
    "txid": "t1",
    "timestamp": "2026-01-15T10:30:00Z",
    "from": "browser",
    "offset": "5_0",
}


def with_headers(**headers):
    return {**INSERT, "headers": headers}


@pytest.mark.parametrize("operation", ["insert", "update", "upsert"])
def test_an_operation_with_a_value_is_a_change(operation):
    change = parse_message(with_headers(operation=operation))
    assert change == Change(type="user", key="1", operation=operation, value={"name": "Ada"})


def test_every_header_is_read():
    change = parse_message({**INSERT, "old_value": None, "headers": ALL_HEADERS})
    assert isinstance(change, Change)
    assert change.old_value is None
    assert (change.txid, change.timestamp) == ("t1", "2026-01-15T10:30:00Z")
    assert (change.origin, change.offset) == ("browser", "5_0")


@pytest.mark.parametrize("timestamp", ["2016-12-31T23:59:60Z", "2026-01-15t10:30:00.1234567890123+01:00"])
def test_a_timestamp_is_passed_on_even_if_python_cannot_hold_it(timestamp):
    change = parse_message(with_headers(operation="insert", timestamp=timestamp))
    assert isinstance(change, Change)
    assert change.timestamp == timestamp


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_every_json_value_is_a_value(value):
    change = parse_message({**INSERT, "value": value})
    assert isinstance(change, Change)
    assert change.value == value


def test_a_delete_needs_no_value():
    without = parse_message({"type": "user", "key": "1", "headers": {"operation": "delete"}})
    assert isinstance(without, Change)
    assert without.value is UNSET
    null = parse_message({"type": "user", "key": "1", "value": None, "headers": {"operation": "delete"}})
    assert isinstance(null, Change)
    assert null.value is None


@pytest.mark.parametrize("kind", ["snapshot-start", "snapshot-end", "reset"])
def test_a_control_message_has_a_kind_and_perhaps_an_offset(kind):
    assert parse_message({"headers": {"control": kind}}) == Control(kind)
    assert parse_message({"headers": {"control": kind, "offset": "7"}}) == Control(kind, "7")


def test_unknown_members_are_ignored():
    message = {**INSERT, "colour": "red", "headers": {"operation": "insert", "shard": 4}}
    assert parse_message(message) == parse_message(INSERT)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (None, "it is null, not an object"),
        (True, "it is a boolean, not an object"),
        (1.5, "it is a number, not an object"),
        ("insert", "it is a string, not an object"),
        ([INSERT], "it is an array, not an object"),
        ({}, "it has no headers"),
        ({"headers": None}, "headers is null"),
        ({"headers": ["operation"]}, "headers is an array"),
        ({"headers": {}}, "its headers have neither an operation nor a control"),
        (with_headers(operation="insert", control="reset"), "its headers have both an operation and a control"),
        (with_headers(operation="replace"), "headers.operation is 'replace'; it must be one of insert, update, upsert"),
        (with_headers(operation="INSERT"), "headers.operation is 'INSERT'"),
        (with_headers(operation=None), "headers.operation is null"),
        (with_headers(operation=["insert"]), "headers.operation is an array"),
        (with_headers(control="explode"), "headers.control is 'explode'; it must be one of snapshot-start"),
        (with_headers(control={}), "headers.control is an object"),
        ({"headers": {"control": "reset", "offset": 5}}, "headers.offset is a number; it must be a string"),
        ({"headers": {"control": "reset", "offset": ""}}, "headers.offset is empty"),
        ({**INSERT, "type": 1}, "type is a number; it must be a string"),
        ({**INSERT, "type": ""}, "type is empty"),
        ({**INSERT, "key": 1}, "key is a number; it must be a string"),
        ({**INSERT, "key": ""}, "key is empty"),
        ({**INSERT, "key": None}, "key is null; it must be a string"),
        ({name: INSERT[name] for name in ("type", "value", "headers")}, "it has no key"),
        ({name: INSERT[name] for name in ("key", "value", "headers")}, "it has no type"),
        ({name: INSERT[name] for name in ("type", "key", "headers")}, "the insert of 'user' '1' has no value"),
        (with_headers(operation="insert", txid=""), "headers.txid is empty"),
        (with_headers(operation="insert", txid=7), "headers.txid is a number"),
        (with_headers(operation="insert", timestamp="yesterday"), "headers.timestamp is 'yesterday', which is not RFC"),
        (with_headers(operation="insert", timestamp="2026-13-01T00:00:00Z"), "which is not RFC 3339"),
        (with_headers(operation="insert", **{"from": {}}), "headers.from is an object"),
    ],
)
def test_a_malformed_message_is_refused_with_the_reason(message, reason):
    with pytest.raises(Malformed) as raised:
        parse_message(message)
    assert reason in str(raised.value)


def test_an_error_shortens_what_it_quotes_and_keeps_it_on_one_line():
    assert quote("a" * 1_000) == f"'{'a' * 60}…'"
    assert "\n" not in quote("a\nb\x1b[31m")
    with pytest.raises(Malformed) as raised:
        parse_message(with_headers(operation="x\n" * 1_000_000))
    assert len(str(raised.value)) < 400


def test_json_kinds_have_names():
    values: list[Any] = [None, True, 1, "", [], {}]
    names = ["null", "a boolean", "a number", "a string", "an array", "an object"]
    assert [name_kind(value) for value in values] == names


@pytest.mark.parametrize(
    "message",
    [
        INSERT,
        {**INSERT, "old_value": [1], "headers": ALL_HEADERS},
        {"type": "user", "key": "1", "headers": {"operation": "delete"}},
        {"type": "user", "key": "1", "value": None, "headers": {"operation": "delete"}},
        {"headers": {"control": "reset"}},
        {"headers": {"control": "snapshot-start", "offset": "1_2"}},
    ],
)
def test_a_message_that_is_parsed_and_written_again_is_the_same(message):
    assert parse_message(message).to_message() == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)
NAMES = st.sampled_from(["operation", "control", "txid", "timestamp", "from", "offset"])
WORDS = st.sampled_from(["insert", "update", "upsert", "delete", "reset", "snapshot-start", ""])
MESSAGES = st.fixed_dictionaries(
    {}, optional={"type": JSON, "key": JSON, "value": JSON, "headers": JSON | st.dictionaries(NAMES, WORDS | JSON)}
)


@given(MESSAGES | JSON)
def test_any_json_value_is_a_message_or_malformed(value):
    try:
        message = parse_message(value)
    except Malformed:
        return
    again = parse_message(msgspec.json.decode(msgspec.json.encode(message.to_message())))
    assert again == message
