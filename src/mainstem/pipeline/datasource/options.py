"""The options of the format, parsed and checked. An unknown name or an invalid value is a `BadOption`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from mainstem import limits
from mainstem.errors import BadOffset, BadOption, BadPath
from mainstem.globs import matches
from mainstem.pipeline.http_client import ServerOptions
from mainstem.pipeline.jobs.durations import parse_seconds
from mainstem.pipeline.option_checks import check_globs, check_partitions
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import parse_offset
from mainstem.streams.rules.paths import PREFIX, check_path, check_prefix
from mainstem.timestamps import EPOCH, format_time_exactly

SERVER_OPTIONS = ("url", "token", "tokenFile", "retrySeconds", "streamPrefix")
READ_OPTIONS = (
    *("streams", "partitions", "kind", "startingId", "startingTimestamp", "startingOffsetsByStream"),
    *("endingId", "endingTimestamp", "maxRowsPerTrigger", "maxBytesPerTrigger", "minRowsPerTrigger"),
    *("maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "schema", "schemaColumn", "inferRows", "mode"),
    *("columnNameOfCorruptRecord", "columns", "failOnDataLoss", "pageBytes"),
)
WRITE_OPTIONS = (
    *("stream", "streamColumn", "contentType", "valueColumn", "partitions", "partitionColumn", "idColumn", "clientId"),
    *("skipRejected", "producerId", "stagingLocation", "chunkBytes"),
)
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
"""What to do with messages that do not fit the schema; the first is the default."""
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

    def timestamp(self, name: str) -> str | None:
        """Return a time as RFC 3339 text. It is given as ISO 8601, or in milliseconds since 1970."""
        value = self.text(name)
        if value is None:
            return None
        try:
            if value.isascii() and value.isdigit():
                return format_time_exactly(int(value) * 1_000)
            time = datetime.fromisoformat(value)
        except (ValueError, OverflowError, OSError):
            raise BadOption(
                f"{name} must be a time like 2026-01-31T12:00:00Z or milliseconds since 1970, not {value!r}"
            ) from None
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        return format_time_exactly((time - EPOCH) // timedelta(microseconds=1))

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
    starting_time: str | None
    starting_streams: Mapping[str, int | str]
    ending_id: int | None
    ending_time: str | None
    rows_max: int | None
    bytes_max: int | None
    rows_min: int | None
    delay_s_max: float
    min_partitions: int | None
    partition_rows_max: int | None
    schema: str | None
    schema_column: str | None
    infer_rows: int
    mode: str
    corrupt_column: str
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    page_bytes: int

    @property
    def starts_at_fixed_id(self) -> bool:
        """Whether the read starts at the same id whenever the options are resolved."""
        return not (self.starting_latest or self.starting_time or self.starting_streams)


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
    starting_time, ending_time = parser.timestamp("startingTimestamp"), parser.timestamp("endingTimestamp")
    if starting is not None and starting_time is not None:
        raise BadOption("give startingId or startingTimestamp, not both")
    if parser.text("endingId") is not None and ending_time is not None:
        raise BadOption("give endingId or endingTimestamp, not both")
    rows_min, rows_max = (parser.number(f"{name}RowsPerTrigger", 1, limits.INTEGER_MAX) for name in ("min", "max"))
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        raise BadOption(f"minRowsPerTrigger is {rows_min}, more than maxRowsPerTrigger, {rows_max}")
    delay = parser.text("maxTriggerDelay")
    if delay is not None and rows_min is None:
        raise BadOption("maxTriggerDelay limits how long minRowsPerTrigger waits: set minRowsPerTrigger, too")
    delay_s = limits.TRIGGER_DELAY_S if delay is None else parse_seconds(delay)
    if delay_s is None:
        raise BadOption(f"maxTriggerDelay must be a number with a unit, like 30s or 15m, not {delay!r}")
    starting_streams = parse_starting_streams(parser.text("startingOffsetsByStream"))
    for path in starting_streams:
        if partitions or kind == "event" or (streams and not any(matches(pattern, path) for pattern in streams)):
            raise BadOption(f"startingOffsetsByStream has the stream {path!r}, which the other options exclude")
    mode = (parser.text("mode") or MODES[0]).upper()
    if mode not in MODES:
        raise BadOption(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    return ReadOptions(
        server=parser.server(),
        streams=streams,
        partitions=partitions,
        kind=kind,
        starting_id=None if starting in ("latest", "earliest") else parser.number("startingId", 0, limits.INTEGER_MAX),
        starting_latest=starting == "latest",
        starting_time=starting_time,
        starting_streams=starting_streams,
        ending_id=parser.number("endingId", 0, limits.INTEGER_MAX),
        ending_time=ending_time,
        rows_max=rows_max,
        bytes_max=parser.number("maxBytesPerTrigger", 1, limits.INTEGER_MAX),
        rows_min=rows_min,
        delay_s_max=delay_s,
        min_partitions=parser.number("minPartitions", 1, limits.LOG_CUTS_MAX),
        partition_rows_max=parser.number("maxRecordsPerPartition", 1, limits.INTEGER_MAX),
        schema=parser.text("schema"),
        schema_column=parser.text("schemaColumn"),
        infer_rows=parser.number("inferRows", 1, limits.INFER_ROWS_MAX) or limits.INFER_ROWS,
        mode=mode,
        corrupt_column=parser.text("columnNameOfCorruptRecord") or "_corrupt_record",
        columns=parser.names("columns"),
        fail_on_data_loss=parser.flag("failOnDataLoss", True),
        page_bytes=parser.number("pageBytes", 1, limits.LOG_PAGE_BYTES_MAX) or limits.LOG_READ_BYTES,
    )


def parse_starting_streams(text: str | None) -> dict[str, int | str]:
    """Return the starts of streams: offsets, `-1`, `now` or committed ids, by path."""
    if text is None:
        return {}
    try:
        found = msgspec.json.decode(text, type=dict[str, int | str])
    except msgspec.DecodeError:
        raise BadOption(
            'startingOffsetsByStream must be a JSON object of paths with offsets, like {"shop/orders": "now"}'
        ) from None
    if len(found) > limits.STARTING_STREAMS_MAX:
        raise BadOption(
            f"startingOffsetsByStream has {len(found)} streams; at most {limits.STARTING_STREAMS_MAX} may have a start"
        )
    for path, start in found.items():
        try:
            check_path(path)
            if isinstance(start, str):
                parse_offset(start)
            elif not 0 <= start <= limits.INTEGER_MAX:
                raise BadOffset(f"{start} is not a committed id")
        except (BadPath, BadOffset) as error:
            raise BadOption(f"startingOffsetsByStream: {path!r}: {error.detail}") from None
    return found


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
