"""`mainstem pipeline import`."""

import click

from mainstem.cli.pipeline.runner import Runner, job_options

FORMATS = ("parquet", "delta", "ndjson", "csv")


@click.command("import")
@click.argument("source")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="The format of SOURCE.  [default: from the file names]"
)
@click.option("--stream", metavar="PATH", help="Append to this stream.")
@click.option("--stream-column", metavar="NAME", help="Append each row to the stream named in this column.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="NAME", help="Submit events to this partition; can be repeated."
)
@click.option("--partition-column", metavar="NAME", help="Submit events to the partitions named in this column.")
@click.option("--id-column", metavar="NAME", help="The column with event ids.  [default: derived from file and row]")
@click.option(
    "--value-column", metavar="NAME", help="The column with the message.  [default: all columns as a JSON object]"
)
@click.option("--content-type", metavar="TYPE", help="Content type of the streams.  [default: application/json]")
@click.option("--client-id", metavar="ID", help="The client id of the events.")
@click.option("--skip-rejected", is_flag=True, help="Skip events that the server rejects.")
@click.option(
    "--header/--no-header", default=True, help="Whether CSV files begin with column names.  [default: header]"
)
@click.option(
    "--infer-types", is_flag=True, help="Recognise numbers, times and booleans in CSV; otherwise all is text."
)
@click.option("--schema", metavar="DDL", help='The columns of CSV or Parquet: "n INT, shop STRING".')
@click.option(
    "--table-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="The version of a Delta table.  [default: the newest]",
)
@click.option(
    "--name", default="", metavar="NAME", help="Distinguishes this import from another one of the same files."
)
@click.option("--group-files", type=click.IntRange(min=1), metavar="N", help="Files per write.  [default: 64]")
@job_options(changes=True)
def import_(
    source: str,
    format_: str | None,
    stream: str | None,
    stream_column: str | None,
    partitions: tuple[str, ...],
    partition_column: str | None,
    id_column: str | None,
    value_column: str | None,
    content_type: str | None,
    client_id: str | None,
    skip_rejected: bool,
    header: bool,
    infer_types: bool,
    schema: str | None,
    table_version: int | None,
    name: str,
    group_files: int | None,
    runner: Runner,
) -> None:
    """Import SOURCE into streams or partitions, each row exactly once.

    SOURCE is a file, a directory, a glob, or a Delta table. Run the same command again to continue after a
    kill, or to import new files. Nothing is imported twice.
    """
    from mainstem.pipeline.jobs.import_ import make_import
    from mainstem.pipeline.lake.import_source import ImportSource, guess_format

    if sum(map(bool, (stream, stream_column, partitions, partition_column))) != 1:
        raise click.UsageError("give exactly one of --stream, --stream-column, --partition, --partition-column")
    given = {
        "stream": stream,
        "streamColumn": stream_column,
        "partitions": ",".join(partitions) or None,
        "partitionColumn": partition_column,
        "idColumn": id_column,
        "valueColumn": value_column,
        "contentType": content_type,
        "clientId": client_id,
        "skipRejected": "true" if skip_rejected else None,
    }
    target = {option: value for option, value in given.items() if value is not None}
    format_ = format_ or guess_format(source)
    what = ImportSource(source, format_, header, infer_types, schema, table_version)  # type: ignore[arg-type]
    runner.run(make_import(what, target, name=name, group_files=group_files))
