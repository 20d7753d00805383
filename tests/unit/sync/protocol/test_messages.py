"""Malformed messages are refused with the field and what is expected of it, in our own words."""

import json

import pytest

from mainstem.errors import SyncBadRequest, SyncError, SyncVersionUnsupported, ValidationFailed
from mainstem.sync.protocol.canonical import decode_event
from mainstem.sync.protocol.messages import parse_envelope
from mainstem.sync.protocol.requests import decode_request

VALID = {"type": "heartbeat", "payload": {}, "protocol_version": "1.0", "msg_id": "m"}


def without(field):
    return {name: value for name, value in VALID.items() if name != field}


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("{", "the message is not JSON"),
        ("[]", "the message must be a JSON object"),
        (without("type"), "type is missing from the message"),
        (VALID | {"type": 5}, "type must be a string"),
        (without("payload"), "payload is missing from the message"),
        (VALID | {"payload": [1]}, "payload must be an object"),
        (without("protocol_version"), "protocol_version is missing from the message"),
        (VALID | {"protocol_version": 1.0}, "protocol_version must be a string"),
        (VALID | {"msg_id": [1]}, "msg_id must be a string or an integer"),
        (VALID | {"msg_id": True}, "msg_id must be a string or an integer"),
        (
            '{"type": 5, "type": "heartbeat", "payload": {}, "protocol_version": "1.0"}',
            "a field of the message is repeated with a value of the wrong type",
        ),
    ],
)
def test_a_malformed_message_is_refused_by_field(message, detail):
    with pytest.raises(SyncBadRequest) as raised:
        parse_envelope((message if isinstance(message, str) else json.dumps(message)).encode())
    assert raised.value.detail == detail


def test_another_protocol_version_is_named_with_the_supported_one():
    with pytest.raises(SyncVersionUnsupported) as raised:
        parse_envelope(json.dumps(VALID | {"protocol_version": "2.0"}).encode())
    assert raised.value.detail == "this server supports only protocol version 1.0"


def draft(**changes):
    return {"id": "a", "partitions": ["p"], "event": {}} | changes


@pytest.mark.parametrize(
    ("type_", "payload", "fault"),
    [
        ("connect", "{}", "client_id is missing"),
        ("connect", {"client_id": None}, "client_id must be a string, not null"),
        ("submit_events", {"events": {}}, "events must be an array, not an object"),
        ("submit_events", {"events": [draft(), 5]}, "events[1] must be an object, not an integer"),
        ("submit_events", {"events": [draft(id=7)]}, "events[0].id must be a string, not an integer"),
        ("submit_events", {"events": [{"id": "a", "partitions": []}]}, "events[0].event is missing"),
        ("submit_event", draft(partitions="p"), "partitions must be an array or null, not a string"),
        ("sync", {"partitions": ["a", 1], "since_committed_id": 0}, "partitions[1] must be a string, not an integer"),
        ("sync", {"partitions": []}, "since_committed_id is missing"),
        (
            "sync",
            {"partitions": [], "since_committed_id": 0.5},
            "since_committed_id must be an integer, not a decimal number",
        ),
        (
            "sync",
            {"partitions": [], "since_committed_id": True},
            "since_committed_id must be an integer, not true or false",
        ),
        (
            "sync",
            {"partitions": [], "since_committed_id": 0, "limit": "9"},
            "limit must be an integer or null, not a string",
        ),
        ("sync", '{"partitions": [], "since_committed_id": 1e999}', "since_committed_id is a number out of range"),
        (
            "sync",
            '{"partitions": 1, "partitions": [], "since_committed_id": 0}',
            "partitions must be an array, not an integer",
        ),
    ],
)
def test_a_malformed_payload_is_refused_by_field(type_, payload, fault):
    text = payload if isinstance(payload, str) else json.dumps(payload)
    envelope, placeholder = parse_envelope(
        b'{"type": "%b", "payload": %b, "protocol_version": "1.0"}' % (type_.encode(), text.encode())
    )
    with pytest.raises(SyncBadRequest) as raised:
        decode_request(envelope, placeholder)
    assert raised.value.detail == f"the payload of {type_} is malformed: {fault}"


@pytest.mark.parametrize(
    ("type_", "payload", "detail"),
    [
        ("connect", {"client_id": ""}, "client_id must be 1 to 256 bytes of UTF-8"),
        ("submit_events", {"events": []}, "a request must have 1 to 100 events; this one has 0"),
        ("submit_events", {"events": [draft(), draft()]}, "the id 'a' occurs twice in the request"),
        ("submit_event", draft(event=[]), "the event with id 'a' must be an object"),
        ("submit_event", draft(partitions=None), "partitions is missing from the event with id 'a'"),
        (
            "submit_event",
            draft(partition="q"),
            "partition and partitions of the event with id 'a' differ; send only partitions",
        ),
        ("sync", {"partitions": [], "since_committed_id": -1}, "since_committed_id must be 0 or greater"),
        ("sync", {"partitions": [""], "since_committed_id": 0}, "a partition name must not be empty"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_its_bounds(type_, payload, detail):
    envelope, placeholder = parse_envelope(json.dumps(VALID | {"type": type_, "payload": payload}).encode())
    with pytest.raises(SyncError) as raised:
        decode_request(envelope, placeholder)
    assert raised.value.detail == detail


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (b'{"a": 1e999}', "a number in the event is out of range"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number in the event is out of range"),
        (b"[1]", "the event must be a JSON object"),
        (b'{"a": }', "the event is not valid JSON"),
        (b'{"a": "\xff"}', "the event is not UTF-8"),
    ],
)
def test_an_event_without_a_canonical_form_is_refused_with_the_reason(event, detail):
    with pytest.raises(ValidationFailed) as raised:
        decode_event(event)
    assert raised.value.detail == detail
