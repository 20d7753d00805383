"""Single HTTP requests to a server that may disappear at any moment."""

import http.client
from typing import NamedTuple

from mainstem.testing.server import ServerProcess

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
TIMEOUT_S = 30.0


class Reply(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def connect(address: tuple[str, int]) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*address, timeout=TIMEOUT_S)


def send(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Reply(response.status, response.headers, response.read())


def ask(
    server: ServerProcess, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> Reply:
    connection = connect(server.address)
    try:
        return send(connection, method, path, body, headers)
    finally:
        connection.close()


def read_stream(server: ServerProcess, path: str) -> bytes:
    """Return all data of a stream, page by page."""
    connection = connect(server.address)
    try:
        data, offset = b"", "-1"
        while True:
            reply = send(connection, "GET", f"{path}?offset={offset}")
            assert reply.status == 200, reply
            data += reply.body
            offset = reply.headers["Stream-Next-Offset"]
            if reply.headers["Stream-Up-To-Date"] == "true":
                return data
    finally:
        connection.close()
