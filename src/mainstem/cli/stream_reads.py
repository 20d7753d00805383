"""`mainstem stream read`, `tail` and `watch`: print streams to standard output."""

import sys
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import islice
from urllib.parse import quote

import click

from mainstem import limits
from mainstem.cli import options, output, progress
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.failures import ExitCode, Failure
from mainstem.cli.live_output import until_interrupted
from mainstem.cli.messages import Message, Splitter, position, split_lines, step_back
from mainstem.cli.stream import STREAM_PATH
from mainstem.cli.terminal import IncrementalEscaper, show
from mainstem.cli.times import TIME
from mainstem.client import Batch, Streams
from mainstem.streams.rules.content_types import is_json
from mainstem.timestamps import format_time_exactly

LETTERS = {"o": "the offset after it", "v": "the message", "p": "the path", "n": "its number"}


format_option = output.format_option(LETTERS)


class Printer:
    """Prints the batches of one stream: unchanged, or message by message for a format or JSON."""

    def __init__(self, path: str, form: output.Format | None, as_json: bool, *, live: bool = False) -> None:
        self._path = path
        self._form = form
        self._as_json = as_json
        self._live = live
        self._splitter = Splitter()
        self._escaper = IncrementalEscaper()
        self._number = 0

    def print(self, batch: Batch, number_max: int | None = None) -> bool:
        """Print a batch. Return False once `number_max` messages are printed."""
        if number_max is None and not self._as_json and self._form is None and not is_json(batch.content_type):
            output.write(self._escaper.show(batch.data), flush=self._live)
            return True
        for message in self._splitter.feed(batch):
            self._print_message(message, is_json(batch.content_type))
            if self._number == number_max:
                return False
        self._flush()
        return True

    def end(self) -> None:
        for message in self._splitter.end():
            self._print_message(message, False, ended=False)
        output.write(self._escaper.show(b"", last=True))
        self._flush()

    def _flush(self) -> None:
        if self._live:
            sys.stdout.flush()

    def _print_message(self, message: Message, in_json: bool, *, ended: bool = True) -> None:
        self._number += 1
        if self._as_json:
            facts = {"path": self._path, "offset": message.offset, **output.as_value(message.value, in_json)}
            output.write_json(facts)
        elif self._form is not None:
            parts = {
                "o": message.offset.encode(),
                "v": message.value,
                "p": self._path.encode("utf-8", "surrogateescape"),
                "n": str(self._number).encode(),
            }
            output.write(self._form.fill(parts))
        else:
            output.write(show(message.value + b"\n" if ended else message.value))


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.option("--offset", help="Start at this offset; -1 is the beginning.  [default: -1]")
@click.option("--since", type=TIME, help="Start with what was committed at this time or later.")
@click.option(
    "-n", "--number", metavar="N", type=click.IntRange(min=1), help="Print only the first N JSON messages or lines."
)
@format_option
@options.server
def read(
    path: str,
    offset: str | None,
    since: int | None,
    number: int | None,
    form: output.Format | None,
    address: Address,
    as_json: bool,
) -> None:
    """Print the contents of the stream PATH.

    Each message of a JSON stream is printed on its own line. Other streams are printed unchanged, or line by line with
    a format.
    """
    if offset is not None and since is not None:
        raise click.UsageError("give --offset or --since, not both")
    with connect(address) as streams:
        end = position(streams.head(path).next_offset)
        offset = (offset or "-1") if since is None else find_time(streams, path, since)
    printer = Printer(path, form, as_json)
    with ExitStack() as stack:
        shown = progress.is_visible() and not sys.stdout.isatty()
        advance = stack.enter_context(progress.bar(f"Reading {path}", shown=shown))
        streams = stack.enter_context(connect(address, patient=True))
        start = position(offset) or 0
        for batch in streams.read(path, offset):
            if not printer.print(batch, number):
                return
            at = position(batch.offset)
            advance((at or 0) - start, None if end is None or at is None else max(end, at) - start)
        printer.end()


def find_time(streams: Streams, path: str, since_us: int) -> str:
    """Return the offset of the first append that was committed at a time or later."""
    target, query = f"/v1/stream-offset/{quote(path)}", {"time": format_time_exactly(since_us)}
    return str(streams.request("GET", target, params=query).json()["offset"])


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.option("-n", "--number", metavar="N", type=click.IntRange(0, limits.TAIL_MESSAGES_MAX), default=10,
              show_default=True, help="Start with the last N JSON messages or lines.")  # fmt: skip
@format_option
@click.option("--no-follow", is_flag=True, help="Stop at the end of the stream instead of waiting for more.")
@options.server
def tail(path: str, number: int, form: output.Format | None, no_follow: bool, address: Address, as_json: bool) -> None:
    """Print the end of the stream PATH, and follow it until it is closed or you press Ctrl-C.

    The command waits for a server that restarts. It prints every message exactly once.
    """
    printer = Printer(path, form, as_json, live=True)
    with until_interrupted():
        with connect(address) as streams:
            first, offset = find_end(streams, path, number)
        if first is not None:
            printer.print(first)
            if first.closed:
                return printer.end()
        with connect(address, patient=True) as streams:
            for batch in streams.read(path, offset) if no_follow else streams.follow(path, offset):
                printer.print(batch)
        printer.end()


def find_end(streams: Streams, path: str, number: int) -> tuple[Batch | None, str]:
    """Return the last messages of a JSON stream and the offset after them, or the offset of the last lines."""
    if not number:
        return None, streams.head(path).next_offset
    batch = streams.read_tail(path, number)
    if is_json(batch.content_type):
        return batch, batch.offset
    return None, find_lines(streams, path, number)


def find_lines(streams: Streams, path: str, number: int) -> str:
    """Return the offset at which the last lines begin.

    An append may hold many lines or a part of one, so this reads more and more appends until they hold enough lines.
    The first line that it reads may be incomplete, so it looks for one more, unless it has read the whole stream.
    """
    appends, seen = min(number + 1, limits.TAIL_MESSAGES_MAX), -1
    while True:
        first = streams.read_tail(path, appends)
        starts: deque[str] = deque(maxlen=number + 1)
        size, begun = 0, False
        for batch in rest_of(streams, path, first):
            left = len(batch.data)
            size += left
            for line in split_lines(batch.data):
                if not begun:
                    starts.append(step_back(batch.offset, left))
                left -= len(line)
                begun = not line.endswith(b"\n")
        if len(starts) > number or size == seen or appends == limits.TAIL_MESSAGES_MAX:
            return starts[-min(number, len(starts))] if starts else first.offset
        seen, appends = size, min(appends * 10, limits.TAIL_MESSAGES_MAX)


def rest_of(streams: Streams, path: str, first: Batch) -> Iterable[Batch]:
    yield first
    if not first.up_to_date:
        yield from streams.read(path, first.offset)


@click.command()
@click.argument("paths", type=STREAM_PATH, nargs=-1, metavar="PATH...")
@click.option("--prefix", help="Follow all existing streams whose paths begin with this.")
@click.option("--offset", default="now", show_default=True, help="Start here: now, or -1 for the beginning.")
@format_option
@options.server
def watch(
    paths: tuple[str, ...],
    prefix: str | None,
    offset: str,
    form: output.Format | None,
    address: Address,
    as_json: bool,
) -> None:
    """Follow many streams over one connection, until all are closed or you press Ctrl-C.

    Each line begins with the path of its stream, unless you give a format.
    """
    from mainstem.cli.stream_set import StreamSetReader

    if prefix is not None:
        with connect(address) as streams:
            paths = (*paths, *(info.path for info in islice(streams.list(prefix), limits.SET_STREAMS_MAX + 1)))
    if not paths:
        raise Failure("there is nothing to watch: name existing streams, or give another --prefix", ExitCode.USAGE)
    if len(set(paths)) > limits.SET_STREAMS_MAX:
        raise Failure(
            f"one command can watch up to {limits.SET_STREAMS_MAX} streams, not {len(set(paths))}: narrow --prefix",
            ExitCode.USAGE,
        )
    form = form or output.Format("%p %v\\n", LETTERS)
    with until_interrupted():
        reader = StreamSetReader(address, list(dict.fromkeys(paths)), offset)
        reader.run(lambda path: Printer(path, form, as_json, live=True))
