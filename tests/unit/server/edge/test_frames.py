"""Frames of WebSockets: the text of a whole frame, and where frames end, wherever the bytes are split."""

from hypothesis import example, given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from mainstem.server.edge.frames import FrameBoundary, read_text

MIB = 1024 * 1024


def frame(payload, opcode=Opcode.TEXT, *, fin=True):
    return Frame(opcode, payload, fin).serialize(mask=True)


payloads = st.sampled_from([0, 1, 3, 4, 124, 125, 126, 127, 300, 5000, 65_535, 65_536, 70_000]).map(
    lambda size: bytes(range(97, 123)) * (size // 26) + b"z" * (size % 26)
)
data_frames = st.builds(
    lambda payload, opcode, fin: frame(payload, opcode, fin=fin),
    payloads,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT]),
    st.booleans(),
)
control_frames = st.builds(
    lambda payload, opcode: frame(payload[:125], opcode), payloads, st.sampled_from([*Opcode][3:])
)
frames = st.lists(data_frames | control_frames)


def read_with_websockets(data):
    """Return the text of each text frame that `websockets` finds."""
    protocol = ServerProtocol(state=State.OPEN, max_size=MIB)
    protocol.receive_data(data)
    found = protocol.events_received()
    return [bytes(event.data) for event in found if isinstance(event, Frame) and event.opcode is Opcode.TEXT]


@given(payloads)
def test_a_whole_text_frame_gives_what_websockets_reads(payload):
    data = frame(payload)
    found = read_text(data, 0, MIB)
    if len(payload) < 65_536 and len(data) >= 8:
        assert found == (payload, len(data))
        assert read_with_websockets(data) == [payload]
        assert read_text(b"??" + data + b"?", 2, MIB) == (payload, len(data) + 2)
    else:
        assert found is None


@given(payloads.filter(bool), st.data())
def test_an_incomplete_frame_is_left_alone(payload, data):
    whole = frame(payload)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert read_text(whole[:cut], 0, MIB) is None


def test_a_frame_that_is_too_large_is_left_to_websockets():
    assert read_text(frame(b"x" * 100), 0, 100) is not None
    assert read_text(frame(b"x" * 101), 0, 100) is None


@given(st.binary(min_size=8, max_size=300), st.integers(0, 255), st.integers(0, 255))
@example(bytes(200), 0x81, 0x7D)  # not masked
@example(bytes(200), 0xC1, 0xFD)  # an extension
@example(bytes(200), 0x01, 0xFD)  # the first of several fragments
def test_whatever_is_read_here_is_what_websockets_reads(rest, first, second):
    data = bytes([first, second]) + rest
    found = read_text(data, 0, MIB)
    if found is not None:
        text, end = found
        assert read_with_websockets(data[:end]) == [text]
    elif first == 0x81:  # an incomplete, unmasked or very short one
        assert second < 0x80 or second == 0xFF or len(data) < (second & 0x7F) + 6 or second == 0xFE


@given(frames, st.data())
def test_the_boundary_is_where_a_frame_ends(parts, data):
    stream = b"".join(parts)
    ends = {0}
    for part in parts:
        ends.add(max(ends) + len(part))
    cuts = sorted(set(data.draw(st.lists(st.integers(0, len(stream)), max_size=20))) | {len(stream)})
    near = data.draw(st.sampled_from(sorted(ends)))
    cuts = sorted({*cuts, *(at for at in range(near - 15, near + 15) if 0 <= at <= len(stream))})
    boundary = FrameBoundary()
    assert boundary.reached
    last = 0
    for cut in cuts:
        boundary.advance(stream[last:cut])
        assert boundary.reached is (cut in ends)
        last = cut
