"""Domain validation: what an operator demands of an event beyond being an object.

A `Validator` gets the event and the accepted events before it in the same batch, and answers with what is wrong; an
empty list accepts. The modes are `none` (`accept_all`), `model` (`model_validator`, by the name of the event's
schema), `tree` (`tree.tree_validator`), and a hook of the operator's own (`load_hook`). A validator that raises is a
bug of the operator and goes through as it is.

The name of an event's schema is its `schema` field; else, for `{"type": "event", "payload": {"schema": ...}}`, the
envelope of the older generation, the one in the payload; else its `type` field. The schema describes the whole event.

`json_schema` knows a subset of JSON Schema 2020-12 (`KEYWORDS` and `ANNOTATIONS`). Any other keyword is refused when
the schema is loaded, `format` too: a rule that looks enforced and is not would be worse than none. Equality (`const`,
`enum`, `uniqueItems`) is the contract's: 1 = 1.0, and true is not 1. `pattern` is Python's `re`, with ASCII classes and
with `$` at the very end only, as in ECMAScript; it is the operator's to write patterns that cannot run away.
"""

import importlib
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from mainstem.errors import SettingsError
from mainstem.sync.canonical import canonicalize

ERRORS_MAX: Final = 20  # of one event; a client mends these first
FIELD_CHARS_MAX: Final = 200  # keys are the client's, and errors are sent back
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


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
    check = _Document(schema).check

    def validate(event: dict[str, Any], earlier: Sequence[dict[str, Any]], /) -> list[FieldError]:
        try:
            faults = list(islice(check(event, None), ERRORS_MAX))
        except RecursionError:  # a schema that refers to itself goes as deep as the client's event
            return [FieldError("event", "is nested too deeply for its schema")]
        return [FieldError(_render(place), message) for place, message in faults]

    return validate


# A place is the way from a value up to the event, in pairs of key and parent: it is written out only for an error.
Place = tuple[str | int, Any] | None
Fault = tuple[Place, str]
Check = Callable[[Any, Place], Iterator[Fault]]


def _render(place: Place) -> str:
    parts: list[str] = []
    while place is not None:
        key, place = place
        parts.append(f"[{key}]" if isinstance(key, int) else f".{key}")
    field = "".join(["event", *reversed(parts)])
    return field if len(field) <= FIELD_CHARS_MAX else field[: FIELD_CHARS_MAX - 1] + "…"


class _Document:
    """One schema file: compiles subschemas into checks, and resolves references to the top-level `$defs`."""

    def __init__(self, root: dict[str, Any]) -> None:
        definitions = root.get("$defs", {})
        if not isinstance(definitions, dict):
            raise SettingsError("#/$defs: must be an object")
        schemas = {"#": root} | {_reference_to(name): schema for name, schema in definitions.items()}
        self.definitions: dict[str, Check] = {}
        self.referring: dict[str, set[str]] = {name: set() for name in schemas}
        for name, schema in schemas.items():
            self.definitions[name] = self.compile(schema, name, name)
        self._refuse_circles()
        self.check = self.definitions["#"]

    def compile(self, schema: Any, where: str, applied_by: str | None) -> Check:
        """The check of a subschema. `applied_by` is the definition that applies it to the very value that it gets
        itself, or None when the subschema applies to a part of it."""
        if isinstance(schema, bool):
            return _anything if schema else _nothing
        if not isinstance(schema, dict):
            raise SettingsError(f"{where}: a schema is an object or a boolean")
        unknown = schema.keys() - KEYWORDS.keys() - ANNOTATIONS
        if where == "#":
            unknown -= TOP_LEVEL
            _demand(schema.get("$schema", DIALECT) == DIALECT, f"{where}/$schema", f"must be {DIALECT}")
        if unknown:
            raise SettingsError(f"{where}: unsupported here: {', '.join(sorted(unknown))}")
        checks = [
            rule(_Use(self, schema, f"{where}/{keyword}", applied_by, keyword))
            for keyword, rule in KEYWORDS.items()
            if keyword in schema
        ]
        return lambda value, place: chain.from_iterable(check(value, place) for check in checks)

    def _refuse_circles(self) -> None:
        """A definition that applies itself to the same value would never come to an end."""
        for start in self.referring:
            reached: set[str] = set()
            waiting = set(self.referring[start])
            while waiting:
                name = waiting.pop()
                _demand(name != start, start, "applies itself to the same value without end")
                reached.add(name)
                waiting |= self.referring[name] - reached


class _Use(NamedTuple):
    """A keyword where it is used."""

    document: _Document
    schema: dict[str, Any]
    where: str
    applied_by: str | None
    keyword: str

    @property
    def argument(self) -> Any:
        return self.schema[self.keyword]

    def compile_here(self, schema: Any, name: str | int) -> Check:
        return self.document.compile(schema, f"{self.where}/{name}", self.applied_by)

    def compile_below(self, schema: Any, *names: str | int) -> Check:
        return self.document.compile(schema, "/".join([self.where, *map(str, names)]), None)


def _demand(condition: bool, where: str, demand: str) -> None:
    if not condition:
        raise SettingsError(f"{where}: {demand}")


def _reference_to(definition: str) -> str:
    return "#/$defs/" + definition.replace("~", "~0").replace("/", "~1")


def _anything(value: Any, place: Place) -> Iterator[Fault]:
    return iter(())


def _nothing(value: Any, place: Place) -> Iterator[Fault]:
    yield place, "is not allowed"


def _passes(check: Check, value: Any) -> bool:
    return next(check(value, None), None) is None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _type(use: _Use) -> Check:
    names = [use.argument] if isinstance(use.argument, str) else use.argument
    _demand(
        isinstance(names, list) and bool(names) and all(isinstance(name, str) and name in TYPES for name in names),
        use.where,
        f"must be of {', '.join(TYPES)}",
    )
    tests = [TYPES[name] for name in names]
    message = f"must be {' or '.join(names)}"

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if not any(test(value) for test in tests):
            yield place, message

    return check


def _equal_to_one(values: list[Any], message: str) -> Check:
    allowed = frozenset(map(canonicalize, values))

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if canonicalize(value) not in allowed:
            yield place, message

    return check


def _const(use: _Use) -> Check:
    return _equal_to_one([use.argument], "must be the one value allowed")


def _enum(use: _Use) -> Check:
    _demand(isinstance(use.argument, list), use.where, "must be an array")
    return _equal_to_one(use.argument, "must be one of the values allowed")


class _Bound(NamedTuple):
    applies: Callable[[Any], bool]
    measure: Callable[[Any], Any]
    holds: Callable[[Any, Any], bool]
    demand: str


def _itself(value: Any) -> Any:
    return value


BOUNDS: Final = {
    "minimum": _Bound(_is_number, _itself, operator.ge, "must be at least"),
    "maximum": _Bound(_is_number, _itself, operator.le, "must be at most"),
    "exclusiveMinimum": _Bound(_is_number, _itself, operator.gt, "must be greater than"),
    "exclusiveMaximum": _Bound(_is_number, _itself, operator.lt, "must be less than"),
    "minLength": _Bound(TYPES["string"], len, operator.ge, "must have a length of at least"),
    "maxLength": _Bound(TYPES["string"], len, operator.le, "must have a length of at most"),
    "minItems": _Bound(TYPES["array"], len, operator.ge, "must have a number of items of at least"),
    "maxItems": _Bound(TYPES["array"], len, operator.le, "must have a number of items of at most"),
    "minProperties": _Bound(TYPES["object"], len, operator.ge, "must have a number of properties of at least"),
    "maxProperties": _Bound(TYPES["object"], len, operator.le, "must have a number of properties of at most"),
}


def _bound(use: _Use) -> Check:
    applies, measure, holds, demand = BOUNDS[use.keyword]
    bound = use.argument
    if measure is len:
        _demand(_is_integer(bound) and bound >= 0, use.where, "must be an integer from 0 on")
    _demand(_is_number(bound), use.where, "must be a number")

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if applies(value) and not holds(measure(value), bound):
            yield place, f"{demand} {bound}"

    return check


# Escapes and character classes are passed over whole: only a `$` outside of them means the end of the text.
DOLLAR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\$)", re.DOTALL)


def _pattern(use: _Use) -> Check:
    _demand(isinstance(use.argument, str), use.where, "must be a string")
    try:
        pattern = re.compile(DOLLAR.sub(lambda match: r"\Z" if match[1] else match[0], use.argument), re.ASCII)
    except re.error as error:
        raise SettingsError(f"{use.where}: not a pattern: {error}") from None

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, str) and not pattern.search(value):
            yield place, "does not have the form demanded"

    return check


def _required(use: _Use) -> Check:
    names = use.argument
    _demand(isinstance(names, list) and all(isinstance(name, str) for name in names), use.where, "must be strings")

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    yield (name, place), "is missing"

    return check


def _properties(use: _Use) -> Check:
    _demand(isinstance(use.argument, dict), use.where, "must be an object")
    checks = {name: use.compile_below(schema, name) for name, schema in use.argument.items()}

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, dict):
            for name, inner in checks.items():
                if name in value:
                    yield from inner(value[name], (name, place))

    return check


def _additional_properties(use: _Use) -> Check:
    known = frozenset(use.schema.get("properties", ()))
    inner = use.compile_below(use.argument)

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, dict):
            for name, item in value.items():
                if name not in known:
                    yield from inner(item, (name, place))

    return check


def _prefix_items(use: _Use) -> Check:
    _demand(isinstance(use.argument, list) and bool(use.argument), use.where, "must be a non-empty array")
    checks = [use.compile_below(schema, index) for index, schema in enumerate(use.argument)]

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, list):
            for index, (inner, item) in enumerate(zip(checks, value, strict=False)):
                yield from inner(item, (index, place))

    return check


def _items(use: _Use) -> Check:
    prefix = use.schema.get("prefixItems", ())
    inner = use.compile_below(use.argument)

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, list):
            for index in range(len(prefix), len(value)):
                yield from inner(value[index], (index, place))

    return check


def _unique_items(use: _Use) -> Check:
    _demand(isinstance(use.argument, bool), use.where, "must be a boolean")
    if not use.argument:
        return _anything

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if isinstance(value, list) and len(set(map(canonicalize, value))) < len(value):
            yield place, "must not hold an item twice"

    return check


def _branches(use: _Use) -> list[Check]:
    _demand(isinstance(use.argument, list) and bool(use.argument), use.where, "must be a non-empty array")
    return [use.compile_here(schema, index) for index, schema in enumerate(use.argument)]


def _all_of(use: _Use) -> Check:
    checks = _branches(use)
    return lambda value, place: chain.from_iterable(check(value, place) for check in checks)


def _any_of(use: _Use) -> Check:
    checks = _branches(use)

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if not any(_passes(branch, value) for branch in checks):
            yield place, "has none of the forms allowed"

    return check


def _one_of(use: _Use) -> Check:
    checks = _branches(use)

    def check(value: Any, place: Place) -> Iterator[Fault]:
        number = sum(_passes(branch, value) for branch in checks)
        if number != 1:
            yield place, f"must have one of the forms allowed, and has {number}"

    return check


def _not(use: _Use) -> Check:
    inner = use.document.compile(use.argument, use.where, use.applied_by)

    def check(value: Any, place: Place) -> Iterator[Fault]:
        if _passes(inner, value):
            yield place, "has a form that is not allowed"

    return check


def _ref(use: _Use) -> Check:
    document, name = use.document, use.argument
    _demand(
        isinstance(name, str) and name in document.referring,
        use.where,
        "must be # or the #/$defs/<name> of a definition",
    )
    if use.applied_by is not None:
        document.referring[use.applied_by].add(name)
    return lambda value, place: document.definitions[name](value, place)


KEYWORDS: Final[dict[str, Callable[[_Use], Check]]] = {
    "type": _type,
    "const": _const,
    "enum": _enum,
    "pattern": _pattern,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional_properties,
    "prefixItems": _prefix_items,
    "items": _items,
    "uniqueItems": _unique_items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "$ref": _ref,
    **dict.fromkeys(BOUNDS, _bound),
}
ANNOTATIONS: Final = frozenset(
    {"title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
TOP_LEVEL: Final = frozenset({"$schema", "$id", "$defs"})
