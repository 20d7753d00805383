"""Only one server can use a data directory."""

import socket
from pathlib import Path

import pytest

from mainstem.testing.plugin import StartServer
from mainstem.testing.server import ServerNotReady, ServerProcess
from tests.support.http_requests import TEXT, ask


def test_a_second_server_on_the_same_data_refuses_to_start_and_says_why(start_server: StartServer) -> None:
    first = start_server()
    second = ServerProcess(first.data)
    try:
        with pytest.raises(ServerNotReady):
            second.start()
        assert second.wait() == 2
        assert (
            f"{first.data} is in use by process {first.pid}. Only one process may use a data directory: run one worker"
            in second.stderr
        )
        assert "Traceback" not in second.stderr
    finally:
        second.close()
    assert ask(first, "PUT", "/v1/stream/a", b"x", TEXT).status == 201


def test_a_killed_server_does_not_keep_its_data_locked(start_server: StartServer) -> None:
    first = start_server()
    first.kill()
    second = start_server(data=first.data)
    assert ask(second, "GET", "/readyz").status == 200


def test_a_port_in_use_is_reported_and_the_data_is_not_changed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        second = ServerProcess(tmp_path / "never", "--port", str(port))
        try:
            with pytest.raises(ServerNotReady):
                second.start()
            assert second.wait() == 2
            assert (
                f"port {port} on 127.0.0.1 is in use; stop the other server, or choose another port with --port"
                in second.stderr
            )
        finally:
            second.close()
    assert not (tmp_path / "never").exists()
