"""A materialised view: the current rows of some collections, made from the messages of a stream."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec

from mainstem import limits
from mainstem.client.core.errors import BadArgument
from mainstem.client.state.collection import Collection
from mainstem.client.state.errors import StateTooLarge
from mainstem.client.state.messages import Change, Control, Message

T = TypeVar("T")


class RowChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was added, replaced or removed. `operation` is what happened to the view, not what the writer said."""

    collection: Collection[Any]
    operation: Literal["insert", "update", "delete"]
    key: str
    value: Any
    """The new value; None after a delete."""
    old_value: Any
    """The value that the view had; None before an insert."""
    message: Change


class Row(msgspec.Struct, frozen=True, gc=False):
    value: Any
    json: bytes
    """The value exactly as it was written, including members that the model does not have."""


class Decoded(msgspec.Struct, frozen=True):
    """A message that can be applied: with the row that it stores, unless it is a delete or a control message."""

    message: Message
    row: Row | None = None


class Rows(Mapping[str, T], Generic[T]):
    """The rows of one collection by key, in the order in which they were added. It always shows the current rows.

    Do not change the values. Copy the rows, as in `dict(rows)`, before a loop that awaits something.
    """

    def __init__(self, collection: Collection[T]) -> None:
        self.collection = collection
        self._rows: dict[str, Row] = {}

    def __getitem__(self, key: str) -> T:
        value: T = self._rows[key].value
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self.collection!r}>"


class View:
    """The rows of the given collections. Rows of other types are ignored."""

    def __init__(self, *collections: Collection[Any], bytes_max: int = limits.CLIENT_STATE_BYTES_MAX) -> None:
        if not collections:
            raise BadArgument("a state needs at least one collection")
        self._tables: dict[str, Rows[Any]] = {}
        for collection in collections:
            if collection.type in self._tables:
                raise BadArgument(f"two collections have the type {collection.type!r}")
            self._tables[collection.type] = Rows(collection)
        self._bytes_max = bytes_max
        self.size_bytes = 0
        """The size of all keys and values as JSON."""
        self.ignored_type: str | None = None
        """A type that the stream has and no collection names, if there is one."""

    def __getitem__(self, collection: Collection[T]) -> Rows[T]:
        rows = self._tables.get(collection.type)
        if rows is None or rows.collection is not collection:
            raise BadArgument(f"this state was not opened with {collection!r}")
        return rows

    @property
    def collections(self) -> list[Collection[Any]]:
        return [rows.collection for rows in self._tables.values()]

    def decode(self, message: Message, value_json: bytes) -> Decoded:
        """Decode the value of a message for its collection. It raises `Malformed` for a value that does not fit."""
        if isinstance(message, Control) or message.operation == "delete" or message.type not in self._tables:
            return Decoded(message)
        value = self._tables[message.type].collection.decode(message.value, message.key, value_json)
        return Decoded(message, Row(value, value_json))

    def apply(self, messages: Iterable[Decoded]) -> list[RowChanged | Control]:
        """Apply messages in the order of the stream, and return what changed.

        - An insert, an update and an upsert store the value, whether or not the row exists.
        - A delete of a row that does not exist changes nothing.
        - A reset removes all rows. The beginning and the end of a snapshot change nothing.
        """
        changes: list[RowChanged | Control] = []
        for decoded in messages:
            message = decoded.message
            if isinstance(message, Control):
                if message.kind == "reset":
                    self._clear()
                changes.append(message)
            elif (rows := self._tables.get(message.type)) is None:
                self.ignored_type = message.type
            elif (changed := self._store(rows, message, decoded.row)) is not None:
                changes.append(changed)
        return changes

    def export(self) -> Iterator[tuple[Collection[Any], str, bytes]]:
        """Yield every row with its collection, its key and its value as JSON."""
        for rows in self._tables.values():
            for key, row in rows._rows.items():
                yield rows.collection, key, row.json

    def _store(self, rows: Rows[Any], message: Change, row: Row | None) -> RowChanged | None:
        key = message.key
        old = rows._rows.get(key)
        old_value = None
        if old is not None:
            self.size_bytes -= _size(key, old)
            old_value = old.value
        if row is None:
            if old is None:
                return None
            del rows._rows[key]
            return _changed(rows, "delete", message, None, old_value)
        self.size_bytes += _size(key, row)
        if self.size_bytes > self._bytes_max:
            raise StateTooLarge(f"the rows take more than {self._bytes_max} bytes")
        rows._rows[key] = row
        return _changed(rows, "insert" if old is None else "update", message, row.value, old_value)

    def _clear(self) -> None:
        for rows in self._tables.values():
            rows._rows.clear()
        self.size_bytes = 0
        self.ignored_type = None


def _changed(
    rows: Rows[Any], operation: Literal["insert", "update", "delete"], message: Change, value: Any, old_value: Any
) -> RowChanged:
    return RowChanged(
        collection=rows.collection,
        operation=operation,
        key=message.key,
        value=value,
        old_value=old_value,
        message=message,
    )


def _size(key: str, row: Row) -> int:
    return limits.CLIENT_STATE_ROW_BYTES + len(key) + len(row.json)
