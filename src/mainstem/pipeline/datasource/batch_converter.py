"""Converts batches of the log to the schema that Spark expects: columns of the log, and typed fields of messages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.json_columns import JsonColumns
from mainstem.pipeline.log_schema import LOG_COLUMNS

JSON_TYPE = r"^(?i)application/json *(;.*)?$"


class BatchConverter:
    """Converts the server's batches to the schema that Spark expects."""

    def __init__(self, schema: StructType, schema_column: str | None) -> None:
        names = [name.lower() for name in schema.fieldNames()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise BadOption(
                f"there are two columns {twice[0]!r}, since the log has one of this name; "
                "set schemaColumn=value to get the typed fields as one struct column instead"
            )
        self.arrow = to_arrow_schema(schema, timezone="UTC")
        self.log_names = [name for name in schema.fieldNames() if name in LOG_COLUMNS]
        typed = [field for field in schema.fields if field.name not in LOG_COLUMNS]
        self._struct = next((field for field in typed if field.name == schema_column), None)
        if self._struct is not None:
            if len(typed) > 1 or not isinstance(self._struct.dataType, StructType):
                raise BadOption(f"schemaColumn: {schema_column!r} must be the only typed column, and a struct")
            self._parser: JsonColumns | None = JsonColumns(self._struct.dataType)
        else:
            self._parser = JsonColumns(StructType(typed)) if typed else None
        self._typed_names = [field.name for field in typed]
        self.columns = self._wanted()
        self._passes = self._parser is None and self.log_names == list(self.columns)

    def _wanted(self) -> tuple[str, ...]:
        """Return the columns that the server must send, in its order."""
        wanted = set(self.log_names)
        if self._parser is not None:
            wanted |= {"kind", "content_type", "data"}
        return tuple(name for name in LOG_COLUMNS if name in wanted) or ("committed_id",)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._passes and batch.schema.equals(self.arrow):
            return batch
        columns = {name: batch.column(name) for name in self.log_names}
        if self._parser is not None:
            flags = _json_flags(batch)
            if self._struct is not None:
                columns[self._struct.name] = self._parser.parse_struct(batch.column("data"), flags)
            else:
                columns |= zip(self._typed_names, self._parser.parse(batch.column("data"), flags), strict=True)
        arrays = [columns[field.name].cast(field.type) for field in self.arrow]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)


def _json_flags(batch: pa.RecordBatch) -> list[bool] | None:
    """Return which rows hold JSON: all events, and the messages of JSON streams. None means all rows."""
    types = batch.column("content_type")
    of_json = pc.fill_null(pc.match_substring_regex(types, JSON_TYPE), False)
    flags = pc.or_(of_json, pc.equal(batch.column("kind"), "event"))
    return None if pc.all(flags).as_py() else flags.to_pylist()
