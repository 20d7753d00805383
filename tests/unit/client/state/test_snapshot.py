import msgspec

from mainstem.client import Batch
from mainstem.client.state import Collection, View
from mainstem.client.state.reader import StateReader
from mainstem.client.state.snapshot import encode_snapshot

anything = Collection("thing", object)
words = Collection("word", str)

WRITTEN = (
    b'[{"type":"thing","key":"a","value":{"n": 1.0, "big": 12345678901234567890},"headers":{"operation":"insert"}},'
    b'{"type":"word","key":"\\u00fc","value":"x","headers":{"operation":"upsert","txid":"t"}},'
    b'{"type":"thing","key":"gone","value":1,"headers":{"operation":"insert"}},'
    b'{"type":"thing","key":"gone","headers":{"operation":"delete"}}]'
)


def read(data):
    view = View(anything, words)
    StateReader("p", view).apply(Batch(data=data, offset="1", content_type="application/json"))
    return view


def test_a_snapshot_holds_all_rows_as_they_were_written():
    view = read(WRITTEN)
    body, rows = encode_snapshot(view, "4_2")
    assert rows == 2
    first, *inserts, last = msgspec.json.decode(body)
    assert first == {"headers": {"control": "snapshot-start", "offset": "4_2"}}
    assert last == {"headers": {"control": "snapshot-end", "offset": "4_2"}}
    assert {change["headers"]["operation"] for change in inserts} == {"insert"}
    assert b'{"n": 1.0, "big": 12345678901234567890}' in body
    again = read(body)
    assert [*again.export()] == [*view.export()]


def test_an_empty_view_has_an_empty_snapshot():
    body, rows = encode_snapshot(read(b"[]"), "0")
    assert (rows, len(msgspec.json.decode(body))) == (0, 2)
