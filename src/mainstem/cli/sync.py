"""`mainstem sync`: events in partitions, over the sync protocol."""

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
"""The number of a line that is not blank, and the line."""


@click.group()
def sync() -> None:
    """Submit events to partitions, and read them."""


def with_client(function: Any) -> Any:
    for option in (
        click.option("--client-id", help="Who you are.  [default: the token's client, or mainstem-cli]"),
        click.option("-p", "--partition", "partitions", multiple=True, help="A partition; may be repeated."),
    ):
        function = option(function)
    return function


@sync.command()
@click.argument("file", default="-")
@with_client
@click.option("-m", "--message", "messages", multiple=True, help="This event, not standard input; may be repeated.")
@click.option("--id", "event_id", help="The id of a single event: a retry with the same id commits nothing new.")
@click.option("--drafts", is_flag=True, help="Each line is a draft with id, partitions and event.")
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
    """Submit the events in FILE, or standard input: one JSON object a line.

    Each event is committed or rejected by itself, and the command ends with 1 if one was rejected.
    """
    from mainstem.cli.sync_session import Session

    if not partitions and not drafts:
        raise click.UsageError("say where the events belong, with -p, or give whole --drafts")
    if messages and file != "-":
        raise click.UsageError("give a file or --message, not both")
    if event_id is not None and drafts:
        raise click.UsageError("--drafts have ids of their own: leave --id out")
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
        raise Failure(f"{rejected} events were rejected: mend them, and submit them with new ids")


def _number_messages(messages: tuple[str, ...]) -> list[Line]:
    return [(number, text.encode("utf-8", "surrogateescape")) for number, text in enumerate(messages, start=1)]


def _groups(file: str) -> Iterator[list[Line]]:
    """Lines that came together, so that none waits for one that has not come yet."""
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
            raise Failure(f"line {number} is longer than a message can be", ExitCode.USAGE)
    return [(number, line) for number, line in enumerate(lines, start=before + 1) if line.strip()]


def _single(groups: Iterable[list[Line]]) -> list[Line]:
    found = list(islice(chain.from_iterable(groups), 2))
    if len(found) > 1:
        raise Failure("--id is for a single event, and there are more", ExitCode.USAGE)
    return found


def _draft(line: bytes, number: int, partitions: tuple[str, ...], event_id: str | None, drafts: bool) -> dict[str, Any]:
    try:
        if drafts:
            draft: dict[str, Any] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            return {"id": uuid.uuid4().hex, "partitions": partitions, **draft}
        msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(f"event {number} is not a JSON object: {error}", ExitCode.USAGE) from None
    return {"id": event_id or uuid.uuid4().hex, "partitions": partitions, "event": msgspec.Raw(line.strip())}


def _batches(drafts: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """As many drafts as one message may hold."""
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
    "--since", type=click.IntRange(min=0), default=0, show_default=True, help="Only what came behind this id."
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
    """Print the events of partitions up to now, and end."""
    from mainstem.cli.sync_session import Session

    show = _printer(form, as_json)
    with Session(address, client_id) as session:
        for page in session.pages(_require_partitions(partitions), since):
            show(page)


@sync.command()
@with_client
@click.option("--since", type=click.IntRange(min=0), help="Begin behind this committed id.  [default: now]")
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
    """Print the events of partitions as they are committed, until Ctrl-C is pressed."""
    from mainstem.cli.sync_session import Session

    show = _printer(form, as_json)
    with until_interrupted(), Session(address, client_id) as session:
        for page in session.events(_require_partitions(partitions), session.head if since is None else since):
            show(page)


def _require_partitions(partitions: tuple[str, ...]) -> tuple[str, ...]:
    if not partitions:
        raise click.UsageError("name at least one partition, with -p")
    return partitions


def _printer(form: output.Format | None, as_json: bool) -> "Callable[[Page], None]":
    template = form or output.Format("%i %v\\n", LETTERS)

    def show(page: "Page") -> None:
        for snapshot in page.snapshots:
            if as_json:
                output.write_json({"snapshot": snapshot})
            else:
                name = escape_line(snapshot.partition)
                click.echo(f"mainstem: {name}: what came up to {snapshot.committed_id} is in its snapshot", err=True)
        for partition in page.history_truncated:
            click.echo(
                f"mainstem: {escape_line(partition)}: older events were pruned, and there is no snapshot", err=True
            )
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
