"""Every example runs unchanged."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import pytest

from mainstem.server.settings import Settings
from tests.support.waits import eventually

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
EMBEDDED = ("embed_fastapi.py", "embed_starlette.py")
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}


@contextmanager
def running(example, cwd=None, **environment):
    """The example as a process that serves on a free port; gives its URL."""
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / example],
        cwd=cwd,
        env=os.environ | {"PORT": "0"} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if ready := re.search(r"running on (http://\S+)", line):
                yield ready[1]
                return
        pytest.fail("".join(said))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def run(example, *arguments, **options):
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def test_every_example_is_tested_here():
    here = Path(__file__).read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in here


def test_every_example_is_listed():
    page = (EXAMPLES / "README.md").read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f"({example.name})" in page


@pytest.mark.parametrize("example", EMBEDDED)
def test_a_mounted_mainstem_serves_streams_below_its_mount(example, tmp_path):
    with running(example, DATA=str(tmp_path / "data")) as url, httpx2.Client(base_url=url, trust_env=False) as client:
        assert client.get("/").json() == {"streams": "/log/v1/stream/"}
        created = client.put("/log/v1/stream/a%20b", headers=TEXT, content=b"hello")
        assert created.status_code == 201
        assert created.headers["location"] == f"{url}/log/v1/stream/a%20b"
        assert client.get(created.headers["location"]).content == b"hello"
        assert client.get("/log/healthz").json() == {"status": "ok"}
        assert client.get("/log/v1/stream/..%2Fx").status_code == 400
        assert client.get("/v1/stream/a%20b").status_code == 404


@pytest.mark.parametrize("example", EMBEDDED)
def test_a_mounted_mainstem_keeps_its_data_across_a_restart(example, tmp_path):
    for expected in (b"x", b"xx", b"xxx"):
        with running(example, DATA=str(tmp_path / "data")) as url:
            httpx2.put(f"{url}/log/v1/stream/s", headers=TEXT, trust_env=False)
            httpx2.post(f"{url}/log/v1/stream/s", headers=TEXT, content=b"x", trust_env=False)
            assert httpx2.get(f"{url}/log/v1/stream/s", trust_env=False).content == expected


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def test_copies_of_the_examples_beside_a_server_do_not_collide(start_server, tmp_path):
    """All of them in one folder, with the directories that they choose themselves."""
    start_server(data=tmp_path / "mainstem-data")
    with (
        running("embed_fastapi.py", tmp_path, PORT=free_port()) as first,
        running("embed_fastapi.py", tmp_path, PORT=free_port()) as second,
        running("embed_starlette.py", tmp_path, PORT=free_port()) as third,
    ):
        for url in (first, second, third):
            assert httpx2.put(f"{url}/log/v1/stream/s", headers=TEXT, trust_env=False).status_code == 201
    assert len([*tmp_path.glob("embedded-data-*")]) == 3


def test_the_examples_choose_different_ports_and_directories():
    """What they use when nothing else is said, beside the port and directory of `mainstem serve`."""
    programs = [(EXAMPLES / example).read_text() for example in EMBEDDED]
    ports = {port for program in programs for port in re.findall(r'"PORT", "(\d+)"', program)}
    assert len(ports | {str(Settings().port)}) == 3
    assert all('f"./embedded-data-{port}"' in program for program in programs)


@pytest.mark.parametrize("arguments", [["--workers", "2"], []], ids=["two workers", "beside a server"])
def test_a_second_process_on_the_same_data_must_run_one_worker(start_server, tmp_path, arguments):
    data = tmp_path / "data"
    if not arguments:
        start_server(data=data)
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "embed_fastapi:app", "--port", "0", *arguments],
        cwd=EXAMPLES,
        env=os.environ | {"DATA": str(data)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        wanted = re.compile(
            rf"{data} is in use by process \d+\. Only one process may use a data directory: run one worker"
        )
        assert any(wanted.search(line) for line in process.stderr)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_tail_sse_prints_everything_once_and_ends_with_the_stream(start_server):
    server = start_server("--store", "memory")
    url = f"{server.url}/v1/stream/s"
    with httpx2.Client(trust_env=False) as client:
        client.put(url, headers={"content-type": "application/json"}, content=b'[{"n":0}]')
        command = [sys.executable, str(EXAMPLES / "tail_sse.py"), url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tail:
            assert tail.stdout is not None
            for number in range(1, 5):
                assert json.loads(tail.stdout.readline()) == [{"n": number - 1}]
                client.post(url, headers={"content-type": "application/json"}, json={"n": number})
            client.post(url, headers={"stream-closed": "true"})
            rest = tail.stdout.read()
            assert tail.wait(30) == 0
    assert json.loads(rest) == [{"n": 4}]


def test_tail_sse_shows_octets_and_starts_at_the_given_offset(start_server):
    server = start_server("--store", "memory")
    url = f"{server.url}/v1/stream/s"
    end = httpx2.put(url, content=b"old ", trust_env=False).headers["stream-next-offset"]
    octets = {"content-type": "application/octet-stream", "stream-closed": "true"}
    httpx2.post(url, headers=octets, content=b"new", trust_env=False)
    assert run("tail_sse.py", url, end).stdout == "new\n"
    assert run("tail_sse.py", f"{url}/missing").returncode == 1


def test_write_exactly_once_stores_each_line_once(start_server):
    server = start_server("--store", "memory")
    url = f"{server.url}/v1/stream/numbers"
    lines = "".join(f"{number}\n" for number in range(50))
    done = run("write_exactly_once.py", url, input=lines)
    assert done.returncode == 0, done.stderr
    assert httpx2.get(url, trust_env=False).text == lines


def test_follow_stream_resumes_from_its_bookmark(start_server, tmp_path):
    server = start_server("--store", "memory")
    url, bookmark = f"{server.url}/v1/stream/s", tmp_path / "bookmark"
    json_type = {"content-type": "application/json"}
    with httpx2.Client(trust_env=False) as client:
        client.put(url, headers=json_type, content=b'[{"n":0},{"n":1}]')
        command = [sys.executable, str(EXAMPLES / "follow_stream.py"), server.url, "s", str(bookmark)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follow:
            assert follow.stdout is not None
            assert [json.loads(follow.stdout.readline()) for _ in range(2)] == [{"n": 0}, {"n": 1}]
            client.post(url, headers=json_type, json={"n": 2})
            assert json.loads(follow.stdout.readline()) == {"n": 2}
            end = client.head(url).headers["stream-next-offset"]
            eventually(lambda: bookmark.read_text() == end, unless=lambda: follow.poll() is not None)
            follow.kill()
        client.post(url, headers=json_type | {"stream-closed": "true"}, json={"n": 3})
    rest = run("follow_stream.py", server.url, "s", str(bookmark))
    assert (rest.stdout, rest.returncode) == ('{"n": 3}\n', 0), rest.stderr


def test_produce_lines_stores_each_line_once_or_reports_it(start_server):
    server = start_server("--store", "memory")
    url = f"{server.url}/v1/stream/numbers"
    lines = "".join(f"{number}\n" for number in range(20_000))
    done = run("produce_lines.py", server.url, "numbers", input=lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert httpx2.get(url, trust_env=False).text == lines
    httpx2.post(url, headers={"stream-closed": "true"}, trust_env=False)
    failed = run("produce_lines.py", server.url, "numbers", input=lines)
    assert failed.returncode == 1
    assert "stream_" in failed.stderr


def test_workers_that_are_killed_store_each_order_once(start_server, tmp_path):
    """Two workers share the work; each is killed again and again, and so is the server."""
    server = start_server("--port", str(free_port()))
    database = tmp_path / "orders.sqlite"

    def start():
        command = [sys.executable, str(EXAMPLES / "worker.py"), server.url, str(database)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def stored():
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            return connection.execute("SELECT stream, message FROM orders ORDER BY rowid").fetchall()

    workers = [start(), start()]
    subscription = f"{server.url}/v1/stream/__ds/subscriptions/store-orders"
    try:
        eventually(lambda: httpx2.get(subscription, trust_env=False).status_code == 200)
        for stream in ("orders/1", "orders/2"):
            httpx2.put(f"{server.url}/v1/stream/{stream}", headers=JSON, trust_env=False)
        sent = []
        for number in range(120):
            if number in (20, 50, 80):
                eventually(lambda least=number - 20: len(stored()) > least)
                victim = workers.pop(0)
                victim.kill()
                victim.communicate()
                workers.append(start())
            if number == 65:
                server.kill()
                server.start()
            stream = f"orders/{number % 2 + 1}"
            url = f"{server.url}/v1/stream/{stream}"
            httpx2.post(url, headers=JSON, json={"n": number}, trust_env=False).raise_for_status()
            sent.append((stream, json.dumps({"n": number})))
        eventually(lambda: len(stored()) >= len(sent), within_s=90)
        for process in workers:
            process.terminate()
            process.communicate(timeout=30)
            assert process.returncode == 0
    finally:
        for process in workers:
            process.kill()
            process.communicate()
    for stream in ("orders/1", "orders/2"):
        assert [row for row in stored() if row[0] == stream] == [row for row in sent if row[0] == stream]


def test_ctrl_c_ends_a_worker_without_a_traceback(start_server, tmp_path):
    server = start_server("--store", "memory")
    command = [sys.executable, str(EXAMPLES / "worker.py"), server.url, str(tmp_path / "orders.sqlite")]
    subscription = f"{server.url}/v1/stream/__ds/subscriptions/store-orders"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: httpx2.get(subscription, trust_env=False).status_code == 200)
        httpx2.put(f"{server.url}/v1/stream/orders/1", headers=JSON, content=b'[{"n":1}]', trust_env=False)
        assert process.stdout is not None
        assert process.stdout.readline() == "orders/1: 1 orders\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_two_minutes_resumes_where_it_stopped(start_server, tmp_path):
    server = start_server()
    for large in (50, 100):
        command = [sys.executable, str(EXAMPLES / "spark_two_minutes.py"), server.url, str(tmp_path / "work")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        assert f"large orders: {large}" in done.stdout, done.stderr
    assert "in the first append: 600" in done.stdout


def test_sync_client_prints_the_events_of_both_runs(start_server):
    server = start_server("--store", "memory")
    url = f"{server.url.replace('http', 'ws', 1)}/v1/sync"
    first, second = run("sync_client.py", url, "shopping"), run("sync_client.py", url, "shopping")
    assert first.returncode == 0, first.stderr
    added = ['{"buy": "milk"}', '{"buy": "bread"}', '{"buy": "tea"}']
    assert [line.partition(" ")[2] for line in first.stdout.splitlines()] == added
    assert second.stdout.startswith(first.stdout)
    assert [line.partition(" ")[2] for line in second.stdout.splitlines()] == added * 2
    assert run("sync_client.py", url, "").returncode == 1


def test_offline_notes_are_kept_without_a_server_and_committed_with_one(start_server, tmp_path):
    path = str(tmp_path / "notes.db")
    offline = run("offline_notes.py", "ws://127.0.0.1:9/v1/sync", path, "one")
    assert (offline.returncode, offline.stdout) == (0, "* one\n")
    assert "waiting to be sent: 1" in offline.stderr
    online = run("offline_notes.py", start_server("--store", "memory").url, path, "two")
    assert (online.returncode, online.stdout, online.stderr) == (0, "  one\n  two\n", "")
