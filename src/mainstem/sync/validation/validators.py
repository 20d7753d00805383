"""Domain validation: what an operator demands of an event beyond being an object.

A `Validator` gets the event and the accepted events before it in the same batch, and answers with what is wrong; an
empty list accepts. The modes are `none` (`accept_all`), `model` (`model_validator`, by the name of the event's
schema), `tree` (`tree.tree_validator`), and a hook of the operator's own (`load_hook`). A validator that raises is a
bug of the operator and goes through as it is.

The name of an event's schema is its `schema` field; else, for `{"type": "event", "payload": {"schema": ...}}`, the
envelope of the older generation, the one in the payload; else its `type` field. The schema describes the whole event.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from mainstem.errors import SettingsError
from mainstem.sync.validation.assertions import Location
from mainstem.sync.validation.schemas import compile_schema

ERRORS_MAX: Final = 20  # of one event; a client mends these first
FIELD_CHARS_MAX: Final = 200  # keys are the client's, and errors are sent back


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong: `field` is a path such as `event.payload.items[0].name`."""

    field: str
    message: str


class Validator(Protocol):
    def __call__(self, event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]: ...


def accept_all(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
    """Mode `none`: any object is an event."""
    return []


def model_validator(schemas: Mapping[str, Validator | dict[str, Any]]) -> Validator:
    """Mode `model`: each event is checked by the validator, or the JSON Schema, that its schema's name stands for."""
    validators = {name: json_schema(rule) if isinstance(rule, dict) else rule for name, rule in schemas.items()}

    def validate(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
        field, name = schema_name(event)
        if not isinstance(name, str):
            return [FieldError(field, "names no schema")]
        validator = validators.get(name)
        if validator is None:
            return [FieldError(field, "names an unknown schema")]
        return validator(event, earlier)

    return validate


def schema_name(event: dict[str, Any]) -> tuple[str, Any]:
    """The field that names the event's schema, and what it says, which may be anything."""
    if "schema" in event:
        return "event.schema", event["schema"]
    payload = event.get("payload")
    if event.get("type") == "event" and isinstance(payload, dict) and "schema" in payload:
        return "event.payload.schema", payload["schema"]
    return "event.type", event.get("type")


def load_hook(name: str) -> Validator:
    """The validator at `package.module:callable`."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise SettingsError(f"a validation hook is written package.module:callable, not {name!r}")
    try:
        hook = getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise SettingsError(f"the validation hook {name!r} cannot be imported: {error}") from error
    except AttributeError:
        raise SettingsError(f"the module {module_name!r} has no {attribute!r}") from None
    if not callable(hook):
        raise SettingsError(f"the validation hook {name!r} is not callable")
    validator: Validator = hook
    return validator


def load_schemas(directory: str | os.PathLike[str]) -> dict[str, Validator]:
    """The JSON Schemas in the `*.json` files of a directory, by the files' names without `.json`."""
    validators: dict[str, Validator] = {}
    for path in sorted(Path(directory).glob("*.json")):
        try:
            validators[path.stem] = json_schema(msgspec.json.decode(path.read_bytes(), type=dict[str, Any]))
        except (OSError, UnicodeDecodeError, msgspec.DecodeError, SettingsError) as error:
            raise SettingsError(f"{path}: {error}") from None
    if not validators:
        raise SettingsError(f"{os.fspath(directory)!r} holds no *.json schema, so no event could be accepted")
    return validators


def json_schema(schema: dict[str, Any]) -> Validator:
    """A validator for a JSON Schema; `SettingsError` for one that is malformed or uses an unsupported keyword."""
    check = compile_schema(schema)

    def validate(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
        try:
            violations = list(islice(check(event, None), ERRORS_MAX))
        except RecursionError:  # a schema that refers to itself goes as deep as the client's event
            return [FieldError("event", "is nested too deeply for its schema")]
        return [FieldError(_format_location(location), message) for location, message in violations]

    return validate


def _format_location(location: Location) -> str:
    parts: list[str] = []
    while location is not None:
        key, location = location
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    field = "".join(["event", *reversed(parts)])
    return field if len(field) <= FIELD_CHARS_MAX else field[: FIELD_CHARS_MAX - 1] + "…"
