"""Many streams over one connection: the events of a stream set, as batches per stream."""

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Protocol

import click
import msgspec

from mainstem.cli.addresses import Address
from mainstem.cli.sse import Query, read_events
from mainstem.client import Batch
from mainstem.escaping import escape_line


class SetEvent(msgspec.Struct, rename="camel"):
    stream: str
    next_offset: str
    encoding: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    closed: bool = False
    deleted: bool = False
    gone: bool = False


TYPES = {"json": "application/json", "text": "text/plain", "base64": "application/octet-stream"}
_decode = msgspec.json.Decoder(SetEvent).decode


class BatchPrinter(Protocol):
    def print(self, batch: Batch, number_max: int | None = None) -> bool: ...
    def end(self) -> None: ...


class StreamSetReader:
    """Follows many streams over one connection, and prints the new data of each."""

    def __init__(self, address: Address, paths: list[str], offset: str) -> None:
        self._address = address
        self._paths = paths
        self._offset = offset
        self._offsets: dict[str, str] = {}

    def run(self, printer_of: Callable[[str], BatchPrinter]) -> None:
        printers = {path: printer_of(path) for path in self._paths}
        events = read_events(self._address, "/v1/stream-set", self._query)
        for event in events:
            found = _decode(event.data)
            printer = printers.get(found.stream)
            if printer is None:
                continue
            self._offsets[found.stream] = found.next_offset
            if found.encoding is not None:
                printer.print(as_batch(found))
            if found.closed or found.deleted or found.gone:
                printers.pop(found.stream).end()
                self._paths.remove(found.stream)
                self._explain_end(found)
            if not printers:
                return

    def _explain_end(self, event: SetEvent) -> None:
        if event.deleted:
            click.echo(f"mainstem: {escape_line(event.stream)} was deleted", err=True)
        elif event.gone:
            click.echo(
                f"mainstem: {escape_line(event.stream)}: the next data was discarded by retention before it was read",
                err=True,
            )

    def _query(self) -> Query:
        query = [("live", "sse"), ("offset", self._offset), *(("stream", path) for path in self._paths)]
        if self._offsets:  # in the form of event ids; a stream without an event so far starts from --offset again
            token = urlsafe_b64encode(msgspec.json.encode(self._offsets)).rstrip(b"=").decode()
            query.append(("resume", token))
        return query


def as_batch(event: SetEvent) -> Batch:
    assert event.encoding is not None
    data = bytes(event.data)
    if event.encoding != "json":
        text: Any = msgspec.json.decode(data)
        data = text.encode() if event.encoding == "text" else b64decode(text)
    return Batch(data=data, offset=event.next_offset, content_type=TYPES[event.encoding])
