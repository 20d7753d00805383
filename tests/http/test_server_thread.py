"""The server in a thread that most of these tests use."""

import httpx2
import pytest

from mainstem.server.settings import Settings
from mainstem.testing.server import ServerNotReady
from mainstem.testing.server_thread import ServerThread


def test_the_server_answers_between_start_and_stop_and_may_be_stopped_twice():
    server = ServerThread(Settings(port=0, store="memory"))
    with server:
        assert httpx2.get(server.url + "/healthz", trust_env=False, verify=False).status_code == 200
    server.stop()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(server.url + "/healthz", trust_env=False, verify=False)


def test_a_server_that_cannot_start_reports_why(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerNotReady, match="a part of its path is a file"):
        ServerThread(Settings(port=0, data=str(tmp_path / "file" / "data"))).start()
