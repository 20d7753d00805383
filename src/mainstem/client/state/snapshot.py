"""Snapshots: all rows of a view as messages of one append."""

import msgspec

from mainstem.client.state.messages import Change, Control
from mainstem.client.state.view import View


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot in the stream. A reader that begins at `offset` receives all rows, and what follows."""

    offset: str
    next_offset: str
    """The offset after the snapshot."""
    rows: int


def encode_snapshot(view: View, offset: str) -> tuple[bytes, int]:
    """Return the body of an append with a snapshot of the view as of `offset`, and the number of its rows.

    Each row is an insert, which every reader of the protocol can apply to a row that exists, too.
    """
    encode = msgspec.json.encode
    messages = [encode(Control("snapshot-start", offset).to_message())]
    for collection, key, value_json in view.export():
        change = Change(type=collection.type, key=key, operation="insert", value=msgspec.Raw(value_json))
        messages.append(encode(change.to_message()))
    messages.append(encode(Control("snapshot-end", offset).to_message()))
    return b"[" + b",".join(messages) + b"]", len(messages) - 2
