"""Domain validation: the requirements of an operator for events, beyond being JSON objects.

A `Validator` is called with an event and the events of the same batch that were accepted before it. It returns a list
of errors; an empty list accepts the event. The modes are `none` (`accept_all`), `model` (`model_validator`, by the name
of the event's schema), `tree` (`tree.tree_validator`), and `hook`, the operator's own function (`load_hook`). An
exception in a validator is a bug of the operator, and is passed on unchanged.

The name of an event's schema is in its `schema` field; or, for the older envelope `{"type": "event", "payload":
{"schema": ...}}`, in the payload; or else in its `type` field. The schema describes the whole event.
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

ERRORS_MAX: Final = 20  # per event; a client should correct these first
FIELD_CHARS_MAX: Final = 200  # the client chooses the keys, and errors repeat them


class FieldError(msgspec.Struct, frozen=True):
    """One error of an event. `field` is a path such as `event.payload.items[0].name`."""

    field: str
    message: str


class Validator(Protocol):
    def __call__(self, event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]: ...


def accept_all(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
    """Accept any event (mode `none`)."""
    return []


def model_validator(schemas: Mapping[str, Validator | dict[str, Any]]) -> Validator:
    """Return a validator for mode `model`: it checks each event with the validator or JSON Schema that the event
    names."""
    validators = {name: json_schema(rule) if isinstance(rule, dict) else rule for name, rule in schemas.items()}

    def validate(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
        field, name = schema_name(event)
        if not isinstance(name, str):
            return [FieldError(field, "must be the name of a schema")]
        validator = validators.get(name)
        if validator is None:
            return [FieldError(field, "is not the name of a schema on this server")]
        return validator(event, earlier)

    return validate


def schema_name(event: dict[str, Any]) -> tuple[str, Any]:
    """Return the field that names the event's schema, and its value, which may be any JSON value."""
    if "schema" in event:
        return "event.schema", event["schema"]
    payload = event.get("payload")
    if event.get("type") == "event" and isinstance(payload, dict) and "schema" in payload:
        return "event.payload.schema", payload["schema"]
    return "event.type", event.get("type")


def load_hook(name: str) -> Validator:
    """Import the validator at `package.module:callable`. Raise `SettingsError` if that fails."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise SettingsError(f"the validation hook {name!r} must have the form package.module:callable")
    try:
        hook = getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise SettingsError(f"the validation hook {name!r} cannot be imported: {error}") from error
    except AttributeError:
        raise SettingsError(f"the validation hook {name!r}: module {module_name!r} has no {attribute!r}") from None
    if not callable(hook):
        raise SettingsError(f"the validation hook {name!r} is not callable")
    validator: Validator = hook
    return validator


def load_schemas(directory: str | os.PathLike[str]) -> dict[str, Validator]:
    """Compile the JSON Schemas in the `*.json` files of a directory, keyed by file name without `.json`.

    Raise `SettingsError` if there is none, or if a file cannot be read or is not a supported schema.
    """
    validators: dict[str, Validator] = {}
    for path in sorted(Path(directory).glob("*.json")):
        try:
            validators[path.stem] = json_schema(msgspec.json.decode(path.read_bytes(), type=dict[str, Any]))
        except OSError as error:
            raise SettingsError(f"the schema {path} cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            raise SettingsError(f"the schema {path} is not a JSON object") from None
        except SettingsError as error:
            raise SettingsError(f"the schema {path} is invalid at {error.detail}") from None
    if not validators:
        raise SettingsError(f"{os.fspath(directory)!r} has no *.json schema, so every event would be rejected")
    return validators


def json_schema(schema: dict[str, Any]) -> Validator:
    """Return a validator for a JSON Schema. Raise `SettingsError` if it is malformed or uses an unsupported keyword."""
    check = compile_schema(schema)

    def validate(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
        try:
            violations = list(islice(check(event, None), ERRORS_MAX))
        except RecursionError:  # the check of a recursive schema goes as deep as the event
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
