"""`mainstem log`: read the log that holds all streams and partitions."""

from base64 import b64decode
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import click
import msgspec

from mainstem import limits
from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.lazy import CommandGroup
from mainstem.cli.live_output import until_interrupted

if TYPE_CHECKING:
    from mainstem.client import Response, Streams

LOG = "/v1/log"
NDJSON = {"accept": "application/x-ndjson"}
LETTERS = {
    "i": "its committed id",
    "k": "its kind",
    "s": "its stream or partitions",
    "o": "its offset",
    "v": "the data",
    "t": "the time",
}
Query = list[tuple[str, str]]


class Row(msgspec.Struct):
    committed_id: int
    kind: str
    committed_at: str
    stream: str | None = None
    offset: str | None = None
    partitions: list[str] | None = None
    data: str | None = None
    data_base64: str | None = None

    @property
    def bytes(self) -> bytes:
        return b64decode(self.data_base64) if self.data_base64 is not None else (self.data or "").encode()


class Control(msgspec.Struct):
    next: int
    position: int = 0


@click.group(cls=CommandGroup)
def log() -> None:
    """Read the log that holds all streams and partitions.

    If the server requires tokens, this needs one with the admin claim.
    """


@log.command()
@options.server
def head(address: Address, as_json: bool) -> None:
    """Show the id of the log, its epoch, its head, its lowest id, and its highest pruned id."""
    with connect(address) as streams:
        output.write_facts(streams.request("GET", f"{LOG}/head").json(), as_json)


@log.command()
@click.option("-n", "--number", metavar="N", type=click.IntRange(0, limits.TAIL_MESSAGES_MAX), default=10,
              show_default=True, help="Start with the last N messages.")  # fmt: skip
@click.option("--after", metavar="ID", type=click.IntRange(min=0), help="Start after this committed id instead.")
@click.option("--kind", type=click.Choice(["stream", "event"]), help="Only messages of streams, or only events.")
@click.option("--stream", "streams_", metavar="GLOB", multiple=True, help="Only these streams; repeatable.")
@click.option("--prefix", help="Only streams whose paths begin with this.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Only events of this partition; repeatable.")
@output.format_option(LETTERS)
@click.option("--no-follow", is_flag=True, help="Stop at the end of the log instead of waiting for more.")
@options.server
def tail(
    number: int,
    after: int | None,
    kind: str | None,
    streams_: tuple[str, ...],
    prefix: str | None,
    partitions: tuple[str, ...],
    form: output.Format | None,
    no_follow: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Print the end of the log, and follow it until you press Ctrl-C.

    Each message is a line with its committed id, its stream or partitions, and its data.
    """
    query: Query = [("stream", path) for path in streams_] + [("partition", name) for name in partitions]
    query += [(name, value) for name, value in (("kind", kind), ("prefix", prefix)) if value is not None]
    form = form or output.Format("%i %s %v\\n", LETTERS)
    with until_interrupted():
        with connect(address) as streams:
            bounds = streams.request("GET", f"{LOG}/head").json()
            if after is None:
                start = find_last(streams, query, number, bounds["head"], bounds["lowest"])
            else:
                start = Start(after, 0)
        reader = Reader(address, query, start)
        for rows in reader.catch_up(bounds["head"]) if no_follow else reader.follow():
            for line in rows.split(b"\n"):
                if line:
                    _print(line, form, as_json)
            output.write(b"", flush=True)


class Start(NamedTuple):
    """Where to start reading: after a committed id, and after this many messages of the next record."""

    after: int
    position: int


def find_last(streams: "Streams", query: Query, number: int, head: int, lowest: int) -> Start:
    """Return where the last `number` messages start.

    A record may hold many messages, and filters may hide most records. So this reads ranges of ids from the head
    backwards, each twice as long as the one before, until it has seen enough messages.
    """
    if not number:
        return Start(head, 0)
    missing, until, length = number, head, number
    lowest = max(lowest, head - limits.CLI_LOG_TAIL_IDS_MAX + 1)
    first = Start(head, 0)
    while missing and until >= lowest:
        after = max(lowest - 1, until - length)
        found = deque(_read_positions(streams, query, after, until), maxlen=missing)
        if found:
            first = Start(found[0].committed_id - 1, found[0].position)
        missing -= len(found)
        until, length = after, length * 2
    return first


class Position(msgspec.Struct):
    committed_id: int
    position: int


def _read_positions(streams: "Streams", query: Query, after: int, until: int) -> Iterator[Position]:
    """Yield the position of every message in a range of ids, without its data."""
    columns = [("columns", "committed_id,position")]
    for page in _read_pages(streams, [*query, *columns], Start(after, 0), until):
        for line in page.body.split(b"\n"):
            if line:
                yield msgspec.json.decode(line, type=Position)


def _read_pages(streams: "Streams", query: Query, start: Start, until: int) -> "Iterator[Response]":
    """Yield the pages of the log from `start` up to and including the id `until`."""
    after, position = start
    while True:
        cursor = [("after", str(after)), ("position", str(position)), ("until", str(until))]
        page = streams.request("GET", f"{LOG}?{urlencode([*query, *cursor])}", headers=NDJSON)
        yield page
        if "log-up-to-date" in page.headers:
            return
        after, position = int(page.headers["log-next"]), int(page.headers.get("log-position", 0))


class Reader:
    """Reads lines from `start`, in pages."""

    def __init__(self, address: Address, query: Query, start: Start) -> None:
        self._address = address
        self._query = query
        self._start = start

    def catch_up(self, head: int) -> Iterator[bytes]:
        """Yield the lines up to `head`."""
        with connect(self._address, patient=True) as streams:
            for page in _read_pages(streams, self._query, self._start, max(head, self._start.after)):
                yield page.body

    def follow(self) -> Iterator[bytes]:
        """Yield lines without end, across reconnects."""
        from mainstem.cli.sse import read_events

        for event in read_events(self._address, LOG, self._live_query):
            if event.name == "data":
                yield event.data
            elif event.name == "control":
                control = msgspec.json.decode(event.data, type=Control)
                self._start = Start(control.next, control.position)

    def _live_query(self) -> Query:
        after, position = self._start
        return [*self._query, ("after", str(after)), ("position", str(position)), ("live", "sse")]


def _print(line: bytes, form: output.Format, as_json: bool) -> None:
    if as_json:
        output.write_json_line(line)
        return
    row = msgspec.json.decode(line, type=Row)
    source = row.stream if row.stream is not None else ",".join(row.partitions or [])
    output.write(
        form.fill(
            {
                "i": str(row.committed_id).encode(),
                "k": row.kind.encode(),
                "s": source.encode(),
                "o": (row.offset or "-").encode(),
                "v": row.bytes.removesuffix(b"\n"),
                "t": row.committed_at.encode(),
            }
        )
    )
