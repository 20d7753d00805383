"""Typed collections: which model the rows of a type have, and how values become changes."""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.client.core.errors import BadArgument
from mainstem.client.core.strict_json import encode_json
from mainstem.client.state.messages import Change, Malformed, Operation, check_change, name_kind, quote

T = TypeVar("T")

MODEL_ERRORS = (TypeError, ValueError, msgspec.MsgspecError, RecursionError)
"""What models raise for a value that does not fit."""


class Collection(Generic[T]):
    """The rows of one `type` of a stream: `users = Collection("user", User, key="id")`.

    `model` is a dataclass, a `msgspec.Struct`, a Pydantic model, `dict`, or any type that `msgspec.json.decode`
    accepts. `key` names the member of the JSON object that holds the row's key, a string or a whole number. Without it,
    every change needs an explicit key, and values need not be objects.
    """

    def __init__(self, type: str, model: type[T], *, key: str | None = None) -> None:
        if not isinstance(type, str) or not type:
            raise BadArgument("the type of a collection must be a string that is not empty")
        if key == "":
            raise BadArgument(f"the key of the collection {type!r} is empty; leave it out, or name a member")
        self.type = type
        self.model = model
        self.key = key
        self._is_pydantic = hasattr(model, "model_validate_json") and hasattr(model, "model_dump")

    def __repr__(self) -> str:
        return f"Collection({self.type!r}, {getattr(self.model, '__name__', self.model)}, key={self.key!r})"

    # Changes

    def insert(self, value: T, key: str | None = None, **headers: str | None) -> Change:
        """Return the change that adds a row. `headers` are `txid`, `timestamp`, `origin` and `offset`."""
        return self._change("insert", key, value, headers=headers)

    def update(self, value: T, key: str | None = None, *, old_value: T | None = None, **headers: str | None) -> Change:
        """Return the change that replaces a row by a new value: the whole value, not only what differs."""
        return self._change("update", key, value, old_value, headers=headers)

    def upsert(self, value: T, key: str | None = None, **headers: str | None) -> Change:
        """Return the change that adds a row or replaces it."""
        return self._change("upsert", key, value, headers=headers)

    def delete(self, key: str | None = None, *, old_value: T | None = None, **headers: str | None) -> Change:
        """Return the change that removes a row, by its key or by its old value."""
        return self._change("delete", key, None, old_value, headers=headers)

    # Values

    def encode(self, value: T) -> Any:
        """Return a value as JSON types. It raises `BadArgument` for a value that readers could not decode."""
        if not _may_be_instance(value, self.model):
            raise BadArgument(f"{self!r} takes values of {self.model.__name__}, not of {type(value).__name__}")
        try:
            value_json = encode_json(self._dump(value))
            self._decode_json(value_json)  # not the value itself: in JSON, the keys of a dict become text
            return msgspec.json.decode(value_json)
        except MODEL_ERRORS as error:
            raise BadArgument(f"this value does not fit {self!r}: {_explain(error)}") from error

    def decode(self, value: Any, key: str, value_json: bytes | None = None) -> T:
        """Return a JSON value as an instance of the model, or raise `Malformed`. `value_json` is the value as it was
        written, for callers that have it.

        As in other clients of the protocol, the key of the message takes precedence over the one in the value. It may
        be the text of a whole number where the model needs a number.
        """
        if self.key is not None:
            if not isinstance(value, dict):
                raise Malformed(f"the value of {quote(self.type)} {quote(key)} is {name_kind(value)}, not an object")
            if self.key not in value or not _is_same_key(value[self.key], key):
                value, value_json = {**value, self.key: key}, None
        try:
            return self._decode_json(value_json or msgspec.json.encode(value))
        except MODEL_ERRORS as error:
            if self.key is not None and (number := _read_integer(key)) is not None:
                with suppress(*MODEL_ERRORS):  # StreamDB writes every key as text
                    return self._decode_json(msgspec.json.encode({**value, self.key: number}))
            raise Malformed(f"the value of {quote(self.type)} {quote(key)} does not fit: {_explain(error)}") from error

    def _change(
        self,
        operation: Operation,
        key: str | None,
        value: T | None,
        old_value: T | None = None,
        *,
        headers: dict[str, str | None],
    ) -> Change:
        encoded: Any | UnsetType = UNSET if operation == "delete" else self.encode(value)  # type: ignore[arg-type]
        old: Any | UnsetType = UNSET if old_value is None else self.encode(old_value)
        if unknown := headers.keys() - {"txid", "timestamp", "origin", "offset"}:
            raise TypeError(f"unexpected keyword arguments: {', '.join(sorted(unknown))}")
        if key is None:
            key = self._find_key(encoded if encoded is not UNSET else old, operation)
        if not isinstance(key, str):
            raise BadArgument(f"the key of a row is a string, not {type(key).__name__}")
        change = Change(type=self.type, key=key, operation=operation, value=encoded, old_value=old, **headers)
        try:
            check_change(change)
            if encoded is not UNSET:
                self.decode(encoded, key)  # readers write the key into the value, and it may not fit there
        except Malformed as error:
            raise BadArgument(f"this {operation} of {self.type!r} is invalid: {error}") from None
        return change

    def _find_key(self, encoded: Any | UnsetType, operation: Operation) -> str:
        if self.key is None or encoded is UNSET:
            raise BadArgument(f"this {operation} of {self.type!r} needs a key: pass key=")
        found = encoded.get(self.key) if isinstance(encoded, dict) else None
        if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
            raise BadArgument(
                f"this {operation} of {self.type!r} needs a key: pass key=, or a value whose {self.key!r} is a string "
                "or a whole number"
            )
        return str(found)

    def _dump(self, value: Any) -> Any:
        return value.model_dump(mode="json", by_alias=True) if self._is_pydantic else value

    @cached_property
    def _decode_json(self) -> Callable[[bytes], T]:
        """Return what decodes a value from JSON. Only the first use makes it: a model may name a class that is defined
        after the collection."""
        model: Any = self.model
        decode: Callable[[bytes], T] = (
            model.model_validate_json if self._is_pydantic else msgspec.json.Decoder(model).decode
        )
        return decode


def _may_be_instance(value: Any, model: Any) -> bool:
    """Return whether a value may be one of the model. What `isinstance` does not accept, such as a `TypedDict`, has no
    instances of its own."""
    try:
        return not isinstance(model, type) or isinstance(value, model)
    except TypeError:
        return True


def _is_same_key(found: Any, key: str) -> bool:
    return isinstance(found, (str, int)) and not isinstance(found, bool) and str(found) == key


def _read_integer(key: str) -> int | None:
    """Return the whole number whose text is the key, if there is one."""
    try:
        number = int(key)
    except ValueError:
        return None
    return number if str(number) == key else None


def _explain(error: Exception) -> str:
    """Return the reason of an error of a model on one line."""
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:200]}…"
