"""Drives a connection's state machine without a socket, and reports what it parsed."""

from collections.abc import Iterable

from mainstem.errors import MainstemError
from mainstem.server.edge.heads import Heads, RequestHead
from mainstem.server.edge.machine import END_OF_REQUEST, Machine
from mainstem.server.edge.states import Write

Seen = list[tuple[RequestHead, bytes] | str]


def drive(parts: Iterable[bytes]) -> Seen:
    """Return the complete requests, each answered at once, then the code of the error that ended the input, if any.

    A request that is still incomplete when the parts end is not included.
    """
    machine = Machine(Heads())
    seen: Seen = []
    head: RequestHead | None = None
    body = b""
    for part in parts:
        machine.feed(part)
        try:
            while (event := machine.next_event()) is not None or machine.more:
                if isinstance(event, RequestHead):
                    head, body = event, b""
                    machine.write(Write.BEGIN)
                elif isinstance(event, bytes):
                    body += event
                if event is END_OF_REQUEST or (isinstance(event, RequestHead) and not event.length):
                    assert head is not None
                    seen.append((head, body))
                    machine.write(Write.HEAD)
                    machine.write(Write.END)
                    machine.start_next_cycle()
        except MainstemError as error:
            seen.append(error.code)
            machine.feed(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert machine.next_event() is None, "the machine parsed data after bad input"
            break
    return seen


def cuts(raw: bytes, most: int = 400) -> Iterable[tuple[bytes, bytes]]:
    """Return the bytes in two parts, split at every position, or at some positions if there are many."""
    for at in range(1, len(raw), max(1, len(raw) // most)):
        yield raw[:at], raw[at:]


def single(raw: bytes) -> Iterable[bytes]:
    """Return the bytes one at a time."""
    return (raw[at : at + 1] for at in range(len(raw)))
