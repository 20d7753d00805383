"""A server that is asked to stop finishes the requests in progress and ends live reads cleanly."""

import http.client
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerProcess
from tests.support.http_requests import TEXT, ask, connect, read_stream

PATH = "/v1/stream/a"
WRITERS = 200


def send_append(server: ServerProcess, number: int) -> socket.socket:
    body = b"%d\n" % number
    writer = socket.create_connection(server.address, timeout=30)
    writer.sendall(
        b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n%b"
        % (PATH.encode(), len(body), body)
    )
    return writer


def was_acknowledged(writer: socket.socket) -> bool:
    """Return whether a reply arrived before the connection ended."""
    response = http.client.HTTPResponse(writer)
    try:
        response.begin()
        response.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        response.close()
        writer.close()
    assert response.status in (204, 503)
    return response.status == 204


def test_every_committed_append_was_answered(start_server: StartServer) -> None:
    server = start_server()
    ask(server, "PUT", PATH, headers=TEXT)
    with ThreadPoolExecutor(16) as pool:
        writers = list(pool.map(lambda number: send_append(server, number), range(WRITERS)))
        first = was_acknowledged(writers[0])
        server.signal(signal.SIGTERM)
        answers = [first, *pool.map(was_acknowledged, writers[1:])]
    server.wait()
    server.restart()
    found = sorted(map(int, read_stream(server, PATH).split()))
    assert found == [number for number, answer in enumerate(answers) if answer]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_live_reads_end_with_complete_responses(start_server: StartServer, stop: signal.Signals) -> None:
    server = start_server("--long-poll-ms", "600000")
    ask(server, "PUT", PATH, b"x", TEXT)
    sse, poll = connect(server.address), connect(server.address)
    sse.request("GET", f"{PATH}?live=sse&offset=-1")
    events = sse.getresponse()
    assert events.readline() == b"event: data\n"
    poll.request("GET", f"{PATH}?live=long-poll&offset=now")
    # Requests are processed in order, so the long-poll is waiting once this one is answered.
    ask(server, "HEAD", PATH)
    server.signal(stop)
    rest = events.read()  # a truncated event stream would raise IncompleteRead
    assert rest.endswith(b"\n\n")
    assert b"event: control" in rest
    answer = poll.getresponse()
    assert answer.status == 204
    assert answer.headers["Stream-Up-To-Date"] == "true"
    sse.close()
    poll.close()
    server.wait()
    assert "aborted" not in server.stderr
    assert "Traceback" not in server.stderr


def test_a_stopped_server_leaves_no_journal(start_server: StartServer) -> None:
    server = start_server()
    ask(server, "PUT", PATH, b"x", TEXT)
    assert server.data.joinpath("mainstem.db-wal").exists()
    server.terminate()
    assert sorted(file.name for file in server.data.iterdir()) == ["lock", "mainstem.db"]
    server.restart()
    assert read_stream(server, PATH) == b"x"


def test_a_stopped_server_exits_cleanly(start_server: StartServer) -> None:
    """Supervisors accept 0, or the end by the signal that they sent, as a clean stop."""
    server = start_server()
    assert server.terminate() in (0, -signal.SIGTERM)
    assert "Traceback" not in server.stderr
