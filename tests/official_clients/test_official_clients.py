"""The official clients for Go, Rust and Java, unchanged, against a real server.

They are in no package registry: the crate of that name is a server, Maven Central has no such group, and not every
proxy serves the Go module. So pytest collects these tests only if DURABLE_STREAMS_SOURCE names a checkout:

    git clone https://github.com/durable-streams/durable-streams
    git -C durable-streams checkout 82f9963ae0b489566352393be9b4796c788c99c2
    DURABLE_STREAMS_SOURCE=$PWD/durable-streams make test ARGS=tests/official_clients

The first Go and Rust builds take one or two minutes each.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.requirements import find_program, miss

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[2] / ".cache"
PACKAGES = ("packages/client-go", "packages/client-rust", "packages/client-java")
BUILD_S_MAX = 400
RUN_S_MAX = 60

SEEN = {
    "text": "grüße zwei",
    "missing": True,
    "conflict": True,
    "fenced": True,
    "produced": list(range(201)),
    "sse": ["before", "during", "after"],
    "refused-sse": True,
    "long-poll": ["before", "during", "after"],
    "refused-long-poll": True,
}


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder of the official clients."""
    source = Path(os.environ["DURABLE_STREAMS_SOURCE"])
    missing = [name for name in PACKAGES if not (source / name).is_dir()]
    assert not missing, f"{source} is no checkout of durable-streams: it has no {missing[0]}"
    return source / "packages"


def build(command: list[str], folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    unreachable = ("Could not resolve host", "failed to download", "dial tcp", "spurious network error")
    if done.returncode and any(words in done.stderr for words in unreachable):
        miss(f"the packages that {command[0]} downloads", "its registry must be reachable")
    assert done.returncode == 0, done.stderr


def place(package: Path, program: Path, inside: str) -> tuple[Path, Path]:
    """Copy a client, add our program, and return the copy and the build folder."""
    built = CACHE / "clients" / program.parent.name
    copy = built / "source"
    shutil.copytree(package, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target", "build", "cmd"))
    (copy / inside).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, copy / inside)
    return copy, built


def make_go(packages: Path) -> list[str]:
    find_program("go", "apt install golang")
    source, built = place(packages / "client-go", HERE / "go" / "official_client.go", "cmd/official/main.go")
    build(["go", "build", "-o", str(built / "official"), "./cmd/official"], source, GOTOOLCHAIN="local", GOWORK="off")
    return [str(built / "official")]


def make_rust(packages: Path) -> list[str]:
    find_program("cargo", "apt install cargo")
    source, built = place(packages / "client-rust", HERE / "rust" / "official_client.rs", "examples/official.rs")
    command = ["cargo", "build", "--quiet", "--locked", "--example", "official"]
    build(command, source, CARGO_TARGET_DIR=str(built / "target"))
    return [str(built / "target" / "debug" / "examples" / "official")]


def make_java(packages: Path) -> list[str]:
    find_program("javac", "apt install openjdk-17-jdk-headless")
    source, built = place(packages / "client-java", HERE / "java" / "OfficialClient.java", "src/OfficialClient.java")
    files = sorted(str(file) for file in (source / "src" / "main").rglob("*.java"))
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-d", str(built / "classes")]
    build([*command, *files, "src/OfficialClient.java"], source)
    return ["java", "-cp", str(built / "classes"), "OfficialClient"]


@pytest.mark.slow
@pytest.mark.timeout(BUILD_S_MAX + RUN_S_MAX)
@pytest.mark.parametrize("make", [make_go, make_rust, make_java], ids=["go", "rust", "java"])
def test_the_official_client_works_unchanged(start_server, packages, make):
    command = make(packages)
    server = start_server()
    environment = os.environ | {"MAINSTEM_URL": server.url}
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", timeout=RUN_S_MAX, check=False
    )
    assert done.returncode == 0, done.stderr + server.stderr
    expected = dict(SEEN)
    if make is make_java:
        del expected["conflict"]  # its appends send no Stream-Seq
    assert json.loads(done.stdout) == expected
    assert "Traceback" not in server.stderr
