"""Which rows and columns of the log a reader selects."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from mainstem import limits
from mainstem.errors import BadQuery, ValidationFailed
from mainstem.globs import check_glob, matches
from mainstem.http.asgi import Scope
from mainstem.http.requests import parse_query
from mainstem.log.records import Kind
from mainstem.sync.protocol.partitions import normalise

COLUMNS: Final = (
    "committed_id",
    "position",
    "kind",
    "stream",
    "offset",
    "producer_id",
    "partitions",
    "id",
    "client_id",
    "content_type",
    "data",
    "committed_at",
)
Parse = Callable[[str, str], Any]
"""Parses the value of a parameter, given its name and its text."""
KINDS: Final = {"stream": Kind.APPEND, "event": Kind.EVENT}


class Selection(msgspec.Struct, frozen=True):
    """The rows with `after` < committed_id <= `until` that pass every filter. An empty filter passes everything."""

    after: int = 0
    position: int | None = None
    """How many messages of the record after `after` to skip. None: do not split records."""
    until: int = limits.INTEGER_MAX
    bytes_max: int = limits.LOG_PAGE_BYTES
    kind: str | None = None
    streams: tuple[str, ...] = ()
    """Globs; a path without a star is one, too."""
    prefix: str = ""
    partitions: tuple[str, ...] = ()
    since_us: int | None = None
    before_us: int | None = None
    columns: tuple[str, ...] = COLUMNS

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of records that can match: filters by stream exclude events, and filters by partition streams."""
        wanted = set(KINDS.values()) if self.kind is None else {KINDS[self.kind]}
        if self.names_streams:
            wanted.discard(Kind.EVENT)
        if self.partitions:
            wanted.discard(Kind.APPEND)
        return tuple(sorted(wanted))

    @property
    def names_streams(self) -> bool:
        return bool(self.streams or self.prefix)

    @property
    def is_whole(self) -> bool:
        """Whether no filter excludes a stream or partition."""
        return self.kind is None and not self.names_streams and not self.partitions

    def takes_stream(self, path: str) -> bool:
        if not path.startswith(self.prefix):
            return False
        return not self.streams or any(matches(pattern, path) for pattern in self.streams)

    def takes_time(self, committed_at_us: int) -> bool:
        return (self.since_us is None or committed_at_us >= self.since_us) and (
            self.before_us is None or committed_at_us < self.before_us
        )


def parse_selection(scope: Scope) -> Selection:
    """Parse the query of `/v1/log`. Raises `BadQuery` for an unknown parameter: a typo must not drop a filter."""
    return select(*collect_parameters(parse_query(scope), PARAMETERS))


def collect_parameters(
    query: Iterable[tuple[str, str]], parameters: Mapping[str, Parse]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the parameters of a query, parsed, and those that may be repeated: `stream` and `partition`."""
    values: dict[str, Any] = {}
    lists: dict[str, list[str]] = {"stream": [], "partition": []}
    for name, text in query:
        if name in lists:
            lists[name].append(text)
        elif name not in parameters:
            raise _unknown_parameter(name, [*parameters, *lists])
        elif name in values:
            raise BadQuery(f"{name} appears more than once")
        else:
            values[name] = parameters[name](name, text)
    return values, lists


def select(values: Mapping[str, Any], lists: Mapping[str, list[str]]) -> Selection:
    for pattern in lists["stream"]:
        check_glob(pattern)
    selection = Selection(
        after=values.get("after", 0),
        position=values.get("position"),
        until=values.get("until", limits.INTEGER_MAX),
        bytes_max=min(values.get("max_bytes", limits.LOG_PAGE_BYTES), limits.LOG_PAGE_BYTES_MAX),
        kind=values.get("kind"),
        streams=tuple(lists["stream"]),
        prefix=values.get("prefix", ""),
        partitions=check_partitions(lists["partition"]),
        since_us=values.get("since"),
        before_us=values.get("before"),
        columns=values.get("columns", COLUMNS),
    )
    if selection.names_streams and selection.partitions:
        raise BadQuery("a row belongs to a stream or to partitions: filter by one of them")
    if not selection.kinds:
        raise BadQuery(f"kind={selection.kind} excludes everything that the other filters select")
    return selection


def check_partitions(names: list[str]) -> tuple[str, ...]:
    if not names:
        return ()
    try:
        return normalise(names)
    except ValidationFailed as fault:
        raise BadQuery(f"partition: {fault.detail}") from None


def check_parameters(query: Iterable[str], *known: str) -> None:
    for name in query:
        if name not in known:
            raise _unknown_parameter(name, known)


def _unknown_parameter(name: str, known: Iterable[str]) -> BadQuery:
    return BadQuery(f"there is no query parameter {name[:64]!r} here; there are: {', '.join(sorted(known))}")


def parse_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= limits.INTEGER_MAX):
        raise BadQuery(f"{name} must be a whole number from 0 to 2^53-1")
    return int(text)


def parse_kind(name: str, text: str) -> str:
    if text not in KINDS:
        raise BadQuery("kind must be stream or event")
    return text


def _columns(name: str, text: str) -> tuple[str, ...]:
    wanted = text.split(",")
    if not set(wanted) <= set(COLUMNS) or len(set(wanted)) != len(wanted):
        raise BadQuery(f"columns must be a comma-separated list of: {', '.join(COLUMNS)}")
    return tuple(column for column in COLUMNS if column in wanted)


def _live(name: str, text: str) -> str:
    if text != "sse":
        raise BadQuery("live must be sse")
    return text


def parse_text(name: str, text: str) -> str:
    return text


PARAMETERS: Final[dict[str, Parse]] = {
    "after": parse_number,
    "position": parse_number,
    "until": parse_number,
    "max_bytes": parse_number,
    "kind": parse_kind,
    "prefix": parse_text,
    "since": parse_number,
    "before": parse_number,
    "columns": _columns,
    "live": _live,
}
