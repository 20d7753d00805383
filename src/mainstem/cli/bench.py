"""`mainstem bench`: put a small, bounded load on a server."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainstem import limits
from mainstem.cli import options, output, progress
from mainstem.cli.addresses import Address
from mainstem.cli.clients import connect
from mainstem.cli.failures import Failure

if TYPE_CHECKING:
    from mainstem.client import Streams

TTL_S = 3_600  # the server deletes the streams of a bench that was killed
F = TypeVar("F", bound=Callable[..., Any])


def bounded(name: str, kind: click.ParamType[Any], default: float, help_: str) -> Callable[[F], F]:
    return click.option(*name.split(), type=kind, default=default, show_default=True, help=help_)


@click.command()
@bounded("-n --appends", click.IntRange(1, limits.BENCH_APPENDS_MAX), 2_000, "Maximum number of appends.")
@bounded("--seconds", click.FloatRange(0.1, limits.BENCH_S_MAX), 10.0, "Maximum time for appending.")
@bounded("--size", click.IntRange(1, limits.MIB), 100, "Bytes per append.")
@bounded("--streams", click.IntRange(1, limits.BENCH_STREAMS_MAX), 8, "Number of streams.")
@bounded(
    "--connections",
    click.IntRange(1, limits.BENCH_CONNECTIONS_MAX),
    8,
    "Number of connections, each with one append at a time.",
)
@options.server
def bench(
    appends: int, seconds: float, size: int, streams: int, connections: int, address: Address, as_json: bool
) -> None:
    """Append to new streams, read them back, delete them, and report how long it took.

    This is a quick check of a server, not a benchmark: this program itself is soon the limit.
    """
    name = uuid.uuid4().hex[:12]
    paths = [f"bench/{name}/{number}" for number in range(streams)]
    with connect(address) as client:
        client.create(paths[0], ttl_s=TTL_S)  # fails early if the server cannot be used
        try:
            for path in paths[1:]:
                client.create(path, ttl_s=TTL_S)
            with progress.bar("Appending", bytes_=False, shown=progress.is_visible(as_json)) as advance:
                load = Load(address, paths, size, appends, seconds)
                load.run(connections, advance)
            facts = {**load.describe(), **read_back(client, paths, load.done * size)}
        finally:
            for path in paths:
                client.delete(path)
    output.write_facts(facts, as_json)


class Load:
    """Appends from several threads, until enough are done, the time is up, or one fails."""

    def __init__(self, address: Address, paths: list[str], size: int, appends: int, seconds: float) -> None:
        self._address = address
        self._paths = paths
        self._data = b"x" * (size - 1) + b"\n"
        self._appends = appends
        self._seconds = seconds
        self._taken = 0
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._took_s = 0.0
        self.latencies_s: list[float] = []

    @property
    def done(self) -> int:
        return len(self.latencies_s)

    def run(self, connections: int, advance: Callable[[int, int | None], None]) -> None:
        began_s = time.perf_counter()
        with ThreadPoolExecutor(connections) as pool:
            workers = {pool.submit(self._work, began_s + self._seconds) for _ in range(connections)}
            try:
                waiting = workers
                while waiting:
                    _, waiting = wait(waiting, timeout=0.1)
                    advance(self.done, self._appends)
            finally:
                self._stop.set()
        self._took_s = time.perf_counter() - began_s
        for worker in workers:
            worker.result()

    def _work(self, deadline_s: float) -> None:
        try:
            with connect(self._address) as client:
                while (number := self._take()) is not None and time.perf_counter() < deadline_s:
                    self._append(client, self._paths[number % len(self._paths)])
        except BaseException:
            self._stop.set()
            raise

    def _take(self) -> int | None:
        with self._changing:
            if self._taken == self._appends or self._stop.is_set():
                return None
            self._taken += 1
            return self._taken

    def _append(self, client: "Streams", path: str) -> None:
        began_s = time.perf_counter()
        client.append(path, self._data, content_type="application/octet-stream")
        self.latencies_s.append(time.perf_counter() - began_s)

    def describe(self) -> dict[str, Any]:
        ordered = sorted(self.latencies_s)
        if not ordered:
            raise Failure("the server answered no append in time: allow more --seconds")

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000

        return {
            "appends": self.done,
            "append_seconds": self._took_s,
            "appends_per_second": self.done / self._took_s,
            "append_ms_median": at(0.5),
            "append_ms_p95": at(0.95),
            "append_ms_p99": at(0.99),
            "append_ms_max": ordered[-1] * 1000,
        }


def read_back(client: "Streams", paths: list[str], expected: int) -> dict[str, Any]:
    began_s = time.perf_counter()
    found = sum(len(batch.data) for path in paths for batch in client.read(path))
    took_s = time.perf_counter() - began_s
    if found != expected:
        raise Failure(f"appended {expected:,} bytes but read {found:,} back: please report this bug")
    return {"bytes_read": found, "read_seconds": took_s, "read_bytes_per_second": found / took_s}
