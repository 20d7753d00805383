"""The options of import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from mainstem.errors import BadOption
from mainstem.pipeline.jobs.specs.options import JobSpec, option

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import Job


class ImportSpec(JobSpec, frozen=True, kw_only=True):
    source: Annotated[str, option("A file, a directory, a glob, or a Delta table.", argument=True, location=True)]
    format: Annotated[
        Literal["parquet", "delta", "ndjson", "csv"] | None,
        option("The format of SOURCE.  [default: from the file names]"),
    ] = None
    stream: Annotated[str | None, option("Append to this stream.", "PATH")] = None
    stream_column: Annotated[str | None, option("Append each row to the stream named in this column.", "NAME")] = None
    partition: Annotated[tuple[str, ...], option("Submit events to this partition; can be repeated.", "NAME")] = ()
    partition_column: Annotated[str | None, option("Submit events to the partitions named in this column.", "NAME")] = (
        None
    )
    id_column: Annotated[
        str | None, option("The column with event ids.  [default: derived from file and row]", "NAME")
    ] = None
    value_column: Annotated[
        str | None, option("The column with the message.  [default: all columns as a JSON object]", "NAME")
    ] = None
    content_type: Annotated[str | None, option("Content type of the streams.  [default: application/json]", "TYPE")] = (
        None
    )
    client_id: Annotated[str | None, option("The client id of the events.", "ID")] = None
    skip_rejected: Annotated[bool, option("Skip events that the server rejects.")] = False
    header: Annotated[bool, option("Whether CSV files begin with column names.")] = True
    infer_types: Annotated[bool, option("Recognise numbers, times and booleans in CSV; otherwise all is text.")] = False
    schema: Annotated[str | None, option('The columns of CSV or Parquet: "n INT, shop STRING".', "DDL")] = None
    table_version: Annotated[
        int | None, option("The version of a Delta table.  [default: the newest]", "N", least=0)
    ] = None
    name: Annotated[str, option("Distinguishes this import from another one of the same files.", "NAME")] = ""
    engine: Annotated[
        Literal["auto", "spark", "local"], option("auto does up to 64 MiB without Spark, in this process.")
    ] = "auto"
    group_files: Annotated[int | None, option("Files per write.  [default: 64]", "N", least=1)] = None
    staging: Annotated[
        str | None,
        option(
            "Where rows are staged: a URI such as s3://bucket/staging, if the executors share no disk.  "
            "[default: the checkpoint]",
            "LOCATION",
            location=True,
        ),
    ] = None

    def make_job(self) -> Job:
        from mainstem.pipeline.jobs.import_ import make_import
        from mainstem.pipeline.lake.import_source import ImportSource, guess_format

        if sum(map(bool, (self.stream, self.stream_column, self.partition, self.partition_column))) != 1:
            raise BadOption("give exactly one of --stream, --stream-column, --partition, --partition-column")
        given = {
            "stream": self.stream,
            "streamColumn": self.stream_column,
            "partitions": ",".join(self.partition) or None,
            "partitionColumn": self.partition_column,
            "idColumn": self.id_column,
            "valueColumn": self.value_column,
            "contentType": self.content_type,
            "clientId": self.client_id,
            "skipRejected": "true" if self.skip_rejected else None,
        }
        target = {name: value for name, value in given.items() if value is not None}
        format_ = self.format or guess_format(self.source)
        source = ImportSource(self.source, format_, self.header, self.infer_types, self.schema, self.table_version)
        return make_import(
            source,
            target,
            name=self.name,
            group_files=self.group_files,
            engine=self.engine,
            staging=self.staging,
        )
