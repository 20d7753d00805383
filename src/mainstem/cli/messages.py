"""Splits batches into JSON messages, or into lines of other data, each with the offset after it."""

from collections.abc import Iterator
from typing import NamedTuple

from mainstem import limits
from mainstem.client import Batch
from mainstem.errors import BadOffset
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset


class Message(NamedTuple):
    offset: str
    """Read from here to continue after this message."""
    value: bytes


def step_back(offset: str, size: int) -> str:
    """Return the offset `size` bytes before another one, or the same one if its server uses another form of offsets."""
    try:
        end = Offset.parse(offset)
    except BadOffset:
        return offset
    return str(Offset(end.read_seq, end.position - size))


def position(offset: str | None) -> int | None:
    """Return the number of bytes before an offset, or None if the offset does not contain it."""
    try:
        return None if offset is None else Offset.parse(offset).position
    except BadOffset:
        return None


class Splitter:
    """Splits the batches of one stream, in order."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._offset = ""

    def feed(self, batch: Batch) -> Iterator[Message]:
        self._offset = batch.offset
        if is_json(batch.content_type):
            return self._take_messages(batch)
        return self._take_lines(batch)

    def _take_messages(self, batch: Batch) -> Iterator[Message]:
        """Yield the messages. In the stream, a comma follows each of them, which offsets count."""
        messages = batch.raw_messages
        left = sum(len(message) + 1 for message in messages)
        for message in messages:
            left -= len(message) + 1
            yield Message(step_back(batch.offset, left), message)

    def _take_lines(self, batch: Batch) -> Iterator[Message]:
        left = len(batch.data)
        for line in split_lines(batch.data):
            left -= len(line)
            self._line += line
            if line.endswith(b"\n") or len(self._line) > limits.CLI_LINE_BYTES_MAX:
                yield Message(step_back(batch.offset, left), bytes(self._line).removesuffix(b"\n"))
                self._line.clear()

    def end(self) -> Iterator[Message]:
        """Yield the last line if no line feed has ended it."""
        if self._line:
            yield Message(self._offset, bytes(self._line))
            self._line.clear()


def split_lines(data: bytes) -> list[bytes]:
    """Split at LF only: a carriage return is data."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]
