"""`mainstem stream append`: write standard input or files to a stream."""

import re
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

WHOLE_MAX = f"{limits.CLI_WHOLE_BYTES_MAX // limits.MIB} MiB at most"


@click.command()
@click.argument("path", type=STREAM_PATH)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--create", metavar="TYPE", help="Create the stream with this content type if it does not exist.")
@click.option(
    "-m", "--message", "messages", multiple=True, help="Append this text instead of standard input; repeatable."
)
@click.option("--whole", is_flag=True, help="Send each input as one append instead of in pieces or lines.")
@click.option("--if-match", metavar="OFFSET", help="Append only if the stream still ends at this offset.")
@click.option("--close", is_flag=True, help="Close the stream after the last append.")
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
    """Append standard input, or FILEs, to the stream PATH. A FILE of - is standard input.

    For a JSON stream, each line is a message. Other streams get the bytes unchanged. After a lost connection, the
    command sends its last append again, and the server stores it once.
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
    amount = output.format_bytes(writer.bytes)
    if is_json(info.content_type):
        amount = "1 message" if writer.messages == 1 else f"{output.format_number(writer.messages)} messages"
    text = f"appended {amount} to {path}{', and closed it' if close else ''}; it ends at {done}"
    output.write_result(facts, text, as_json)


def find_stream(streams: Streams, path: str, create: str | None) -> StreamInfo:
    try:
        return streams.head(path)
    except NotFound as error:
        if isinstance(error, StreamGone):
            raise
        if create is None:
            raise Failure(
                f"{path}: there is no such stream: create it with `mainstem stream create`, or pass --create TYPE",
                ExitCode.NOT_FOUND,
            ) from None
        return streams.create(path, expand_type(create))


class Writer:
    """Sends pieces in order, and counts how much the server has stored."""

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
        """Send a piece. With --close or --if-match, hold it back until it is known whether it is the last."""
        if self._held is not None:
            self._send(self._held, last=False)
        if self._close or self._if_match is not None:
            self._held = piece
        else:
            self._send(piece, last=False)

    def finish(self) -> str:
        """Send the rest, and return the offset at which the stream ends."""
        if self._held is not None:
            self._send(self._held, last=True)
        elif self._close:
            self._end = self._streams.close(self._info.path).next_offset or self._end
        return self._end

    def _send(self, piece: "Piece", *, last: bool) -> None:
        if self._if_match is not None and (self.appends or not last):
            raise Failure(
                "--if-match is for a single append, and this input needs several: try --whole", ExitCode.USAGE
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
        """Return the error with how much was stored before it, so that the user can continue from there."""
        if isinstance(error, click.ClickException) or not self.appends:
            return error
        failure = explain(error)
        unit = "messages" if is_json(self._info.content_type) else "bytes"
        number = self.messages if unit == "messages" else self.bytes
        said = f"{failure.message}. The first {number} {unit} are stored, up to offset {self._end}"
        return Failure(said, ExitCode(failure.exit_code))


class Piece(msgspec.Struct, frozen=True):
    """One append. `size` is the number of bytes of input that it holds."""

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
    """Yield the whole input as one append. The elements of a JSON array are messages."""
    data = source.read(limits.CLI_WHOLE_BYTES_MAX + 1)
    if len(data) > limits.CLI_WHOLE_BYTES_MAX:
        raise Failure(
            f"{name_of(file)} is larger than one append can be, {WHOLE_MAX}: omit --whole",
            ExitCode.USAGE,
        )
    if data.strip() if in_json else data:
        value = check_json(data, name_of(file)) if in_json else None
        yield Piece(data, len(value) if isinstance(value, list) else 1, len(data))


def _batches(source: BufferedReader, file: str) -> Iterator[Piece]:
    """Yield lines of JSON, as many per append as have arrived: no line waits for the next one."""
    name = name_of(file)
    number, rest = 0, b""
    while data := source.read1(limits.CLI_APPEND_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > limits.CLI_WHOLE_BYTES_MAX:
            raise Failure(
                f"line {number + len(lines) + 1} of {name} is too long: a message can have {WHOLE_MAX}",
                ExitCode.USAGE,
            )
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
        raise Failure(f"{where} is not JSON{locate_json_error(error)}", ExitCode.USAGE) from None


def locate_json_error(error: Exception) -> str:
    """Return where JSON is wrong, as the end of a message."""
    if isinstance(error, UnicodeDecodeError):
        return ": it is not UTF-8"
    found = re.search(r"\(byte (\d+)\)", str(error))
    return f": look at byte {int(found[1]) + 1}" if found else ": it is incomplete, or of another type"


def _total(files: tuple[str, ...]) -> int | None:
    """Return the size of the input, or None if it is unknown."""
    try:
        return sum(Path(file).stat().st_size for file in files) if files and "-" not in files else None
    except OSError:
        return None
