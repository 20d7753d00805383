import os
from io import BytesIO
from pathlib import Path

from mainstem.server.log_api.selection import Selection
from mainstem.server.log_api.worker import LENGTH, PageRequest, encode_message, serve


def ask(directory: Path, server: int) -> bytes:
    """Return what a worker replies to one request of the server with this process id."""
    request = encode_message(PageRequest(Selection(after=0), 1, "ndjson"))
    replies = BytesIO()
    serve(str(directory), server, BytesIO(LENGTH.pack(len(request)) + request), replies)
    return replies.getvalue()


def test_a_worker_answers_its_server(tmp_path):
    assert ask(tmp_path, os.getppid())


def test_a_worker_whose_server_is_gone_reads_nothing(tmp_path):
    assert not ask(tmp_path, os.getpid())
    assert not list(tmp_path.iterdir())
