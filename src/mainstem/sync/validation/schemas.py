"""JSON Schema: a subset of 2020-12 (`ASSERTIONS`, `APPLICATORS` and `ANNOTATIONS`), compiled into one check.

Any other keyword, including `format`, is refused when the schema is compiled: a rule that looks enforced but is not
would be worse than no rule.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from mainstem.errors import SettingsError
from mainstem.sync.validation.assertions import ASSERTIONS, Check, Location, Violation, accept_anything, require

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
ANNOTATIONS: Final = frozenset(
    {"title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"}
)
TOP_LEVEL: Final = frozenset({"$schema", "$id", "$defs"})


def compile_schema(schema: dict[str, Any]) -> Check:
    """Compile a schema into a check. Raise `SettingsError` if it is malformed or uses an unsupported keyword."""
    return _Document(schema).check


class _Document:
    """One schema file: compiles subschemas into checks, and resolves references to the top-level `$defs`."""

    def __init__(self, root: dict[str, Any]) -> None:
        definitions = root.get("$defs", {})
        if not isinstance(definitions, dict):
            raise SettingsError("#/$defs: must be an object")
        schemas = {"#": root} | {_reference_to(name): schema for name, schema in definitions.items()}
        self.definitions: dict[str, Check] = {}
        self.references: dict[str, set[str]] = {name: set() for name in schemas}
        for name, schema in schemas.items():
            self.definitions[name] = self.compile(schema, name, name)
        self._refuse_circular_references()
        self.check = self.definitions["#"]

    def compile(self, schema: Any, where: str, applied_by: str | None) -> Check:
        """Compile a subschema. `applied_by` is the definition that applies it to the definition's own value, or None if
        the subschema applies to a part of that value."""
        if isinstance(schema, bool):
            return accept_anything if schema else _refuse
        if not isinstance(schema, dict):
            raise SettingsError(f"{where}: must be an object or a boolean")
        unknown = schema.keys() - ASSERTIONS.keys() - APPLICATORS.keys() - ANNOTATIONS
        if where == "#":
            unknown -= TOP_LEVEL
            require(schema.get("$schema", DIALECT) == DIALECT, f"{where}/$schema", f"must be {DIALECT}")
        if unknown:
            raise SettingsError(f"{where}: has unsupported keywords: {', '.join(sorted(unknown))}")
        checks = [
            assertion(schema[keyword], f"{where}/{keyword}")
            for keyword, assertion in ASSERTIONS.items()
            if keyword in schema
        ]
        checks += [
            applicator(_KeywordUse(self, schema, f"{where}/{keyword}", applied_by, keyword))
            for keyword, applicator in APPLICATORS.items()
            if keyword in schema
        ]
        return lambda value, location: chain.from_iterable(check(value, location) for check in checks)

    def _refuse_circular_references(self) -> None:
        """Raise `SettingsError` if a definition applies itself to the same value: its check would never end."""
        for start in self.references:
            reached: set[str] = set()
            waiting = set(self.references[start])
            while waiting:
                name = waiting.pop()
                require(name != start, start, "refers to itself for the same value, so its check would never end")
                reached.add(name)
                waiting |= self.references[name] - reached


class _KeywordUse(NamedTuple):
    """One use of a keyword that applies subschemas."""

    document: _Document
    schema: dict[str, Any]
    where: str
    applied_by: str | None
    keyword: str

    @property
    def argument(self) -> Any:
        return self.schema[self.keyword]

    def compile_in_place(self, schema: Any, name: str | int) -> Check:
        return self.document.compile(schema, f"{self.where}/{name}", self.applied_by)

    def compile_child(self, schema: Any, *names: str | int) -> Check:
        return self.document.compile(schema, "/".join([self.where, *map(str, names)]), None)


def _reference_to(definition: str) -> str:
    return "#/$defs/" + definition.replace("~", "~0").replace("/", "~1")


def _refuse(value: Any, location: Location) -> Iterator[Violation]:
    yield location, "is not allowed"


def _passes(check: Check, value: Any) -> bool:
    return next(check(value, None), None) is None


def _properties(use: _KeywordUse) -> Check:
    require(isinstance(use.argument, dict), use.where, "must be an object")
    checks = {name: use.compile_child(schema, name) for name, schema in use.argument.items()}

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name, inner in checks.items():
                if name in value:
                    yield from inner(value[name], (name, location))

    return check


def _additional_properties(use: _KeywordUse) -> Check:
    known = frozenset(use.schema.get("properties", ()))
    inner = use.compile_child(use.argument)

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, dict):
            for name, item in value.items():
                if name not in known:
                    yield from inner(item, (name, location))

    return check


def _prefix_items(use: _KeywordUse) -> Check:
    require(isinstance(use.argument, list) and bool(use.argument), use.where, "must be a non-empty array")
    checks = [use.compile_child(schema, index) for index, schema in enumerate(use.argument)]

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, list):
            for index, (inner, item) in enumerate(zip(checks, value, strict=False)):
                yield from inner(item, (index, location))

    return check


def _items(use: _KeywordUse) -> Check:
    prefix = use.schema.get("prefixItems", ())
    inner = use.compile_child(use.argument)

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if isinstance(value, list):
            for index in range(len(prefix), len(value)):
                yield from inner(value[index], (index, location))

    return check


def _branches(use: _KeywordUse) -> list[Check]:
    require(isinstance(use.argument, list) and bool(use.argument), use.where, "must be a non-empty array")
    return [use.compile_in_place(schema, index) for index, schema in enumerate(use.argument)]


def _all_of(use: _KeywordUse) -> Check:
    checks = _branches(use)
    return lambda value, location: chain.from_iterable(check(value, location) for check in checks)


def _any_of(use: _KeywordUse) -> Check:
    checks = _branches(use)

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if not any(_passes(branch, value) for branch in checks):
            yield location, "must match at least one of the allowed schemas"

    return check


def _one_of(use: _KeywordUse) -> Check:
    checks = _branches(use)

    def check(value: Any, location: Location) -> Iterator[Violation]:
        number = sum(_passes(branch, value) for branch in checks)
        if number != 1:
            yield location, f"must match exactly one of the allowed schemas, but matches {number}"

    return check


def _not(use: _KeywordUse) -> Check:
    inner = use.document.compile(use.argument, use.where, use.applied_by)

    def check(value: Any, location: Location) -> Iterator[Violation]:
        if _passes(inner, value):
            yield location, "must not match the forbidden schema"

    return check


def _ref(use: _KeywordUse) -> Check:
    document, name = use.document, use.argument
    require(
        isinstance(name, str) and name in document.references,
        use.where,
        "must be # or #/$defs/<name> of an existing definition",
    )
    if use.applied_by is not None:
        document.references[use.applied_by].add(name)
    return lambda value, location: document.definitions[name](value, location)


APPLICATORS: Final[dict[str, Callable[[_KeywordUse], Check]]] = {
    "properties": _properties,
    "additionalProperties": _additional_properties,
    "prefixItems": _prefix_items,
    "items": _items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "$ref": _ref,
}
"""Maps a keyword that applies subschemas, to the value itself or to its parts, to the function that compiles it."""
