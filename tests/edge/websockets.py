"""WebSockets by hand, for frames that no client library would send."""

import struct

from tests.support.plain_http import connect, head

HANDSHAKE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def open_websocket(server):
    """Return a connection whose handshake is done."""
    connection = connect(server.address)
    connection.sendall(head(b"GET", b"/v1/sync", *HANDSHAKE))
    reply = b""
    while not reply.endswith(b"\r\n\r\n"):
        reply += connection.recv(1)
    assert reply.startswith(b"HTTP/1.1 101")
    return connection


def frame(opcode, data=b"", *, last=True):
    """Return a client's frame, masked with zeros."""
    size = struct.pack("!B", len(data) | 0x80) if len(data) < 126 else struct.pack("!BH", 126 | 0x80, len(data))
    return bytes([opcode | (0x80 if last else 0)]) + size + bytes(4) + data
