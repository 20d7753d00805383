"""`mainstem sync`: submit and read events over the sync protocol, and list partitions."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click
import msgspec

from mainstem import limits
from mainstem.cli import options, output
from mainstem.cli.addresses import Address
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.lazy import CommandGroup
from mainstem.cli.live_output import until_interrupted
from mainstem.escaping import escape_line

if TYPE_CHECKING:
    from mainstem.client.sync_protocol.messages import CommittedEvent, Page, SubmitResult

LETTERS = {
    "i": "the committed id",
    "v": "the event",
    "p": "its partitions",
    "c": "its client",
    "k": "its id",
    "t": "the time",
}
Line = tuple[int, bytes]
"""The number of a line that is not blank, and its bytes."""


@click.group(cls=CommandGroup)
def sync() -> None:
    """Submit events to partitions, and read them."""


def with_client(function: Any) -> Any:
    for option in (
        click.option("--client-id", help="Your client id.  [default: that of the token, or mainstem-cli]"),
        click.option("-p", "--partition", "partitions", multiple=True, help="Name of a partition; repeatable."),
    ):
        function = option(function)
    return function


@sync.command()
@click.argument("file", default="-")
@with_client
@click.option(
    "-m", "--message", "messages", multiple=True, help="Submit this event instead of standard input; repeatable."
)
@click.option("--id", "event_id", help="Id of a single event; a retry with the same id commits nothing new.")
@click.option("--drafts", is_flag=True, help="Read each line as a draft with id, partitions and event.")
@options.server
def submit(
    file: str,
    partitions: tuple[str, ...],
    client_id: str | None,
    messages: tuple[str, ...],
    event_id: str | None,
    drafts: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Submit the events in FILE or standard input, one JSON object per line.

    The server commits or rejects each event on its own. The exit code is 1 if it rejected one.
    """
    from mainstem.cli.sync_session import Session

    if not partitions and not drafts:
        raise click.UsageError("name the partitions of the events with -p, or submit --drafts")
    if messages and file != "-":
        raise click.UsageError("give a file or --message, not both")
    if event_id is not None and drafts:
        raise click.UsageError("--drafts have ids of their own: omit --id")
    groups: Iterable[list[Line]] = _groups(file) if not messages else [_number_messages(messages)]
    if event_id is not None:
        groups = [_single(groups)]
    rejected = 0
    with Session(address, client_id) as session:
        for group in groups:
            for batch in _batches(_draft(line, number, partitions, event_id, drafts) for number, line in group):
                for result in session.submit(batch):
                    rejected += result.status != "committed"
                    _print_result(result, as_json)
                output.write(b"", flush=True)
    if rejected:
        raise Failure(f"the server rejected {rejected} of the events: correct and submit them again")


def _number_messages(messages: tuple[str, ...]) -> list[Line]:
    return [(number, text.encode("utf-8", "surrogateescape")) for number, text in enumerate(messages, start=1)]


def _groups(file: str) -> Iterator[list[Line]]:
    """Yield the lines that arrived together, so that no line waits for the next one."""
    from mainstem.cli.stream_writes import open_input

    number, rest = 0, b""
    with open_input(file) as source:
        while data := source.read1(limits.CLI_APPEND_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            yield _number([*lines], number)
            number += len(lines)
            _number([rest], number)
    yield _number([rest], number)


def _number(lines: list[bytes], before: int) -> list[Line]:
    for number, line in enumerate(lines, start=before + 1):
        if len(line) > limits.SYNC_MESSAGE_BYTES_MAX:
            raise Failure(
                f"line {number} is longer than a message can be ({limits.SYNC_MESSAGE_BYTES_MAX // limits.MIB} MiB)",
                ExitCode.USAGE,
            )
    return [(number, line) for number, line in enumerate(lines, start=before + 1) if line.strip()]


def _single(groups: Iterable[list[Line]]) -> list[Line]:
    found = list(islice(chain.from_iterable(groups), 2))
    if len(found) > 1:
        raise Failure("--id is for a single event, and the input has more", ExitCode.USAGE)
    return found


def _draft(line: bytes, number: int, partitions: tuple[str, ...], event_id: str | None, drafts: bool) -> dict[str, Any]:
    try:
        if drafts:
            draft: dict[str, Any] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            return {"id": uuid.uuid4().hex, "partitions": partitions, **draft}
        msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        from mainstem.cli.stream_writes import locate_json_error

        raise Failure(f"event {number} is not a JSON object{locate_json_error(error)}", ExitCode.USAGE) from None
    return {"id": event_id or uuid.uuid4().hex, "partitions": partitions, "event": msgspec.Raw(line.strip())}


def _batches(drafts: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Divide drafts into batches that fit into one message."""
    batch: list[dict[str, Any]] = []
    size = 0
    for draft in drafts:
        this = len(msgspec.json.encode(draft)) + 1
        if batch and (len(batch) == limits.SYNC_BATCH_ITEMS_MAX or size + this > limits.CLI_SUBMIT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += this
    if batch:
        yield batch


def _print_result(result: "SubmitResult", as_json: bool) -> None:
    if as_json:
        output.write_json(result)
    elif result.committed_id is not None:
        output.write_line(f"{result.committed_id} {result.id}")
    else:
        errors = "; ".join(f"{error.field}: {error.message}" for error in result.errors)
        output.write_line(f"rejected {result.id} {result.reason}" + (f" ({errors})" if errors else ""))


@sync.command()
@with_client
@click.option(
    "--since",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Print only events after this committed id.",
)
@output.format_option(LETTERS)
@options.server
def pull(
    partitions: tuple[str, ...],
    client_id: str | None,
    since: int,
    form: output.Format | None,
    address: Address,
    as_json: bool,
) -> None:
    """Print the events of partitions up to now."""
    from mainstem.cli.sync_session import Session

    show = _printer(form, as_json)
    with Session(address, client_id) as session:
        for page in session.pages(_require_partitions(partitions), since):
            show(page)


@sync.command()
@with_client
@click.option("--since", type=click.IntRange(min=0), help="Start after this committed id.  [default: now]")
@output.format_option(LETTERS)
@options.server
def tail(
    partitions: tuple[str, ...],
    client_id: str | None,
    since: int | None,
    form: output.Format | None,
    address: Address,
    as_json: bool,
) -> None:
    """Print the events of partitions as they are committed, until you press Ctrl-C."""
    from mainstem.cli.sync_session import Session

    show = _printer(form, as_json)
    with until_interrupted(), Session(address, client_id) as session:
        for page in session.events(_require_partitions(partitions), session.head if since is None else since):
            show(page)


@sync.command("ls")
@click.argument("prefix", default="")
@click.option("-l", "--long", is_flag=True, help="Show the end, the floor and the snapshot too.")
@click.option("-n", "--limit", metavar="N", type=click.IntRange(min=1), help="List at most this many.")
@options.server
def list_(prefix: str, long: bool, limit: int | None, address: Address, as_json: bool) -> None:
    """List the partitions whose names begin with PREFIX.

    If the server requires tokens, it lists those that the token allows.
    """
    empty = True
    for page in _list_pages(address, prefix, limit):
        empty = False
        if as_json:
            for found in page:
                output.write_json(found)
        elif long:
            output.write_table(HEADINGS, [_row(found) for found in page], right=HEADINGS[1:])
        else:
            for found in page:
                output.write_line(found["partition"])
    if empty and not as_json:
        which = f"no partitions begin with {prefix!r}" if prefix else "no partitions"
        output.note_empty(f"{which}: submit an event with `mainstem sync submit -p NAME`")


HEADINGS = ("PARTITION", "END", "FLOOR", "SNAPSHOT")


def _list_pages(address: Address, prefix: str, limit: int | None) -> Iterator[list[dict[str, Any]]]:
    """Yield the pages of the list that are not empty, up to `limit` partitions in all."""
    from mainstem.cli.clients import connect

    left, after = limit, ""
    with connect(address) as streams:
        while left is None or left:
            size = limits.LISTED_STREAMS_MAX if left is None else min(left, limits.LISTED_STREAMS_MAX)
            query = {"prefix": prefix, "after": after, "limit": str(size)}
            page = streams.request("GET", "/v1/partitions", params=query).json()
            if page["partitions"]:
                yield page["partitions"]
            if page["next"] is None:
                return
            after = page["next"]
            left = None if left is None else left - len(page["partitions"])


def _row(found: dict[str, Any]) -> list[str]:
    facts = (found["last_committed_id"], found["floor"] or None, found["snapshot_committed_id"])
    return [found["partition"], *map(output.show, facts)]


def _require_partitions(partitions: tuple[str, ...]) -> tuple[str, ...]:
    if not partitions:
        raise click.UsageError("name at least one partition with -p")
    return partitions


def _printer(form: output.Format | None, as_json: bool) -> "Callable[[Page], None]":
    template = form or output.Format("%i %v\\n", LETTERS)

    def show(page: "Page") -> None:
        for snapshot in page.snapshots:
            if as_json:
                output.write_json({"snapshot": snapshot})
            else:
                name = escape_line(snapshot.partition)
                click.echo(f"mainstem: {name}: the events up to {snapshot.committed_id} are in its snapshot", err=True)
        for partition in page.history_truncated:
            click.echo(f"mainstem: {escape_line(partition)}: older events were pruned without a snapshot", err=True)
        for event in page.events:
            output.write(template.fill(_parts(event))) if not as_json else output.write_json(event)
        output.write(b"", flush=True)

    return show


def _parts(event: "CommittedEvent") -> dict[str, bytes]:
    return {
        "i": str(event.committed_id).encode(),
        "v": bytes(event.event),
        "p": ",".join(event.partitions).encode(),
        "c": event.client_id.encode(),
        "k": event.id.encode(),
        "t": event.status_updated_at.encode(),
    }
