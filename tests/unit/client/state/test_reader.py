from typing import Any

import msgspec
import pytest

from mainstem import limits
from mainstem.client import Batch, InvalidResponse
from mainstem.client.state import Collection, InvalidMessage, View
from mainstem.client.state.reader import StateReader

numbers = Collection("number", int)


def insert(key, value, **headers):
    return {"type": "number", "key": key, "value": value, "headers": {"operation": "insert", **headers}}


def batch(*messages, offset="1", content_type="application/json", **facts):
    return Batch(data=msgspec.json.encode(messages), offset=offset, content_type=content_type, **facts)


def make_reader(**options) -> Any:
    view = View(numbers)
    return StateReader("p", view, **options), view


def test_a_reader_is_synced_at_the_end_of_the_stream_and_stays_so():
    reader, view = make_reader()
    reader.apply(batch(insert("a", 1), offset="1"))
    assert (reader.synced, reader.offset) == (False, "1")
    reader.apply(batch(insert("b", 2), offset="2", up_to_date=True))
    assert reader.synced
    reader.apply(batch(insert("c", 3), offset="3"))
    assert (reader.synced, reader.offset) == (True, "3")
    assert dict(view[numbers]) == {"a": 1, "b": 2, "c": 3}


def test_after_a_reset_a_reader_is_synced_at_the_next_end():
    reader, _ = make_reader()
    reader.apply(batch(up_to_date=True))
    reader.apply(batch({"headers": {"control": "reset"}}))
    assert not reader.synced
    reader.apply(batch({"headers": {"control": "reset"}}, up_to_date=True))
    assert reader.synced


def test_a_closed_stream_is_complete():
    reader, _ = make_reader()
    reader.apply(batch(insert("a", 1), closed=True))
    assert (reader.synced, reader.closed) == (True, True)


def test_a_batch_without_data_only_moves_the_reader():
    reader, _ = make_reader()
    empty = Batch(data=b"", offset="9", content_type="application/json", up_to_date=True)
    assert reader.apply(empty) == []
    assert (reader.offset, reader.synced) == ("9", True)


def test_txids_are_noted_even_for_types_without_a_collection(monkeypatch):
    monkeypatch.setattr(limits, "CLIENT_STATE_TXIDS_MAX", 2)
    reader, _ = make_reader()
    reader.apply(batch(insert("a", 1, txid="one"), {**insert("b", 2, txid="two"), "type": "other"}))
    assert reader.has_seen("one")
    assert reader.has_seen("two")
    reader.apply(batch(insert("a", 1, txid="one"), insert("a", 1, txid="three")))
    assert [reader.has_seen(txid) for txid in ("one", "two", "three")] == [True, False, True]


BAD = [
    5,
    {"headers": {"operation": "explode"}},
    insert("b", "not a number"),
    insert("", 1),
    insert("b", msgspec.Raw(b"1e400")),
    {"headers": {"operation": msgspec.Raw(b"9" * 5000)}},
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_an_invalid_message_is_raised_and_its_batch_changes_nothing(bad):
    reader, view = make_reader()
    reader.apply(batch(insert("a", 1), offset="1"))
    with pytest.raises(InvalidMessage, match="state p: message 2 of the 3 that end at offset 7 is invalid: ") as raised:
        reader.apply(batch(insert("b", 2), bad, insert("c", 3), offset="7", up_to_date=True))
    assert (raised.value.offset, raised.value.index) == ("7", 1)
    assert raised.value.reason in str(raised.value)
    assert dict(view[numbers]) == {"a": 1}
    assert (reader.offset, reader.synced) == ("1", False)


def test_invalid_messages_can_be_skipped():
    seen: list[InvalidMessage] = []
    reader, view = make_reader(on_invalid=seen.append)
    reader.apply(batch(insert("a", 1), *BAD, insert("z", 26), offset="7"))
    assert dict(view[numbers]) == {"a": 1, "z": 26}
    assert [error.index for error in seen] == list(range(1, len(BAD) + 1))
    assert seen[-1].reason == "it has a number out of range"
    assert reader.offset == "7"


def test_a_skipped_message_is_remembered_until_a_reset():
    reader, _ = make_reader(on_invalid=lambda error: None)
    reset = {"headers": {"control": "reset"}}
    found = []
    for messages in ([insert("a", 1)], [insert("a", "two"), insert("b", 2)], [insert("c", 3)], [5, reset], [reset, 6]):
        reader.apply(batch(*messages))
        found.append(reader.skipped and reader.skipped.index)
    assert found == [None, 0, 0, None, 1]


START, END, RESET = ({"headers": {"control": kind}} for kind in ("snapshot-start", "snapshot-end", "reset"))


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([[insert("a", 1)], [END]], [False, False]),
        ([[START, insert("a", 1)], [insert("b", 2), END], [insert("c", 3)]], [False, True, True]),
        ([[insert("a", 1), START], [START], [END], [END]], [False, False, True, True]),
        ([[END, RESET], [insert("a", 1)]], [True, True]),
    ],
)
def test_a_reader_that_lacks_the_beginning_needs_a_whole_snapshot_or_a_reset(batches, found):
    for options, facts in (({"start": "0"}, {}), ({}, {"earliest_offset": "0"})):
        reader, _ = make_reader(**options)
        seen = []
        for messages in batches:
            reader.apply(batch(*messages, **facts))
            seen.append(reader.has_base)
            facts = {}  # only the first batch names it
        assert seen == found


def test_a_reader_that_began_with_the_stream_keeps_its_base():
    reader, _ = make_reader()
    reader.apply(Batch(data=b"", offset="0", content_type="application/json", up_to_date=True))
    assert reader.has_base
    reader.apply(batch(insert("a", 1), END, START))
    assert reader.has_base


def test_a_stream_of_another_type_has_no_state():
    reader, _ = make_reader()
    with pytest.raises(InvalidResponse, match="text/plain"):
        reader.apply(batch(content_type="text/plain"))
