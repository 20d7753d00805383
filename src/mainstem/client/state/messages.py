"""The messages of the State Protocol: changes of rows, and control messages."""

from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from mainstem.timestamps import is_time

Operation = Literal["insert", "update", "upsert", "delete"]
ControlKind = Literal["snapshot-start", "snapshot-end", "reset"]

OPERATIONS = get_args(Operation)
CONTROLS = get_args(ControlKind)
QUOTED_MAX = 60  # characters of a foreign value in the text of an error


class Malformed(ValueError):
    """A message that breaks the protocol; the text says why."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one row. `value` and `old_value` are JSON values, or UNSET if the message has none."""

    type: str
    key: str
    operation: Operation
    value: Any | UnsetType = UNSET
    old_value: Any | UnsetType = UNSET
    txid: str | None = None
    """Names the transaction; several changes can share it."""
    timestamp: str | None = None
    """When the change happened, in RFC 3339. The state passes it on as it is."""
    origin: str | None = None
    """The header `from`, whose meaning is up to the application."""
    offset: str | None = None
    """An offset that the writer gives, for example one of the source of the change."""

    def to_message(self) -> dict[str, Any]:
        """Return the change as a JSON object, ready to be appended."""
        message: dict[str, Any] = {"type": self.type, "key": self.key}
        if self.value is not UNSET:
            message["value"] = self.value
        if self.old_value is not UNSET:
            message["old_value"] = self.old_value
        optional = {"txid": self.txid, "timestamp": self.timestamp, "from": self.origin, "offset": self.offset}
        present = {name: value for name, value in optional.items() if value is not None}
        return {**message, "headers": {"operation": self.operation, **present}}


class Control(msgspec.Struct, frozen=True):
    """A message about the stream: the beginning or the end of a snapshot, or a reset, which removes all rows."""

    kind: ControlKind
    offset: str | None = None

    def to_message(self) -> dict[str, Any]:
        """Return the control message as a JSON object, ready to be appended."""
        headers = {"control": self.kind} if self.offset is None else {"control": self.kind, "offset": self.offset}
        return {"headers": headers}


Message = Change | Control


def parse_message(message: Any) -> Message:
    """Return a decoded JSON message as a `Change` or a `Control`, or raise `Malformed`. Unknown members are ignored."""
    if not isinstance(message, dict):
        raise Malformed(f"it is {name_kind(message)}, not an object")
    headers = message.get("headers")
    if not isinstance(headers, dict):
        raise Malformed("it has no headers" if "headers" not in message else f"headers is {name_kind(headers)}")
    if "operation" in headers and "control" in headers:
        raise Malformed("its headers have both an operation and a control")
    if "control" in headers:
        kind = _read_choice(headers, "control", CONTROLS)
        return Control(kind, _read_text(headers, "offset", "headers."))
    if "operation" not in headers:
        raise Malformed("its headers have neither an operation nor a control")
    change = Change(
        type=_require_text(message, "type"),
        key=_require_text(message, "key"),
        operation=_read_choice(headers, "operation", OPERATIONS),
        value=message.get("value", UNSET),
        old_value=message.get("old_value", UNSET),
        txid=_read_text(headers, "txid", "headers."),
        timestamp=_read_text(headers, "timestamp", "headers."),
        origin=_read_text(headers, "from", "headers."),
        offset=_read_text(headers, "offset", "headers."),
    )
    return check_change(change)


def check_change(change: Change) -> Change:
    """Return the change, or raise `Malformed` if it has no value though it needs one, or a member that is invalid."""
    if change.value is UNSET and change.operation != "delete":
        raise Malformed(f"the {change.operation} of {quote(change.type)} {quote(change.key)} has no value")
    for name in ("type", "key", "txid", "timestamp", "origin", "offset"):
        text = getattr(change, name)
        if text is not None and not isinstance(text, str):
            raise Malformed(f"{name} is not a string")
        if text == "":
            raise Malformed(f"{name} is empty")
    if change.timestamp is not None and not is_time(change.timestamp):
        raise Malformed(f"headers.timestamp is {quote(change.timestamp)}, which is not RFC 3339")
    return change


def quote(text: str) -> str:
    """Return text of a message for an error: on one line, and shortened."""
    shown = text if len(text) <= QUOTED_MAX else f"{text[:QUOTED_MAX]}…"
    return ascii(shown) if not shown.isprintable() else f"'{shown}'"


def name_kind(value: Any) -> str:
    """Return what JSON calls a value of this kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"


def _read_choice(headers: dict[str, Any], name: str, choices: tuple[str, ...]) -> Any:
    value = headers[name]
    if isinstance(value, str) and value in choices:
        return value
    shown = quote(value) if isinstance(value, str) else name_kind(value)
    raise Malformed(f"headers.{name} is {shown}; it must be one of {', '.join(choices)}")


def _require_text(fields: dict[str, Any], name: str) -> str:
    text = _read_text(fields, name, "")
    if text is None:
        raise Malformed(f"it has no {name}")
    return text


def _read_text(fields: dict[str, Any], name: str, where: str) -> str | None:
    if name not in fields:
        return None
    text = fields[name]
    if not isinstance(text, str):
        raise Malformed(f"{where}{name} is {name_kind(text)}; it must be a string")
    if not text:
        raise Malformed(f"{where}{name} is empty")
    return text
