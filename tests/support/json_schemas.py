"""The fields that a JSON Schema names, within the document that its references lead into."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def list_fields(schema: Json, document: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of all fields, such as `results[].errors[].field`."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name, inner in schema.get("properties", {}).items():
        inside = f"{path}.{name}" if path else name
        yield inside
        yield from list_fields(inner, document, inside)
    for inner in schema.get("anyOf", ()):
        yield from list_fields(inner, document, path)
    if isinstance(schema.get("items"), dict):
        yield from list_fields(schema["items"], document, f"{path}[]")
