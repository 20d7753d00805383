"""Reducers: pure rules that fold the messages of a partition or JSON stream into a state.

A *keyed* reducer extracts from each message the entry that it sets, so only the newest message of each key counts, and
Spark can find it in any order. An *ordered* reducer folds message after message.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from mainstem.errors import BadOption, ReducerFailed
from mainstem.sync.validation.tree import TreeConflict, apply_action

_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_nested = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_text = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode
ENDS = (b"", b"null")

OPERATIONS = {"insert": True, "update": True, "upsert": True, "delete": False}
"""Operations of the State Protocol; True for those that set the value."""
CONTROLS = frozenset({"snapshot-start", "snapshot-end", "reset"})


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message, as your own function receives it. The names are those of the sync client's events."""

    event: Any
    """The parsed message."""
    committed_id: int
    position: int
    committed_at: str
    id: str | None = None
    client_id: str | None = None
    partitions: tuple[str, ...] = ()
    stream: str | None = None


class Entry(NamedTuple):
    """The effect of a message: it sets this value under this key, or removes the key."""

    group: str
    key: str
    value: bytes | None


class Reset:
    """A message that clears everything before it."""


RESET = Reset()


class Reducer(Protocol):
    """Decodes and encodes states."""

    def begin(self, state: bytes | None) -> Any:
        """Return the state to fold onto: that of a snapshot, or the initial one."""

    def encode(self, state: Any) -> bytes: ...


class Ordered(Reducer, Protocol):
    def step(self, state: Any, message: Message) -> tuple[Any, bool]:
        """Return the state after a message, and whether the reducer understood the message."""


Table = dict[str, dict[str, bytes]]
"""Group -> key -> JSON. Last-writer-wins has one group, the State Protocol one per type."""


class Keyed(Reducer, Protocol):
    def extract(self, data: bytes) -> Entry | Reset | None:
        """Return the effect of a message, or None if the reducer ignores it."""


def apply_entry(table: Table, entry: Entry | Reset) -> None:
    if isinstance(entry, Reset):
        table.clear()
    elif entry.value is not None:
        table.setdefault(entry.group, {})[entry.key] = entry.value
    elif entry.group in table:
        table[entry.group].pop(entry.key, None)
        if not table[entry.group]:
            del table[entry.group]


def parse_path(text: str) -> tuple[str, ...]:
    """Parse `a.b`, `$.a.b`, or `/a/b` (RFC 6901) for names with a dot. `$` and the empty path are the whole message."""
    if text.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    text = text.removeprefix("$").removeprefix(".")
    parts = tuple(text.split(".")) if text else ()
    if "" in parts:
        raise BadOption(f"{text!r} is not a path: write a.b, or /a/b if a name contains a dot")
    return parts


def _find(outer: dict[str, msgspec.Raw], path: Sequence[str]) -> bytes:
    """Return the JSON text at a path below an object, or nothing if there is none."""
    found = bytes(outer.get(path[0], b""))
    for name in path[1:]:
        if found[:1] != b"{":
            return b""
        found = bytes(_objects.decode(found).get(name, b""))
    return found


@dataclass(frozen=True)
class LastWriterWins:
    """An object with the newest value of each key. A null or missing value, or a tombstone, removes the key."""

    keys: tuple[tuple[str, ...], ...]
    value: tuple[str, ...] = ()
    tombstone: tuple[str, ...] | None = None
    name: str = "lww"

    def extract(self, data: bytes) -> Entry | Reset | None:
        try:
            outer = _objects.decode(data)
            found = [_find(outer, path) for path in self.keys]
            for text in found:
                if text in ENDS or text[0] in b"{[":
                    return None
            key = _plain(found[0]) if len(found) == 1 else (b"[%b]" % b",".join(found)).decode()
            if self.tombstone is not None and _find(outer, self.tombstone) not in (*ENDS, b"false"):
                return Entry("", key, None)
            value = _find(outer, self.value) if self.value else data
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None  # not an object, or a key with half a surrogate pair, which no other program could read
        return Entry("", key, None if value in ENDS else value)

    def begin(self, state: bytes | None) -> Table:
        found = {} if state is None else _load(_objects, state, self.name)
        return {"": {key: bytes(value) for key, value in found.items()}} if found else {}

    def encode(self, state: Table) -> bytes:
        return _encode_object(state.get("", {}))


@dataclass(frozen=True)
class StateProtocol:
    """An object of types, each an object of entities by key, as the State Protocol materialises them."""

    name: str = "state"

    def extract(self, data: bytes) -> Entry | Reset | None:
        try:
            change = _changes.decode(data)
        except msgspec.MsgspecError:
            return None
        headers = change.headers
        if headers.control is not None:
            return RESET if headers.control == "reset" else None
        if headers.operation not in OPERATIONS or not change.type or not change.key:
            return None
        if not OPERATIONS[headers.operation]:
            return Entry(change.type, change.key, None)
        value = bytes(change.value)
        return Entry(change.type, change.key, value) if value else None

    def begin(self, state: bytes | None) -> Table:
        found = {} if state is None else _load(_nested, state, self.name)
        return {group: {key: bytes(value) for key, value in inner.items()} for group, inner in found.items()}

    def encode(self, state: Table) -> bytes:
        return _encode_object({group: _encode_object(inner) for group, inner in state.items()})


class _Headers(msgspec.Struct, gc=False):
    operation: str | None = None
    control: str | None = None


class _Change(msgspec.Struct, gc=False):
    headers: _Headers
    type: str = ""
    key: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")


_changes = msgspec.json.Decoder(_Change)


@dataclass(frozen=True)
class Tree:
    """The state that tree actions build. An action that does not fit the state is ignored, as in every replay."""

    name: str = "tree"

    def begin(self, state: bytes | None) -> dict[str, Any]:
        found = {} if state is None else msgspec.json.decode(state)
        if not isinstance(found, dict):
            raise _foreign(self.name)
        return found

    def step(self, state: dict[str, Any], message: Message) -> tuple[dict[str, Any], bool]:
        if not isinstance(message.event, dict):
            return state, False
        try:
            return apply_action(state, message.event), True
        except TreeConflict:
            return state, False

    def encode(self, state: dict[str, Any]) -> bytes:
        return _encode(state)


@dataclass(frozen=True)
class Function:
    """`package.module:function`, called as `function(state, message)`. The initial state is None."""

    name: str

    def __reduce__(self) -> tuple[type[Function], tuple[str]]:
        return Function, (self.name,)  # each worker imports the function

    @cached_property
    def call(self) -> Callable[[Any, Message], Any]:
        module, _, attribute = self.name.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise BadOption(
                f"the reducer {self.name} cannot be imported: {error}. Set PYTHONPATH if necessary"
            ) from None
        if not callable(found):
            raise BadOption(f"the reducer {self.name} is not a function")
        function: Callable[[Any, Message], Any] = found
        return function

    def begin(self, state: bytes | None) -> Any:
        return None if state is None else msgspec.json.decode(state)

    def step(self, state: Any, message: Message) -> tuple[Any, bool]:
        try:
            return self.call(state, message), True
        except BadOption:
            raise
        except Exception as error:
            raise ReducerFailed(f"{self.name} failed at committed id {message.committed_id}: {error!r}") from error

    def encode(self, state: Any) -> bytes:
        try:
            return _encode(state)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ReducerFailed(f"{self.name} returned a state that cannot be written as JSON") from error


def make_reducer(
    name: str, keys: Sequence[str] = (), value: str | None = None, tombstone: str | None = None
) -> LastWriterWins | StateProtocol | Tree | Function:
    """Return the reducer of this name on the command line. The paths are for `lww` only."""
    if name == "lww":
        if not keys:
            raise BadOption("lww needs --key, the path of the field that identifies an entry")
        paths = tuple(parse_path(key) for key in keys)
        if () in paths:
            raise BadOption("--key must be a field of the message, not the whole message")
        tombstone_path = None if tombstone is None else parse_path(tombstone)
        if tombstone_path == ():
            raise BadOption("--tombstone must be a field of the message, not the whole message")
        return LastWriterWins(paths, parse_path(value or ""), tombstone_path)
    if keys or value is not None or tombstone is not None:
        raise BadOption(f"--key, --value and --tombstone are for lww, not for {name}")
    if name == "state":
        return StateProtocol()
    if name == "tree":
        return Tree()
    if name.count(":") == 1 and all(name.split(":")):
        function = Function(name)
        function.call  # noqa: B018 - raises now, on the driver, if it cannot be imported
        return function
    raise BadOption(f"there is no reducer {name!r}; the reducers are lww, state, tree and package.module:function")


def _plain(text: bytes) -> str:
    """Return a string as it is, and anything else as its JSON text."""
    return _text.decode(text) if text[:1] == b'"' else text.decode()


def _encode_object(values: dict[str, bytes]) -> bytes:
    """Encode the members in the order of their keys, so that equal states have equal texts."""
    return b"{%b}" % b",".join(b"%b:%b" % (_encode(key), values[key]) for key in sorted(values))


def _load(decoder: msgspec.json.Decoder[Any], state: bytes, name: str) -> Any:
    try:
        return decoder.decode(state)
    except msgspec.MsgspecError:
        raise _foreign(name) from None


def _foreign(name: str) -> ReducerFailed:
    return ReducerFailed(
        f"its present snapshot was not made by the reducer {name}: replace that snapshot, or exclude the target"
    )
