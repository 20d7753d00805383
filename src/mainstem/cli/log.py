"""`mainstem log`: the one log behind all streams and partitions."""

from base64 import b64decode
from collections.abc import Iterator

import click
import msgspec

from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.live_output import until_interrupted

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


@click.group()
def log() -> None:
    """Read the one log behind all streams and partitions. With tokens, this needs one with the admin claim."""


@log.command()
@options.server
def head(address: Address, as_json: bool) -> None:
    """Show where the log ends: its head, its lowest id, and up to where something was pruned."""
    with connect(address) as streams:
        output.write_facts(streams.request("GET", f"{LOG}/head").json(), as_json)


@log.command()
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="Begin so many ids back."
)
@click.option("--after", type=click.IntRange(min=0), help="Begin behind this committed id instead.")
@click.option("--kind", type=click.Choice(["stream", "event"]), help="Only messages of streams, or only events.")
@click.option("--stream", "streams_", metavar="GLOB", multiple=True, help="Only these streams; may be repeated.")
@click.option("--prefix", help="Only streams whose paths begin with this.")
@click.option("-p", "--partition", "partitions", multiple=True, help="Only events of this partition; may be repeated.")
@output.format_option(LETTERS)
@click.option("--no-follow", is_flag=True, help="End at the end of the log, and do not wait for more.")
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
    """Print the end of the log, and go on with what is committed, until Ctrl-C is pressed.

    Each message is a line: its committed id, where it is from, and its data.
    """
    query: Query = [("stream", path) for path in streams_] + [("partition", name) for name in partitions]
    query += [(name, value) for name, value in (("kind", kind), ("prefix", prefix)) if value is not None]
    form = form or output.Format("%i %s %v\\n", LETTERS)
    with connect(address) as streams:
        head: int = streams.request("GET", f"{LOG}/head").json()["head"]
    with until_interrupted():
        reader = Reader(address, query, max(0, head - number) if after is None else after)
        for rows in reader.catch_up() if no_follow else reader.follow():
            for line in rows.split(b"\n"):
                if line:
                    _print(line, form, as_json)
            output.write(b"", flush=True)


class Reader:
    """Pages of lines; `after` is how far it has come, and `position` how far in the record after that."""

    def __init__(self, address: Address, query: Query, after: int) -> None:
        self._address = address
        self._query = query
        self.after = after
        self.position = 0

    def catch_up(self) -> Iterator[bytes]:
        from urllib.parse import urlencode

        with connect(self._address, patient=True) as streams:
            while True:
                query = urlencode([*self._query, *self._cursor()])
                page = streams.request("GET", f"{LOG}?{query}", headers=NDJSON)
                yield page.body
                self.after = int(page.headers["log-next"])
                self.position = int(page.headers.get("log-position", 0))
                if "log-up-to-date" in page.headers:
                    return

    def follow(self) -> Iterator[bytes]:
        from mainstem.cli.sse import read_events

        for event in read_events(self._address, LOG, self._live_query):
            if event.name == "data":
                yield event.data
            elif event.name == "control":
                control = msgspec.json.decode(event.data, type=Control)
                self.after, self.position = control.next, control.position

    def _live_query(self) -> Query:
        return [*self._query, *self._cursor(), ("live", "sse")]

    def _cursor(self) -> Query:
        return [("after", str(self.after)), ("position", str(self.position))]


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
