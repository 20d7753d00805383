"""A whole server on a socket: whatever a client sends, it replies with documented errors and keeps working."""

import re
import socket
from pathlib import Path
from typing import Final

import msgspec
from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from mainstem.errors import MainstemError
from mainstem.testing.fuzz.target import Target
from mainstem.testing.fuzz.targets import edge, sync
from mainstem.testing.server import ServerProcess

RAW: Final = b"\0"
CONTROLS: Final = bytes([*range(32), 127])
REPLY_S_MAX: Final = 30.0
IDLE_S: Final = 0.02
"""How long to wait for a reply before this client closes its half of the connection: the input may be incomplete."""
REPLIES_BYTES_MAX: Final = 16 * 1024 * 1024
STATUS: Final = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Za-z -]*\r\n(?:[^\r\n]+\r\n)*\r\n")
PROBLEM: Final = re.compile(rb'"status":([0-9]{3}),"code":"([a-z_]+)"')
SUCCESSES: Final = frozenset([100, 101, 200, 201, 204, 304])
SYNC_REPLIES: Final = frozenset(
    [
        "connected",
        "submit_events_result",
        "event_committed",
        "event_rejected",
        "sync_response",
        "heartbeat_ack",
        "error",
    ]
)
SYNC_ERRORS: Final = frozenset(
    ["auth_failed", "bad_request", "forbidden", "protocol_version_unsupported", "rate_limited", "validation_failed"]
)
CLOSES: Final = frozenset(
    [
        CloseCode.NORMAL_CLOSURE,
        CloseCode.PROTOCOL_ERROR,
        CloseCode.UNSUPPORTED_DATA,
        CloseCode.INVALID_DATA,
        CloseCode.POLICY_VIOLATION,
        CloseCode.MESSAGE_TOO_BIG,
    ]
)
HANDSHAKE: Final = (
    b"GET /v1/sync HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
LAST: Final = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
DISCONNECT: Final = b'{"type":"disconnect","payload":{},"protocol_version":"1.0","msg_id":"last"}'
DISCONNECTED: Final = b'"msg_id":"last"'
"""In the refusal of a disconnect; if it is accepted, the server ends the connection."""


def list_problems() -> frozenset[tuple[int, str]]:
    """Return the status and code of every error in the tree except the one that stands for a bug of the server."""
    found: set[tuple[int, str]] = set()
    left = list(MainstemError.__subclasses__())
    while left:
        type_ = left.pop()
        found.add((type_.status, type_.code))
        left += type_.__subclasses__()
    return frozenset(found - {(MainstemError.status, MainstemError.code)})


class ServerUnderFuzz:
    """A running server, and the targets that connect to it."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._problems = list_problems()
        self.targets: Final = (
            Target("http-server", self.send_requests, HTTP_SEEDS, HTTP_PIECES),
            Target("sync-server", self.send_messages, SYNC_SEEDS, SYNC_PIECES),
        )

    def send_requests(self, data: bytes) -> None:
        """The input is sent as it is if it begins with 0. Else it consists of requests whose framing is added."""
        raw = data[1:] if data[:1] == RAW else b"".join(map(compose_request, data.split(RAW)))
        replies = self._exchange(raw, LAST)
        heads = list(STATUS.finditer(replies))
        assert not replies or (heads and not heads[0].start()), replies
        for head in heads:
            status = int(head[1])
            problem = PROBLEM.search(replies, head.end())
            if status in SUCCESSES or problem is None:  # a reply to HEAD has no body
                assert status in SUCCESSES or any(status == known for known, _ in self._problems), head[0]
            else:
                assert (int(problem[1]), problem[2].decode()) in self._problems, problem[0]

    def send_messages(self, data: bytes) -> None:
        """The input is a sequence of frames if it begins with 0, and else each of its lines is a message."""
        frames = data[1:] if data[:1] == RAW else b"".join(map(encode_text, data.split(b"\n")))
        replies = self._exchange(HANDSHAKE + frames, encode_text(DISCONNECT), DISCONNECTED)
        handshake, _, rest = replies.partition(b"\r\n\r\n")
        assert handshake.startswith(b"HTTP/1.1 101 "), handshake
        protocol = ClientProtocol(parse_uri("ws://a/"), state=State.OPEN, max_size=None)
        protocol.receive_data(rest)
        assert protocol.parser_exc is None or isinstance(protocol.parser_exc, EOFError), protocol.parser_exc
        for frame in protocol.events_received():
            assert isinstance(frame, Frame)
            if frame.opcode is Opcode.TEXT:
                _check_reply(bytes(frame.data))
        assert protocol.close_rcvd is None or protocol.close_rcvd.code in CLOSES, protocol.close_rcvd

    def _exchange(self, data: bytes, last: bytes, end: bytes | None = None) -> bytes:
        """Send the input and a last request, and return all replies: up to `end`, or until the connection ends."""
        replies = bytearray()
        with socket.create_connection(self._server.address, REPLY_S_MAX) as connection:
            try:
                connection.sendall(data + last)
                connection.settimeout(IDLE_S)
                _receive(connection, replies, end)
            except TimeoutError:
                connection.settimeout(REPLY_S_MAX)
                connection.shutdown(socket.SHUT_WR)
                _receive(connection, replies, end)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the server may refuse the input before it has read all of it
        return bytes(replies)

    def check_health(self, memory_bytes_max: int) -> None:
        """Check that the server runs, has reported no bug, and has never used more memory than this."""
        assert self._server.running
        assert "Traceback" not in self._server.stderr, self._server.stderr
        peak = measure_peak_bytes(self._server.pid)
        assert peak <= memory_bytes_max, f"the server has used {peak} bytes"
        assert b"HTTP/1.1 200 " in self._exchange(b"", LAST)


def _receive(connection: socket.socket, replies: bytearray, end: bytes | None) -> None:
    try:
        while (end is None or end not in replies) and (part := connection.recv(65_536)):
            replies += part
            assert len(replies) <= REPLIES_BYTES_MAX
    except ConnectionResetError:
        pass


def _check_reply(text: bytes) -> None:
    reply = msgspec.json.decode(text)
    assert reply["type"] in SYNC_REPLIES, text
    assert reply["type"] != "error" or reply["payload"]["code"] in SYNC_ERRORS, text


def compose_request(data: bytes) -> bytes:
    """Return a request of these lines: method and target, headers, an empty line, and the body."""
    head, _, body = data.partition(b"\n\n")
    lines = [line.translate(None, CONTROLS) for line in head.split(b"\n")]
    lines[0] += b" HTTP/1.1"
    return b"\r\n".join([*lines, b"Host: a", b"Content-Length: %d" % len(body), b"", body])


def encode_text(message: bytes) -> bytes:
    return Frame(Opcode.TEXT, message).serialize(mask=True)


def measure_peak_bytes(pid: int) -> int:
    """Return the most memory that a process has used so far, as Linux reports it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


STREAM: Final = b" /v1/stream/fuzz\nContent-Type: application/json\n"
HTTP_SEEDS: Final = (
    *(RAW + seed[2:] for seed in edge.TARGETS[0].seeds),
    b"PUT" + STREAM + b"Stream-TTL: 60\n\n[1]\0GET /v1/stream/fuzz?offset=-1\nIf-None-Match: *",
    b"POST" + STREAM + b'\n[1,{},"a"]\0GET /v1/stream/fuzz?offset=now&live=long-poll',
    b"POST" + STREAM + b"Producer-Id: p\nProducer-Epoch: 0\nProducer-Seq: 0\nStream-Seq: a\n\n1",
    b"HEAD" + STREAM + b"\0DELETE" + STREAM,
    b"PUT /v1/stream/fork\nStream-Forked-From: /v1/stream/fuzz\nStream-Fork-Offset: 0000000000000000_0000000000000002",
    b"GET /v1/stream/fuzz?offset=-1&live=sse\nLast-Event-ID: now",
    b"GET /v1/streams?prefix=f&limit=5\nAccept-Encoding: gzip",
    b"GET /v1/streams?search=F&limit=5",
    b"GET /v1/stream-offset/fuzz?time=2026-01-31T12:00:00Z",
    b"GET /v1/partitions?prefix=p&after=a&limit=5",
    b"GET /v1/sessions?after=0&limit=5",
    b"DELETE /v1/sessions/99",
    b"GET /v1/whoami",
    b"GET /v1/stream-set?stream=fuzz&stream=fork&live=sse",
    b"GET /v1/log?after=0&kind=stream\0GET /v1/log/index?of=streams&limit=2",
    b"GET /v1/partition/p?offset=-1\0HEAD /v1/partition/p",
    b'PUT /v1/stream/__ds/subscriptions/s\n\n{"type":"pull-wake","pattern":"fuzz*","wake_stream":"w"}',
    b'POST /v1/stream/__ds/subscriptions/s/claim\n\n{"worker":"w"}',
    b'POST /v1/jobs\n\n{"job":"audit","name":"a","round":1,"started_at":"2026-05-01T02:00:00Z","duration_s":1}',
    b"OPTIONS /v1/stream/a\nOrigin: http://b\nAccess-Control-Request-Method: PUT",
)
HTTP_PIECES: Final = (
    *(b"\nStream-Closed: true", b"\nIf-Match: ", b"\nStream-Retention: max-bytes=5", b"\0", b"\n\n", b"HEAD", b"PUT"),
    *(
        b"/v1/stream/",
        b"/v1/snapshot/p",
        b"/v1/prune",
        b"/openapi.json",
        b"?offset=now",
        b"&tail=2",
        b"/ack",
        b"/release",
    ),
)
SYNC_MESSAGES: Final = sync.TARGETS[0]
SYNC_SEEDS: Final = (
    *(SYNC_MESSAGES.seeds[0] + b"\n" + seed for seed in SYNC_MESSAGES.seeds),
    RAW + encode_text(SYNC_MESSAGES.seeds[0]) + b"\x89\x80\0\0\0\0\x01\x81\0\0\0\0a\x80\x80\0\0\0\0",
)
SYNC_PIECES: Final = (*SYNC_MESSAGES.pieces, b"\n", b"\x81\x80\0\0\0\0")
