"""The sync protocol: messages, drafts, partitions, and what an operator requires of events."""

from typing import Any, Final

import msgspec

from mainstem.access import EVERYBODY
from mainstem.errors import MainstemError
from mainstem.sync.protocol.drafts import prepare_items
from mainstem.sync.protocol.messages import complete_event, decode_stored, encode_stored, parse_envelope
from mainstem.sync.protocol.partitions import normalise, normalise_filter
from mainstem.sync.protocol.requests import SubmitRequest, decode_request
from mainstem.sync.protocol.session import TYPES, Session, SessionOptions
from mainstem.sync.validation.schemas import compile_schema
from mainstem.sync.validation.tree import apply_action, tree_validator
from mainstem.testing.fuzz.target import Target, as_text

NOW_US: Final = 1_800_000_000_000_000


def read_messages(data: bytes) -> None:
    """A message is refused with an error of the protocol, or every draft in it is committed or refused by itself."""
    envelope, placeholder = parse_envelope(data)
    Session(1, SessionOptions()).receive(envelope, placeholder, NOW_US)
    if envelope.type not in TYPES:
        return
    request = decode_request(envelope, placeholder)
    if isinstance(request, SubmitRequest):
        items = prepare_items(request.drafts, EVERYBODY, request.placeholder, keep_values=True)
        assert [item.id for item in items] == [draft.id for draft in request.drafts]
        for item in items:
            if not item.refusal:
                stored = encode_stored(item.id, "c", item.partitions, item.event)
                assert decode_stored(stored).partitions == item.partitions
                assert msgspec.json.decode(complete_event(stored, 7, NOW_US))["id"] == item.id


def normalise_partitions(data: bytes) -> None:
    """Each line of the input is a name. Normalised names stay as they are."""
    names = [as_text(line) for line in data.split(b"\n")]
    found = normalise_filter(names)
    assert normalise_filter(found) == found
    assert list(found) == sorted(set(found), key=str.encode)
    assert normalise(names) == found


def apply_actions(data: bytes) -> None:
    """Each line of the input is an event of tree mode."""
    state: Any = {}
    for line in data.splitlines():
        try:
            event = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        valid = not tree_validator(event, ())
        before = msgspec.json.encode(state)
        try:
            after = apply_action(state, event)
        except MainstemError:
            pass
        else:
            assert valid
            assert msgspec.json.encode(state) == before
            state = after


def check_schemas(data: bytes) -> None:
    """The input is a JSON Schema and, in the next line, a value."""
    try:
        schema, value = (msgspec.json.decode(line) for line in data.split(b"\n", 1))
    except (ValueError, RecursionError):
        return
    if isinstance(schema, dict):
        list(compile_schema(schema)(value, None))


def message(type_: bytes, payload: bytes) -> bytes:
    return b'{"type":"%b","payload":%b,"protocol_version":"1.0","msg_id":"m"}' % (type_, payload)


TARGETS: Final = (
    Target(
        "sync-messages",
        read_messages,
        (
            message(b"connect", b'{"token":"","client_id":"c"}'),
            message(
                b"submit_events", b'{"events":[{"id":"e","partitions":["p","q"],"event":{"n":1.5,"t":"\\ud800"}}]}'
            ),
            message(b"submit_event", b'{"id":"e","partitions":["p"],"partition":"p","event":{}}'),
            message(b"sync", b'{"partitions":["p"],"since_committed_id":0,"limit":50,"subscription_partitions":["q"]}'),
            message(b"heartbeat", b"{}"),
            message(b"disconnect", b'{"reason":null}'),
        ),
        (b'"id":"f"', b'"partitions":[]', b'"event":{"a":1e999}', b'"msg_id":1', b'"protocol_version":"2"', b"\\udc00"),
    ),
    Target("partitions", normalise_partitions, (b"a\nb", b"e\xcc\x81\n\xc3\xa9", b"x" * 128), (b"\n", b"\xcc\x81" * 9)),
    Target(
        "tree-actions",
        apply_actions,
        (
            b'{"type":"set","payload":{"target":"a.b","value":{"c":1},"options":{"replace":true}}}\n'
            b'{"type":"unset","payload":{"target":"a.b"}}',
            b'{"type":"treePush","payload":{"target":"t","value":{"id":"n"},"options":{"parent":"_root","position":"first"}}}\n'
            b'{"type":"treePush","payload":{"target":"t","value":{"id":"m"},"options":{"parent":"n"}}}\n'
            b'{"type":"treeMove","payload":{"target":"t","options":{"id":"m","parent":"_root","position":{"after":"n"}}}}\n'
            b'{"type":"treeUpdate","payload":{"target":"t","value":{"x":1},"options":{"id":"n"}}}\n'
            b'{"type":"treeDelete","payload":{"target":"t","options":{"id":"n"}}}',
        ),
        (b'"parent":"n"', b'"position":{"before":"m"}', b'"value":[]', b'"replace":true', b'"target":"t.items"', b"\n"),
    ),
    Target(
        "schemas",
        check_schemas,
        (
            b'{"type":"object","properties":{"a":{"type":["integer","null"],"minimum":1}},"required":["a"]}\n{"a":0}',
            b'{"$ref":"#/$defs/x","$defs":{"x":{"anyOf":[{"const":1},{"enum":["a"]}],"not":{"type":"array"}}}}\n[1]',
            b'{"type":"array","prefixItems":[{"pattern":"^a+$"}],"items":{"maxLength":2},"uniqueItems":true}\n["a","b"]',
        ),
        (b'"additionalProperties":false', b'"oneOf":[{},true]', b'"multipleOf":0.1', b'"$ref":"#"', b'"pattern":"("'),
    ),
)
