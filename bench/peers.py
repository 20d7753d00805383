"""The servers under test: how to start each on an empty data folder, and how to stop it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from bench import electric, node
from bench.disk import drop_cached_pages
from bench.wire import HOST, build_request

OURS = "mainstem"
ELECTRIC = "electric"
HERE = Path(__file__).parent
# On the disk of the checkout: /tmp may be memory, where a durable write costs nothing.
CACHE = HERE / ".cache"
START_S_MAX = 120.0
STOP_S_MAX = 20.0
LOG_LINES_SHOWN = 15


class PeerFailed(Exception):
    """A server did not start, or ended during a measurement."""


@dataclass(frozen=True)
class Peer:
    """A server under test.

    `shown` is its command as the report prints it, without the paths of this machine. `faults` names the scenarios that
    the server cannot complete, with the reason; the benchmark skips them and says so.
    """

    name: str
    version: str
    shown: str
    make_command: Callable[[int, Path], list[str]]
    faults: Mapping[str, str] = field(default_factory=dict)


NODE_FAULTS = {"append-c64-s1000": "it pools 100 file handles, and answers 404 when one is evicted before its fsync"}


def find_mainstem() -> Peer:
    program = Path(sys.executable).parent / "mainstem"
    if not program.exists():
        raise PeerFailed(f"{program} does not exist; install Mainstem into the Python that runs the benchmark")

    def make_command(port: int, data: Path) -> list[str]:
        return [str(program), "serve", "--port", str(port), "--data", str(data), "--store", "sqlite"]

    version = f"mainstem {metadata.version('mainstem')} on Python {sys.version.split()[0]}"
    return Peer(OURS, version, "mainstem serve --port PORT --data DIR --store sqlite", make_command)


def find_electric_peer() -> Peer:
    folder = CACHE / "electric"
    program = electric.find_electric(folder)

    def make_command(port: int, data: Path) -> list[str]:
        return [program, "--port", str(port), "--data-dir", str(data)]

    shown = f"{electric.PROGRAM} --port PORT --data-dir DIR"
    return Peer(ELECTRIC, electric.read_version(folder), shown, make_command)


def find_node_peer() -> Peer:
    program = node.find_node()
    package = node.install_package(program, CACHE / "node")

    def make_command(port: int, data: Path) -> list[str]:
        return [program, str(HERE / "node_peer.mjs"), str(package), str(port), str(data)]

    version = node.read_version(program, package)
    return Peer("node", version, "node node_peer.mjs PACKAGE PORT DIR", make_command, NODE_FAULTS)


@dataclass
class Server:
    """A peer with its data folder. It can be stopped, and started again on the same data."""

    peer: Peer
    folder: Path
    port: int = 0
    start_s: float = 0.0
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> None:
        self.port = find_free_port()
        command = self.peer.make_command(self.port, self.data)
        started = time.perf_counter()
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not self._answers():
            if self.process.poll() is not None:
                raise PeerFailed(f"{self.peer.name} ended while it was starting\n{self.read_log()}")
            if time.perf_counter() - started > START_S_MAX:
                self.stop()
                raise PeerFailed(f"{self.peer.name} did not answer within {START_S_MAX} s\n{self.read_log()}")
            time.sleep(0.005)
        self.start_s = time.perf_counter() - started

    def _answers(self) -> bool:
        """Return whether the server answers a request; an open port alone does not mean that it is ready."""
        try:
            with socket.create_connection((HOST, self.port), timeout=START_S_MAX) as connection:
                connection.sendall(build_request("HEAD", "nothing"))
                return connection.recv(16).startswith(b"HTTP/1.1 ")
        except OSError:
            return False

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def restart(self) -> None:
        self.stop()
        os.sync()
        self.start()

    def restart_cold(self) -> None:
        """Restart without the data in the page cache. The disk of a virtual machine may still be cached by its host."""
        self.restart()
        # After the start, because a server may read its data while it starts.
        os.sync()
        drop_cached_pages(self.data)

    def read_log(self) -> str:
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN:])


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serve(peer: Peer, copied: Path | None = None) -> Iterator[Server]:
    """Run a peer on an empty data folder, or on a copy of one, and remove the folder afterwards."""
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{peer.name}-", dir=CACHE))
    try:
        if copied is not None:
            shutil.copytree(copied, folder / "data")
        # Write dirty pages of the previous server now, so that they do not slow down this one.
        os.sync()
        server = Server(peer, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
