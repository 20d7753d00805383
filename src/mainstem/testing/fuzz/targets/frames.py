"""Frames of WebSockets: what is read here, and what `websockets` reads."""

from typing import Final

from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from mainstem import limits
from mainstem.server.edge.frames import FrameBoundary, read_text
from mainstem.server.edge.websocket import quiet
from mainstem.testing.fuzz.target import Target
from mainstem.testing.fuzz.targets.edge import cut_in_two_places

Messages = list[tuple[int, bytes]]


def read_frames(data: bytes) -> None:
    """Text frames that are read directly are those that `websockets` reads, and the boundary is after the same one."""
    raw, parts = cut_in_two_places(data)
    expected = _read_all(raw)
    at = 0
    found: Messages = []
    while (frame := read_text(raw, at, limits.SYNC_MESSAGE_BYTES_MAX)) is not None:
        text, at = frame
        found.append((Opcode.TEXT, text))
    assert expected[: len(found)] == found
    assert found + _read_all(raw[at:]) == expected
    whole, cut = FrameBoundary(), FrameBoundary()
    whole.advance(raw)
    for part in parts:
        cut.advance(part)
    assert whole.reached == cut.reached


def _read_all(raw: bytes) -> Messages:
    protocol = ServerProtocol(state=State.OPEN, max_size=limits.SYNC_MESSAGE_BYTES_MAX, logger=quiet)
    protocol.receive_data(raw)
    return [(frame.opcode, bytes(frame.data)) for frame in protocol.events_received() if isinstance(frame, Frame)]


TARGETS: Final = (
    Target(
        "frames",
        read_frames,
        (
            b"\x40\x80\x81\x85\x01\x02\x03\x04igoht",
            b"\x40\x80\x81\xfe\x00\x7e\0\0\0\0" + b"x" * 126 + b"\x89\x80\0\0\0\0\x88\x82\0\0\0\0\x03\xe8",
            b"\x10\x20\x01\x81\0\0\0\0a\x80\x81\0\0\0\0b\x82\x81\0\0\0\0c",
            b"\x10\x20\x81\xff\0\0\0\0\0\0\0\x01\0\0\0\0a",
        ),
        (b"\x81\x80\0\0\0\0", b"\x81\x81\0\0\0\0a", b"\x89\x80\0\0\0\0", b"\x80\x80\0\0\0\0", b"\x81\xff"),
    ),
)
