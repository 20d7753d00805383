"""A server under attack, observed from the outside: its memory, and how long others wait."""

import statistics
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from mainstem.testing.server import ServerProcess
from tests.support.plain_http import connect, head, receive

MB = 1 << 20


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


class Watch:
    """Requests /healthz continuously, and records how long each answer took and how large the server grew."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.waits_ms: list[float] = []
        self.before_bytes = resident_bytes(server.pid)
        self.most_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with connect(self._server.address) as connection:
            while not self._ended.is_set() or len(self.waits_ms) < 5:
                began = time.perf_counter()
                connection.sendall(head(b"GET", b"/healthz"))
                assert receive(connection).status == 200
                self.waits_ms.append((time.perf_counter() - began) * 1000)
                self.most_bytes = max(self.most_bytes, resident_bytes(self._server.pid))
                self._ended.wait(0.002)

    @property
    def grown_bytes(self) -> int:
        return self.most_bytes - self.before_bytes

    @property
    def usual_wait_ms(self) -> float:
        """The median: the delay that the attack causes for everybody, not the one-off delays of a busy machine."""
        return statistics.median(self.waits_ms)
