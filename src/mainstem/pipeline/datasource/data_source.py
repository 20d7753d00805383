"""The entry point of the format `mainstem`: its schema, readers and writers."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructField, StructType

from mainstem.errors import BadOption
from mainstem.pipeline.datasource.options import parse_read_options, parse_write_options
from mainstem.pipeline.datasource.readers import LogReader, LogStreamReader
from mainstem.pipeline.datasource.reading.schema_inference import infer_schema
from mainstem.pipeline.datasource.writers import LogStreamWriter, LogWriter
from mainstem.pipeline.log_schema import LOG_COLUMNS, log_struct


class MainstemDataSource(DataSource):
    """`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `format("mainstem")`."""

    @classmethod
    def name(cls) -> str:
        return "mainstem"

    def schema(self) -> StructType | str:
        options = parse_read_options(self.options)
        for name in options.columns:
            if name not in LOG_COLUMNS:
                raise BadOption(f"columns: there is no column {name!r}; the columns are {', '.join(LOG_COLUMNS)}")
        if options.schema_column is not None and options.schema is None:
            raise BadOption("schemaColumn needs the option schema, which names its fields")
        chosen = options.columns or tuple(LOG_COLUMNS)
        if options.schema is not None and options.schema.lower() == "infer":
            return _add_inferred(log_struct(chosen), infer_schema(options), options.schema_column)
        columns = [f"`{name}` {LOG_COLUMNS[name]}" for name in chosen]
        if options.schema is not None and options.schema_column is not None:
            columns.append(f"`{options.schema_column}` STRUCT<{options.schema}>")
        elif options.schema is not None:
            columns.append(options.schema)
        return ", ".join(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        return LogReader(parse_read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LogStreamReader(parse_read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _check_append(overwrite)
        return LogWriter(parse_write_options(self.options, streaming=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        _check_append(overwrite)
        return LogStreamWriter(parse_write_options(self.options, streaming=True), schema)


def _check_append(overwrite: bool) -> None:
    if overwrite:
        raise BadOption('the log is append-only: use mode("append") or outputMode("append")')


def _add_inferred(of_log: StructType, inferred: StructType, schema_column: str | None) -> StructType:
    typed = inferred.fields if schema_column is None else [StructField(schema_column, inferred)]
    return StructType([*of_log.fields, *typed])
