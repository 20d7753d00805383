"""The JavaScript client in Node.js: the shared vectors, a store in a file across kills, and what the server serves."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainstem import __version__, limits
from mainstem.testing.server import ServerProcess
from tests.js_client.conftest import ROOT
from tests.support.node_packages import assert_pinned, find_node, install

JS = ROOT / "js"
BUILT = ROOT / "src" / "mainstem" / "browser_client"
SUBMIT = Path(__file__).parent / "submit_numbers.mjs"
RUN_S_MAX = 60

# Names in js/src/limits.js, and in mainstem/limits.py where they are not OFFLINE_<name>.
SAME_LIMITS = {
    "PAGE_MIN": "SYNC_PAGE_MIN",
    "SUBMIT_BYTES_MAX": "SYNC_MESSAGE_BYTES_MAX",
    "BATCH_ITEMS_MAX": "SYNC_BATCH_ITEMS_MAX",
    "IN_FLIGHT_MAX": "SYNC_DRAFTS_MAX",
    "PARTITION_NAME_BYTES_MAX": "PARTITION_NAME_BYTES_MAX",
    "EVENT_PARTITIONS_MAX": "EVENT_PARTITIONS_MAX",
    "FILTER_PARTITIONS_MAX": "FILTER_PARTITIONS_MAX",
    "EVENT_ID_BYTES_MAX": "EVENT_ID_BYTES_MAX",
    "CLIENT_ID_BYTES_MAX": "CLIENT_ID_BYTES_MAX",
    "JSON_DEPTH_MAX": "JSON_DEPTH_MAX",
}
ONLY_IN_JAVASCRIPT = {"INBOX_CHARACTERS_MAX", "PROBE_S_MAX"}


def node_command() -> list[str]:
    # Node.js 20 has a WebSocket only with this flag; later versions accept it.
    return [*find_node()[0], "--experimental-websocket"]


def run_node(*arguments: str, folder: Path = JS) -> "subprocess.CompletedProcess[str]":
    command = [*node_command(), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


def test_the_vectors_hold():
    done = run_node("--test", "test/")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "# fail 0" in done.stdout
    passed = int(done.stdout.rpartition("# pass ")[2].split()[0])
    assert passed > 400


def test_the_limits_are_those_of_the_python_client():
    program = "import * as limits from './src/limits.js'; console.log(JSON.stringify(limits))"
    found = json.loads(run_node("--input-type=module", "--eval", program).stdout)
    assert len(found) > 30
    for name, value in found.items():
        if name not in ONLY_IN_JAVASCRIPT:
            assert value == getattr(limits, SAME_LIMITS.get(name, f"OFFLINE_{name}")), name


def test_the_package_has_the_version_of_the_server():
    package = json.loads((JS / "package.json").read_text())
    assert package["version"] == __version__
    assert "dependencies" not in package
    assert_pinned(JS)


@pytest.mark.timeout(360)
def test_the_server_serves_what_the_source_builds(tmp_path):
    """If this fails, run `npm run build` in js/."""
    install(JS)
    done = run_node("build.js", str(tmp_path))
    assert done.returncode == 0, done.stderr
    built = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert built == {file.name: file.read_text() for file in BUILT.glob("*.js")}
    assert set(built) == {"mainstem.js", "memory.js"}


# The store in a file


@contextmanager
def submitting(server: ServerProcess, store: Path, first: int, count: int) -> Iterator["subprocess.Popen[str]"]:
    command = [*node_command(), str(SUBMIT), server.url, str(store), str(first), str(count)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_line(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
    return line


def read_numbers(server: ServerProcess) -> list[int]:
    numbers: list[int] = []
    offset = "-1"
    with httpx2.Client() as http:
        while True:
            reply = http.get(f"{server.url}/v1/partition/numbers", params={"offset": offset})
            numbers += [event["event"]["number"] for event in reply.json()]
            offset = reply.headers["stream-next-offset"]
            if "stream-up-to-date" in reply.headers:
                return numbers


def test_a_killed_process_loses_nothing_and_sends_nothing_twice(tmp_path):
    store = tmp_path / "store"
    with ServerProcess(tmp_path / "data") as server:
        for round_ in range(3):
            with submitting(server, store, 500 * round_, 500) as process:
                while "drafted" not in (line := read_line(process)):
                    assert "code" not in line, line
                while "committedId" not in read_line(process):  # killed in the middle of sending
                    pass
                process.kill()
        with submitting(server, store, 1500, 1) as process:
            lines = []
            while "sum" not in (line := read_line(process)):
                assert "code" not in line, line
                lines.append(line)
            assert process.wait(RUN_S_MAX) == 0
        assert lines[0]["waiting"] > 0
        assert read_numbers(server) == list(range(1501))
        assert line == {"sum": sum(range(1501)), "cursor": line["cursor"]}


def test_a_store_in_a_file_has_one_client_at_a_time(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        server.kill()  # so that the first one waits
        with submitting(server, tmp_path / "store", 0, 1) as first:
            while "drafted" not in read_line(first):
                pass
            with submitting(server, tmp_path / "store", 1, 1) as second:
                refused = read_line(second)
                assert refused["code"] == "client_store_in_use"
                assert str(first.pid) in refused["message"]


def test_half_a_line_at_the_end_of_a_store_is_ignored_and_damage_is_an_error(tmp_path):
    store = tmp_path / "store"
    with ServerProcess(tmp_path / "data") as server:
        with submitting(server, store, 0, 10) as process:
            assert process.wait(RUN_S_MAX) == 0
        with store.open("a") as file:
            file.write('[["drafts",{"clock"')
        with submitting(server, store, 10, 1) as process:
            assert process.wait(RUN_S_MAX) == 0
        assert read_numbers(server) == list(range(11))
        store.write_text("not a store\n")
        with submitting(server, store, 11, 1) as process:
            assert read_line(process)["code"] == "client_store_wrong"
        assert store.read_text() == "not a store\n"
