"""The options of the format, parsed and checked. An unknown name or an invalid value is a `BadOption`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem import limits
from mainstem.errors import BadOption, BadPath
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.option_checks import check_globs, check_partitions
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.paths import PREFIX, check_path, check_prefix

SERVER_OPTIONS = ("url", "token", "tokenFile", "retrySeconds", "streamPrefix")
READ_OPTIONS = (
    *("streams", "partitions", "kind", "startingId", "endingId", "maxRowsPerTrigger", "maxBytesPerTrigger"),
    *("schema", "schemaColumn", "columns", "failOnDataLoss", "splits", "pageBytes"),
)
WRITE_OPTIONS = (
    *("stream", "streamColumn", "contentType", "valueColumn", "partitions", "partitionColumn", "idColumn", "clientId"),
    *("skipRejected", "producerId", "stagingLocation", "chunkBytes"),
)
SPARK_OPTIONS = ("path", "checkpointLocation", "queryName", "outputMode")


class OptionParser:
    """Parses Spark's options, whose names are case-insensitive."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        names = {name.lower() for name in (*SERVER_OPTIONS, *known, *SPARK_OPTIONS)}
        unknown = sorted(set(self._options) - names)
        if unknown:
            raise BadOption(f"unknown option {unknown[0]!r}; the options are {', '.join((*SERVER_OPTIONS, *known))}")

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower()) or None

    def names(self, name: str) -> tuple[str, ...]:
        return split_names(self.text(name))

    def number(self, name: str, least: int, most: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isdecimal() or not least <= int(value) <= most:
            raise BadOption(f"{name} must be a whole number from {least} to {most}, not {value!r}")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in ("true", "false"):
            raise BadOption(f"{name} must be true or false, not {value!r}")
        return value == "true"

    def server(self) -> ServerOptions:
        url = self.text("url")
        if url is None:
            raise BadOption("the option url is missing; set it to the server, like http://127.0.0.1:4437")
        retry_s = self.number("retrySeconds", 0, int(limits.PIPELINE_RETRY_S_MAX))
        token_file = self.text("tokenFile")
        if token_file and self.text("token"):
            raise BadOption("give token or tokenFile, not both")
        stream_prefix = self.text("streamPrefix") or PREFIX
        try:
            check_prefix(stream_prefix)
        except ValueError as error:
            raise BadOption(f"streamPrefix: {error}") from None
        return ServerOptions(
            url.rstrip("/"),
            self.text("token"),
            token_file,
            limits.PIPELINE_RETRY_S if retry_s is None else retry_s,
            stream_prefix,
        )


def split_names(text: str | None) -> tuple[str, ...]:
    """Return the names in a comma-separated list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


@dataclass(frozen=True)
class ReadOptions:
    """What to read, and how much at once."""

    server: ServerOptions
    streams: tuple[str, ...]
    partitions: tuple[str, ...]
    kind: str | None
    starting_id: int | None
    starting_latest: bool
    ending_id: int | None
    rows_max: int | None
    bytes_max: int | None
    schema: str | None
    schema_column: str | None
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    splits: int | None
    page_bytes: int


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    parser = OptionParser(options, READ_OPTIONS)
    if parser.text("streams") and parser.text("path"):
        raise BadOption("load(path) is short for the option streams: give only one of them")
    streams = parser.names("streams") or parser.names("path")
    check_globs("streams", streams)
    partitions = parser.names("partitions")
    check_partitions("partitions", partitions)
    kind = parser.text("kind")
    if kind not in (None, "stream", "event"):
        raise BadOption(f"kind must be stream or event, not {kind!r}")
    starting = parser.text("startingId")
    latest = starting == "latest"
    starting_id = None if starting in ("latest", "earliest") else parser.number("startingId", 0, limits.INTEGER_MAX)
    return ReadOptions(
        server=parser.server(),
        streams=streams,
        partitions=partitions,
        kind=kind,
        starting_id=starting_id,
        starting_latest=latest,
        ending_id=parser.number("endingId", 0, limits.INTEGER_MAX),
        rows_max=parser.number("maxRowsPerTrigger", 1, limits.INTEGER_MAX),
        bytes_max=parser.number("maxBytesPerTrigger", 1, limits.INTEGER_MAX),
        schema=parser.text("schema"),
        schema_column=parser.text("schemaColumn"),
        columns=parser.names("columns"),
        fail_on_data_loss=parser.flag("failOnDataLoss", True),
        splits=parser.number("splits", 1, limits.SPLITS_MAX),
        page_bytes=parser.number("pageBytes", 1, limits.LOG_PAGE_BYTES_MAX) or limits.LOG_READ_BYTES,
    )


@dataclass(frozen=True)
class WriteOptions:
    """The target of the rows, and how messages are made from them."""

    server: ServerOptions
    stream: str | None
    stream_column: str | None
    content_type: str
    value_column: str | None
    partitions: tuple[str, ...]
    partition_column: str | None
    id_column: str | None
    client_id: str | None
    skip_rejected: bool
    producer_id: str | None
    staging: str | None
    chunk_bytes: int

    @property
    def into_events(self) -> bool:
        return bool(self.partitions or self.partition_column)

    @property
    def json(self) -> bool:
        return self.into_events or is_json(self.content_type)

    @property
    def target(self) -> str:
        """A description of the target. A producer id belongs to one target."""
        if self.into_events:
            return f"partitions {','.join(self.partitions) or f'of column {self.partition_column}'}"
        return f"stream {self.stream}" if self.stream else f"streams of column {self.stream_column}"


def parse_write_options(options: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    parser = OptionParser(options, WRITE_OPTIONS)
    stream = parser.text("stream") or parser.text("path")
    targets = [stream, parser.text("streamColumn"), parser.text("partitions"), parser.text("partitionColumn")]
    if sum(target is not None for target in targets) != 1:
        raise BadOption("give exactly one of stream, streamColumn, partitions, partitionColumn")
    if stream is not None:
        try:
            check_path(stream)
        except BadPath as error:
            raise BadOption(f"stream: {error.detail}") from None
    partitions = parser.names("partitions")
    check_partitions("partitions", partitions)
    if streaming and parser.text("producerId"):
        raise BadOption("producerId is for batch writes; a streaming query uses its own id")
    staging = parser.text("stagingLocation")
    if streaming:
        staging = staging or parser.text("checkpointLocation")
        if staging is None:
            raise BadOption(
                "set checkpointLocation as an option of this writer, or stagingLocation: rows are staged there first"
            )
    return WriteOptions(
        server=parser.server(),
        stream=stream,
        stream_column=parser.text("streamColumn"),
        content_type=parser.text("contentType") or "application/json",
        value_column=parser.text("valueColumn"),
        partitions=partitions,
        partition_column=parser.text("partitionColumn"),
        id_column=parser.text("idColumn"),
        client_id=parser.text("clientId"),
        skip_rejected=parser.flag("skipRejected", False),
        producer_id=parser.text("producerId"),
        staging=staging,
        chunk_bytes=parser.number("chunkBytes", 1, limits.SINK_CHUNK_BYTES_MAX) or limits.SINK_CHUNK_BYTES,
    )
