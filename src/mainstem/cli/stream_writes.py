"""`mainstem stream append`: standard input or files into a stream."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import Any

import click
import msgspec

from mainstem import limits
from mainstem.cli import options, output, progress
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.failures import ExitCode, Failure, explain
from mainstem.cli.stream import STREAM_PATH, expand_type
from mainstem.client import Appended, NotFound, StreamGone, StreamInfo, Streams
from mainstem.streams.rules.content_types import is_json


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--create", metavar="TYPE", help="Create the stream with this content type if it is not there.")
@click.option(
    "-m", "--message", "messages", multiple=True, help="Append this instead of standard input; may be repeated."
)
@click.option("--whole", is_flag=True, help="Send each input as one append, not in pieces or line by line.")
@click.option("--if-match", metavar="OFFSET", help="Only if the stream still ends there; for a single append.")
@click.option("--close", is_flag=True, help="Close the stream afterwards.")
@options.server
def append(
    path: str,
    files: tuple[str, ...],
    create: str | None,
    messages: tuple[str, ...],
    whole: bool,
    if_match: str | None,
    close: bool,
    address: Address,
    as_json: bool,
) -> None:
    """Append standard input, or FILEs, to the stream PATH. - is standard input.

    To a JSON stream each line is a message. To any other stream the bytes go as they are. Appends that the server may
    have missed are sent again, and stored once.
    """
    if messages and files:
        raise click.UsageError("give files or --message, not both")
    with connect(address) as streams:
        info = find_stream(streams, path, create)
    with ExitStack() as stack:
        shown = progress.is_visible(as_json) and not messages and (bool(files) or not sys.stdin.isatty())
        advance = stack.enter_context(progress.bar(f"Appending to {path}", shown=shown))
        streams = stack.enter_context(connect(address, patient=True))
        writer = Writer(streams, info, if_match, close)
        total = _total(files)
        try:
            for piece in pieces(files, messages, info.content_type, whole):
                writer.add(piece)
                advance(writer.bytes, total)
            done = writer.finish()
        except BaseException as error:
            raise writer.interrupted(error) from error
    facts = {
        "path": path,
        "appends": writer.appends,
        "messages": writer.messages,
        "bytes": writer.bytes,
        "next_offset": done,
        "closed": close,
    }
    if as_json:
        output.write_json(facts)


def find_stream(streams: Streams, path: str, create: str | None) -> StreamInfo:
    try:
        return streams.head(path)
    except NotFound as error:
        if isinstance(error, StreamGone):
            raise
        if create is None:
            raise Failure(
                f"{path}: there is no such stream: make it with `mainstem stream create`, or use --create TYPE",
                ExitCode.NOT_FOUND,
            ) from None
        return streams.create(path, expand_type(create))


class Writer:
    """Sends pieces in turn, and knows how much is stored."""

    def __init__(self, streams: Streams, info: StreamInfo, if_match: str | None, close: bool) -> None:
        self._streams = streams
        self._info = info
        self._if_match = if_match
        self._close = close
        self._held: Piece | None = None
        self._end = info.next_offset
        self.appends = 0
        self.messages = 0
        self.bytes = 0

    def add(self, piece: "Piece") -> None:
        """A last piece that closes goes in one step, so where that is asked for the newest piece is held back."""
        if self._held is not None:
            self._send(self._held, last=False)
        if self._close or self._if_match is not None:
            self._held = piece
        else:
            self._send(piece, last=False)

    def finish(self) -> str:
        """Where the stream ends."""
        if self._held is not None:
            self._send(self._held, last=True)
        elif self._close:
            self._end = self._streams.close(self._info.path).next_offset or self._end
        return self._end

    def _send(self, piece: "Piece", *, last: bool) -> None:
        if self._if_match is not None and (self.appends or not last):
            raise Failure(
                "--if-match is for a single append, and this input takes several: try --whole", ExitCode.USAGE
            )
        done: Appended = self._streams.append(
            self._info.path,
            piece.data,
            content_type=self._info.content_type,
            if_match=self._if_match,
            close=self._close and last,
        )
        self._end = done.next_offset
        self._held = None
        self.appends += 1
        self.messages += piece.messages
        self.bytes += piece.size

    def interrupted(self, error: BaseException) -> BaseException:
        """The error, with what was stored before it: whoever repeats the command must know."""
        if isinstance(error, click.ClickException) or not self.appends:
            return error
        failure = explain(error)
        unit = f"{self.messages} messages" if is_json(self._info.content_type) else f"{self.bytes} bytes"
        said = f"{failure.message}. The first {unit} are stored, up to offset {self._end}"
        return Failure(said, ExitCode(failure.exit_code))


class Piece(msgspec.Struct, frozen=True):
    """One append: `size` is what it took of the input."""

    data: bytes
    messages: int
    size: int


def pieces(files: tuple[str, ...], messages: tuple[str, ...], content_type: str, whole: bool) -> Iterator[Piece]:
    if messages:
        for text in messages:
            data = text.encode("utf-8", "surrogateescape")
            if is_json(content_type):
                check_json(data, "--message")
            yield Piece(b"[%b]" % data if is_json(content_type) else data, 1, len(data))
        return
    for file in files or ("-",):
        with open_input(file) as source:
            if whole:
                yield from _whole(source, file, is_json(content_type))
            elif is_json(content_type):
                yield from _batches(source, file)
            else:
                while data := source.read1(limits.CLI_APPEND_BYTES):
                    yield Piece(data, 1, len(data))


def open_input(file: str) -> BufferedReader:
    return open(0, "rb", closefd=False) if file == "-" else Path(file).open("rb")


def _whole(source: BufferedReader, file: str, in_json: bool) -> Iterator[Piece]:
    """The elements of a JSON array are messages."""
    data = source.read(limits.CLI_WHOLE_BYTES_MAX + 1)
    if len(data) > limits.CLI_WHOLE_BYTES_MAX:
        raise Failure(f"{file} is larger than one append can be, {limits.CLI_WHOLE_BYTES_MAX} bytes", ExitCode.USAGE)
    if data.strip() if in_json else data:
        value = check_json(data, name_of(file)) if in_json else None
        yield Piece(data, len(value) if isinstance(value, list) else 1, len(data))


def _batches(source: BufferedReader, file: str) -> Iterator[Piece]:
    """Lines of JSON, as many in one append as are there: nothing waits for a line that has not come yet."""
    name = name_of(file)
    number, rest = 0, b""
    while data := source.read1(limits.CLI_APPEND_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > limits.CLI_WHOLE_BYTES_MAX:
            raise Failure(f"line {number + len(lines) + 1} of {name} is too long for one message", ExitCode.USAGE)
        yield from _pack(lines, number, name)
        number += len(lines)
    yield from _pack([rest], number, name)


def name_of(file: str) -> str:
    return "standard input" if file == "-" else file


def _pack(lines: list[bytes], before: int, name: str) -> Iterator[Piece]:
    batch: list[bytes] = []
    for number, line in enumerate(lines, start=before + 1):
        message = line.strip()
        if message:
            check_json(message, f"line {number} of {name}")
            batch.append(message)
    for at in range(0, len(batch), limits.CLI_APPEND_MESSAGES_MAX):
        some = batch[at : at + limits.CLI_APPEND_MESSAGES_MAX]
        yield Piece(b"[%b]" % b",".join(some), len(some), sum(len(message) + 1 for message in some))


def check_json(data: bytes, where: str) -> Any:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{where} is not JSON: {error}", ExitCode.USAGE) from None


def _total(files: tuple[str, ...]) -> int | None:
    """How much there is to send, if that can be known."""
    try:
        return sum(Path(file).stat().st_size for file in files) if files and "-" not in files else None
    except OSError:
        return None
