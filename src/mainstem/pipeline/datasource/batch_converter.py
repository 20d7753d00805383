"""Converts batches of the log to the schema that Spark expects: columns of the log, and typed fields of messages."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.errors import BadOption, MalformedMessage
from mainstem.pipeline.datasource.json_columns import JsonColumns
from mainstem.pipeline.log_schema import LOG_COLUMNS

JSON_TYPE = r"^(?i)application/json *(;.*)?$"


class BatchConverter:
    """Converts the server's batches to the schema that Spark expects."""

    def __init__(
        self, schema: StructType, schema_column: str | None, mode: str = "PERMISSIVE", corrupt: str | None = None
    ) -> None:
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
            self._parser: JsonColumns | None = JsonColumns(self._struct.dataType, corrupt)
        else:
            self._parser = JsonColumns(StructType(typed), corrupt) if typed else None
        self._typed_names = [field.name for field in typed]
        self._mode = mode
        self.columns = self._wanted()
        self._passes = self._parser is None and self.log_names == list(self.columns)

    def _wanted(self) -> tuple[str, ...]:
        """Return the columns that the server must send, in its order."""
        wanted = set(self.log_names)
        if self._parser is not None:
            wanted |= {"kind", "content_type", "data"}
            if self._mode == "FAILFAST":
                wanted |= {"committed_id", "position"}  # the error names them
        return tuple(name for name in LOG_COLUMNS if name in wanted) or ("committed_id",)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._passes and batch.schema.equals(self.arrow):
            return batch
        columns = {name: batch.column(name) for name in self.log_names}
        faults: dict[int, str] = {}
        if self._parser is not None:
            flags = _json_flags(batch)
            if self._struct is not None:
                columns[self._struct.name], faults = self._parser.parse_struct(batch.column("data"), flags)
            else:
                found = self._parser.parse(batch.column("data"), flags)
                columns |= zip(self._typed_names, found.columns, strict=True)
                faults = found.faults
        if faults and self._mode == "FAILFAST":
            raise _refuse(batch, faults)
        arrays = [columns[field.name].cast(field.type) for field in self.arrow]
        converted = pa.RecordBatch.from_arrays(arrays, schema=self.arrow)
        if faults and self._mode == "DROPMALFORMED":
            return converted.filter(pa.array([number not in faults for number in range(batch.num_rows)], pa.bool_()))
        return converted


def _refuse(batch: pa.RecordBatch, faults: dict[int, str]) -> MalformedMessage:
    number = min(faults)
    id_, position = (batch.column(name)[number].as_py() for name in ("committed_id", "position"))
    return MalformedMessage(f"message {position} of committed id {id_} does not fit the schema: {faults[number]}")


def find_json(batch: pa.RecordBatch) -> pa.Array:
    """Return which rows hold JSON: all events, and the messages of JSON streams."""
    of_json = pc.fill_null(pc.match_substring_regex(batch.column("content_type"), JSON_TYPE), False)
    return pc.or_(of_json, pc.equal(batch.column("kind"), "event"))


def _json_flags(batch: pa.RecordBatch) -> list[bool] | None:
    """Return which rows hold JSON; None means all."""
    flags = find_json(batch)
    return None if pc.all(flags).as_py() else flags.to_pylist()
