"""Spark's types without Spark: as JSON, which plans of imports hold, and as Arrow types.

Only types that Spark and Arrow read alike are translated. For all others, `SparkNeeded` is raised.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pyarrow as pa

SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
NAMES = {type_: name for name, type_ in SIMPLE.items()}
WIDER = {pa.uint8(): "short", pa.uint16(): "integer", pa.uint32(): "long", pa.large_string(): "string"}
"""What Spark reads as another type than Arrow."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
DDL_FIELD = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s+(\w+)\s*")
DDL_TYPES = {
    "boolean": "boolean",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
}


class SparkNeeded(Exception):
    """Only Spark can do this work exactly as Spark does it. The text completes "since ..."."""


def describe_schema(schema: pa.Schema) -> str:
    """Return the schema that Spark finds in files with these columns, as JSON."""
    return encode_fields([_describe_field(field) for field in schema])


def encode_fields(fields: list[dict[str, Any]]) -> str:
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def make_field(name: str, type_: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": {}}


def _describe_field(field: pa.Field) -> dict[str, Any]:
    return make_field(field.name, describe_type(field.type), field.nullable)


def describe_type(type_: pa.DataType) -> Any:
    """Return Spark's type, as JSON."""
    name = NAMES.get(type_) or WIDER.get(type_)
    if name is not None:
        return name
    if pa.types.is_timestamp(type_) and type_.unit in ("s", "ms", "us"):
        return "timestamp" if type_.tz else "timestamp_ntz"
    if pa.types.is_decimal128(type_) and type_.scale >= 0:
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        inner = type_.value_field
        return {"type": "array", "elementType": describe_type(inner.type), "containsNull": inner.nullable}
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [_describe_field(field) for field in type_]}
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": describe_type(type_.key_type),
            "valueType": describe_type(type_.item_type),
            "valueContainsNull": type_.item_field.nullable,
        }
    raise SparkNeeded(f"a column has the type {type_}")


def parse_schema(text: str) -> pa.Schema:
    """Return the Arrow schema in which Spark hands over the rows of a schema."""
    return pa.schema([_parse_field(field) for field in msgspec.json.decode(text)["fields"]])


def _parse_field(field: dict[str, Any]) -> pa.Field:
    return pa.field(field["name"], _parse_type(field["type"]), field["nullable"])


def _parse_type(type_: Any) -> pa.DataType:
    if isinstance(type_, str):
        decimal = DECIMAL.fullmatch(type_)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if type_ in SIMPLE:
            return SIMPLE[type_]
    elif type_["type"] == "array":
        return pa.list_(pa.field("element", _parse_type(type_["elementType"]), type_["containsNull"]))
    elif type_["type"] == "struct":
        return pa.struct([_parse_field(field) for field in type_["fields"]])
    elif type_["type"] == "map":
        value = pa.field("value", _parse_type(type_["valueType"]), type_["valueContainsNull"])
        return pa.map_(_parse_type(type_["keyType"]), value)
    raise SparkNeeded(f"a column has the type {type_}")


def parse_ddl(text: str) -> str:
    """Return a schema that a person has written, such as `n INT, shop STRING`, as JSON."""
    fields = []
    for part in text.split(","):
        found = DDL_FIELD.fullmatch(part)
        type_ = DDL_TYPES.get(found[3].lower()) if found else None
        if found is None or type_ is None:
            raise SparkNeeded("the schema names more than simple types")
        fields.append(make_field(found[1] or found[2], type_))
    return encode_fields(fields)
