"""`mainstem stream`: commands about whole streams. Their data is in stream_reads.py and stream_writes.py."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from mainstem import limits
from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.lazy import Lazy, LazyGroup
from mainstem.cli.token import DURATION, UNIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mainstem.client import StreamInfo, Streams

HERE, READS, WRITES = "mainstem.cli.stream", "mainstem.cli.stream_reads", "mainstem.cli.stream_writes"
VERBS = {
    "create": Lazy(HERE, "create", "Create a stream."),
    "append": Lazy(WRITES, "append", "Append standard input or files to a stream."),
    "read": Lazy(READS, "read", "Print the contents of a stream."),
    "tail": Lazy(READS, "tail", "Print the end of a stream, and follow it."),
    "ls": Lazy(HERE, "list_", "List streams."),
    "head": Lazy(HERE, "head", "Describe a stream: its type, size, end and lifetime."),
    "close": Lazy(HERE, "close", "Close a stream, so that it accepts no more data."),
    "fork": Lazy(HERE, "fork", "Create a stream that shares the beginning of another one."),
    "rm": Lazy(HERE, "rm", "Delete streams and their data."),
    "watch": Lazy(READS, "watch", "Follow many streams over one connection."),
}


class StreamPath(click.ParamType[str]):
    """A valid path of a stream. It is checked here, because a URL library would silently rewrite a/../b."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from mainstem.errors import BadPath
        from mainstem.streams.rules.paths import check_path

        try:
            check_path(value)
        except (BadPath, UnicodeEncodeError) as error:
            raise click.BadParameter(f"{value!r} is not a valid path of a stream: {error}. {BadPath.hint}") from None
        return str(value)


STREAM_PATH = StreamPath()


@click.group(cls=LazyGroup, lazy=VERBS)
def stream() -> None:
    """Create, append to, read, tail, list, fork and delete streams.

    A PATH is the part of a stream's URL after /v1/stream/, such as chat/1.
    """


def parse_seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None or (text.isascii() and text.isdigit()):
        return None if text is None else int(text)
    match = DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter("give seconds, or a whole number and a unit, such as 90s, 15m, 1h or 30d")
    return int(match[1]) * UNIT_S[match[2]]


lifetime = [
    click.option(
        "--ttl", metavar="TIME", callback=parse_seconds, help="Delete it this long after its last use, such as 1h."
    ),
    click.option("--expires-at", metavar="TIME", help="Delete it at this time, such as 2030-01-01T00:00:00Z."),
    click.option("--closed", is_flag=True, help="Create it closed."),
]


def with_lifetime(function: Any) -> Any:
    for option in reversed(lifetime):
        function = option(function)
    return function


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.option("--type", "content_type", default="application/octet-stream", show_default=True, help="Content type.")
@click.option(
    "--retention", metavar="POLICY", help="Keep only the newest data, such as max-age=3600,max-messages=1000."
)
@with_lifetime
@options.server
def create(
    path: str,
    content_type: str,
    retention: str | None,
    ttl: int | None,
    expires_at: str | None,
    closed: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Create the stream PATH, unless it exists with the same configuration.

    --type application/json creates a stream of JSON messages. json, text and binary are short for application/json,
    text/plain and application/octet-stream.
    """
    with connect(address) as streams:
        made = streams.create(
            path, expand_type(content_type), ttl_s=ttl, expires_at=expires_at, closed=closed, retention=retention
        )
    _tell_made(made, as_json)


SHORT_TYPES = {"json": "application/json", "text": "text/plain", "binary": "application/octet-stream"}


def expand_type(content_type: str) -> str:
    return SHORT_TYPES.get(content_type, content_type)


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.argument("source", type=STREAM_PATH)
@click.option("--offset", help="Offset of SOURCE to fork at.  [default: its end]")
@click.option(
    "--sub-offset", type=click.IntRange(min=0), help="Share this many JSON messages, or bytes, after --offset too."
)
@with_lifetime
@options.server
def fork(
    path: str,
    source: str,
    offset: str | None,
    sub_offset: int | None,
    ttl: int | None,
    expires_at: str | None,
    closed: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Create the stream PATH, which shares the beginning of SOURCE without a copy."""
    with connect(address) as streams:
        made = streams.fork(
            path, source, offset=offset, sub_offset=sub_offset, ttl_s=ttl, expires_at=expires_at, closed=closed
        )
    _tell_made(made, as_json)


def _tell_made(made: "StreamInfo", as_json: bool) -> None:
    facts = {**describe(made), "created": bool(made.created)}
    output.write_result(facts, f"created {made.path}" if made.created else f"{made.path} already exists", as_json)


@click.command("ls")
@click.argument("prefix", default="")
@click.option("-l", "--long", is_flag=True, help="Show messages, size, age, TTL, state and type too.")
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=1), help="List at most this many.")
@options.server
def list_(prefix: str, long: bool, limit: int | None, address: Address, as_json: bool) -> None:
    """List the streams whose paths begin with PREFIX."""
    empty = True
    with connect(address) as streams:
        for page in _pages(islice(streams.list(prefix), limit)):
            empty = False
            if as_json:
                for found in page:
                    output.write_json(describe(found))
            elif long:
                output.write_table(HEADINGS, [_row(found) for found in page], right=NUMBERS)
            else:
                for found in page:
                    output.write_line(found.path)
    if empty and not as_json:
        which = f"no streams begin with {prefix!r}" if prefix else "no streams"
        output.note_empty(f"{which}: create one with `mainstem stream create PATH`")


def _pages(streams: "Iterator[StreamInfo]") -> "Iterator[list[StreamInfo]]":
    """Divide the list, so that it is printed while it is read. Columns are aligned within each page."""
    while page := list(islice(streams, limits.LISTED_STREAMS_MAX)):
        yield page


HEADINGS = ("PATH", "MESSAGES", "SIZE", "AGE", "TTL", "STATE", "TYPE")
NUMBERS = ("MESSAGES", "SIZE", "AGE")


def _row(info: "StreamInfo") -> list[str]:
    return [
        info.path,
        "-" if info.messages is None else output.format_number(info.messages),
        "-" if info.size_bytes is None else output.format_bytes(info.size_bytes),
        "-" if info.created_at is None else output.format_duration(_age_s(info.created_at)),
        _show_lifetime(info),
        "closed" if info.closed else "open",
        info.content_type,
    ]


def _show_lifetime(info: "StreamInfo") -> str:
    if info.ttl_s is not None:
        return output.format_duration(info.ttl_s)
    return "-" if info.expires_at is None else f"until {info.expires_at}"


def _age_s(created_at: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()


@click.command()
@click.argument("path", type=STREAM_PATH)
@options.server
def head(path: str, address: Address, as_json: bool) -> None:
    """Describe the stream PATH: its type, size, end and lifetime."""
    with connect(address) as streams:
        facts = describe(_add_listed(streams, streams.head(path)))
    if not as_json and facts["ttl_seconds"] is not None:
        facts["ttl_seconds"] = f"{facts['ttl_seconds']} ({output.format_duration(facts['ttl_seconds'])})"
    output.write_facts(facts, as_json)


def _add_listed(streams: "Streams", info: "StreamInfo") -> "StreamInfo":
    """Add the facts that only the list of streams has. Other kinds of servers have no such list."""
    from mainstem.client import ClientError
    from mainstem.client.core.protocol import LIST, read_listing

    try:  # the path itself comes first among those that begin with it
        (listed, *_), _ = read_listing(streams.request("GET", LIST, params={"prefix": info.path, "limit": "1"}))
    except (ClientError, ValueError):
        return info
    if listed.path != info.path:
        return info
    return replace(
        info,
        created_at=listed.created_at,
        forked_from=listed.forked_from,
        messages=listed.messages,
        size_bytes=listed.size_bytes,
    )


@click.command()
@click.argument("path", type=STREAM_PATH)
@options.server
def close(path: str, address: Address, as_json: bool) -> None:
    """Close the stream PATH: it accepts no more data, and its readers stop at its end."""
    with connect(address) as streams:
        done = streams.close(path)
    output.write_result({"path": path, "next_offset": done.next_offset, "closed": True}, f"closed {path}", as_json)


@click.command()
@click.argument("paths", type=STREAM_PATH, nargs=-1, required=True, metavar="PATH...")
@options.server
def rm(paths: tuple[str, ...], address: Address, as_json: bool) -> None:
    """Delete streams and their data."""
    with connect(address) as streams:
        for path in paths:
            streams.delete(path)
            output.write_result({"path": path, "deleted": True}, f"deleted {path}", as_json)


def describe(info: "StreamInfo") -> dict[str, Any]:
    return {
        "path": info.path,
        "content_type": info.content_type,
        "next_offset": info.next_offset,
        "earliest_offset": info.earliest_offset,
        "closed": info.closed,
        "ttl_seconds": info.ttl_s,
        "expires_at": info.expires_at,
        "retention": info.retention,
        "created_at": info.created_at,
        "forked_from": info.forked_from,
        "messages": info.messages,
        "bytes": info.size_bytes,
    }
