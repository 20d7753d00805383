"""`mainstem stream`: streams as a whole. Their data is in stream_reads.py and stream_writes.py."""

from typing import TYPE_CHECKING, Any

import click

from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.lazy import Lazy, LazyGroup
from mainstem.cli.token import DURATION, UNIT_S

if TYPE_CHECKING:
    from mainstem.client import StreamInfo

HERE, READS, WRITES = "mainstem.cli.stream", "mainstem.cli.stream_reads", "mainstem.cli.stream_writes"
VERBS = {
    "create": Lazy(HERE, "create", "Create a stream."),
    "append": Lazy(WRITES, "append", "Append standard input, or files."),
    "read": Lazy(READS, "read", "Print what a stream holds, and end."),
    "tail": Lazy(READS, "tail", "Print the end of a stream, and what comes after it."),
    "ls": Lazy(HERE, "list_", "List streams."),
    "head": Lazy(HERE, "head", "Describe a stream: its type, its end, its lifetime."),
    "close": Lazy(HERE, "close", "Close a stream, so that it takes no more data."),
    "fork": Lazy(HERE, "fork", "Create a stream that shares the beginning of another one."),
    "rm": Lazy(HERE, "rm", "Delete streams, with all that they hold."),
    "watch": Lazy(READS, "watch", "Print what comes into many streams, over one connection."),
}


class StreamPath(click.ParamType[str]):
    """A path that can be a stream's. It is checked here: a URL library would quietly make another one of a/../b."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from mainstem.errors import BadPath
        from mainstem.streams.rules.paths import check_path

        try:
            check_path(value)
        except (BadPath, UnicodeEncodeError) as error:
            raise click.BadParameter(f"{value!r} is no path of a stream: {error}. {BadPath.hint}") from None
        return str(value)


STREAM_PATH = StreamPath()


@click.group(cls=LazyGroup, lazy=VERBS)
def stream() -> None:
    """Create, append, read, tail, list, fork and delete streams.

    A PATH is what follows /v1/stream/ in a stream's URL, as chat/1.
    """


def parse_seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None or (text.isascii() and text.isdigit()):
        return None if text is None else int(text)
    match = DURATION.fullmatch(text)
    if match is None:
        raise click.BadParameter("use seconds, or a whole number and a unit, as 90s, 15m, 1h or 30d")
    return int(match[1]) * UNIT_S[match[2]]


lifetime = [
    click.option("--ttl", metavar="TIME", callback=parse_seconds, help="Delete it so long after its last use, as 1h."),
    click.option("--expires-at", metavar="TIME", help="Delete it then, as 2030-01-01T00:00:00Z."),
    click.option("--closed", is_flag=True, help="Make it closed from the start."),
]


def with_lifetime(function: Any) -> Any:
    for option in reversed(lifetime):
        function = option(function)
    return function


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.option("--type", "content_type", default="application/octet-stream", show_default=True, help="Its content type.")
@click.option("--retention", metavar="POLICY", help="Keep only the newest part, as max-age=3600,max-messages=1000.")
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
    """Create the stream PATH. One that is there just so is left as it is.

    --type application/json makes a stream of messages; json and text are short for application/json and text/plain.
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
@click.option("--offset", help="Where to branch off.  [default: the source's end]")
@click.option("--sub-offset", type=click.IntRange(min=0), help="Messages (of JSON) or bytes to take along.")
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
    """Create the stream PATH that shares the beginning of SOURCE, without a copy."""
    with connect(address) as streams:
        made = streams.fork(
            path, source, offset=offset, sub_offset=sub_offset, ttl_s=ttl, expires_at=expires_at, closed=closed
        )
    _tell_made(made, as_json)


def _tell_made(made: "StreamInfo", as_json: bool) -> None:
    facts = {**describe(made), "created": bool(made.created)}
    output.write_result(facts, f"{made.path} {'is created' if made.created else 'is there already'}", as_json)


@click.command("ls")
@click.argument("prefix", default="")
@click.option("-l", "--long", is_flag=True, help="Show more than the paths.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="At most so many.")
@options.server
def list_(prefix: str, long: bool, limit: int | None, address: Address, as_json: bool) -> None:
    """List the streams whose paths begin with PREFIX."""
    with connect(address) as streams:
        for number, found in enumerate(streams.list(prefix)):
            if number == limit:
                return
            if as_json:
                output.write_json(describe(found))
            elif long:
                state = "closed" if found.closed else "open"
                output.write_line(f"{found.next_offset}  {state:6}  {found.content_type:24}  {found.path}")
            else:
                output.write_line(found.path)


@click.command()
@click.argument("path", type=STREAM_PATH)
@options.server
def head(path: str, address: Address, as_json: bool) -> None:
    """Describe the stream PATH: its type, its end, its lifetime."""
    with connect(address) as streams:
        output.write_facts(describe(streams.head(path)), as_json)


@click.command()
@click.argument("path", type=STREAM_PATH)
@options.server
def close(path: str, address: Address, as_json: bool) -> None:
    """Close the stream PATH: it takes no more data, and readers learn that they have all of it."""
    with connect(address) as streams:
        done = streams.close(path)
    output.write_result({"path": path, "next_offset": done.next_offset, "closed": True}, f"{path} is closed", as_json)


@click.command()
@click.argument("paths", type=STREAM_PATH, nargs=-1, required=True, metavar="PATH...")
@options.server
def rm(paths: tuple[str, ...], address: Address, as_json: bool) -> None:
    """Delete streams, with all that they hold."""
    with connect(address) as streams:
        for path in paths:
            streams.delete(path)
            output.write_result({"path": path, "deleted": True}, f"{path} is deleted", as_json)


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
    }
