"""The disk of a simulation: a failing disk that takes virtual time and can lose power at any write.

Its files are real ones in a temporary directory, because SQLite's checksum VFS needs them. What a power failure leaves
of them is computed from their images.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import apsw

from mainstem.log.store.sqlite.direct import DirectFile, DirectWriter, whole_blocks
from mainstem.log.store.sqlite.writer import WriterThread
from mainstem.testing.disk import FaultyDisk, FaultyJournalFile, Image
from mainstem.testing.simulation.loop import Crash, VirtualLoop, run_job

T = TypeVar("T")

Files = Mapping[str, bytes]
"""The content of a disk: files by name."""
UNKEPT = ("lock", "reserve", "-shm")
"""How the names of files end that hold nothing that must survive."""


class PowerFailure(NamedTuple):
    """The power fails during an operation: the one with this number, among those that the other fields describe."""

    number: int
    name: str = ""
    """How the names of the files begin."""
    bytes_min: int = 0
    """The size of the smallest writes. If it is 0, truncations and syncs count as well."""

    def describes(self, image: Image, size: int) -> bool:
        return image.path.name.startswith(self.name) and size >= self.bytes_min


class SimulatedDisk(FaultyDisk):
    """The disk of one life. `files` is what an earlier life has left."""

    def __init__(self, loop: VirtualLoop, directory: Path, files: Files) -> None:
        super().__init__()
        self.directory = directory
        self.operations = 0
        """How many writes, truncations and syncs there were."""
        self.power_failure: PowerFailure | None = None
        self.has_power = True
        self.slowness = 1.0
        """By how much everything takes longer."""
        self.bytes_left: int | None = None
        """By how much files may grow; None if there is enough space. Writes that replace data need none."""
        self._loop = loop
        self._files = files
        self._described = 0
        """How many operations there were of those that `power_failure` describes."""
        self._journals: list[FaultyJournalFile] = []
        for name, data in files.items():
            (directory / name).write_bytes(data)

    def draw_delay_s(self) -> float:
        return self.slowness * self._loop.draw_delay_s()

    def fail_power(self, random: Random) -> Files:
        """End this disk, and return what is left on it."""
        self.has_power = False
        for journal in self._journals:
            journal.close()
        left: dict[str, bytes] = {}
        for path in sorted(self.directory.iterdir()):
            if not path.name.endswith(UNKEPT):
                image = self.images.get(str(path))
                left[path.name] = self._files[path.name] if image is None else image.survive(random)
        return left

    def _count(self, image: Image | None, size: int = 0) -> bool:
        """Count an operation, and return whether the power fails during it."""
        if not self.has_power:
            raise apsw.IOError("the power has failed")
        self.operations += 1
        if image is not None and self.power_failure is not None and self.power_failure.describes(image, size):
            self._described += 1
            self.has_power = self._described < self.power_failure.number
        return not self.has_power

    def write(self, image: Image | None, size: int, offset: int, do: Callable[[], None], full: Exception) -> None:
        fails = self._count(image, size)
        if self.bytes_left is not None and image is not None:
            growth = max(0, offset + size - image.path.stat().st_size)
            if growth > self.bytes_left:
                raise full
            self.bytes_left -= growth
        super().write(image, size, offset, do, full)
        if fails:
            raise apsw.IOError("the power has failed")

    def truncate(self, image: Image | None, size: int, do: Callable[[], None]) -> None:
        fails = self._count(image)
        if self.bytes_left is not None and image is not None:
            self.bytes_left += max(0, image.path.stat().st_size - size)
        super().truncate(image, size, do)
        if fails:
            raise apsw.IOError("the power has failed")

    def sync(self, image: Image | None, do: Callable[[], None], failure: Exception) -> None:
        if self._count(image):
            raise apsw.IOError("the power has failed")
        try:
            super().sync(image, do, failure)
        except Exception:
            if image is not None:
                image.fail_sync(self._loop.random)
            raise

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if not self.has_power:
            raise apsw.IOError("the power has failed")
        super().xDelete(filename, syncdir)

    # How work is run

    def run(self, outcome: "asyncio.Future[Any]", job: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Run a job that may write."""
        run_job(outcome, job, args)
        if not self.has_power:
            raise Crash

    def open_journal(self, path: Path) -> "SimulatedJournalFile":
        file = SimulatedJournalFile(self, path)
        self._journals.append(file)
        return file

    def open_direct_writer(self) -> "SimulatedDirectWriter":
        return SimulatedDirectWriter(self, self._loop)

    def make_writer(self, name: str) -> "SimulatedWriter":
        return SimulatedWriter(self, self._loop)


class SimulatedJournalFile(FaultyJournalFile):
    def __init__(self, disk: FaultyDisk, path: Path) -> None:
        super().__init__(disk, path)
        self._is_open = True
        if self.direct is None:  # any file system will do
            self.direct = os.dup(self._file)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            super().close()


class SimulatedDirectWriter(DirectWriter):
    """Writes whole blocks after a while, and syncs them after another while."""

    blocks = False

    def __init__(self, disk: SimulatedDisk, loop: VirtualLoop) -> None:
        self._disk = disk
        self._loop = loop

    def write(self, file: DirectFile, pieces: Sequence[bytes], offset: int) -> "asyncio.Future[None]":
        assert isinstance(file, SimulatedJournalFile)
        data = b"".join(pieces)
        blocks = data.ljust(whole_blocks(len(data)), b"\0")
        outcome: asyncio.Future[None] = self._loop.create_future()
        self._loop.call_later(self._disk.draw_delay_s(), self._write, outcome, file, blocks, offset)
        return outcome

    def _write(self, outcome: "asyncio.Future[None]", file: SimulatedJournalFile, blocks: bytes, offset: int) -> None:
        written: asyncio.Future[None] = self._loop.create_future()
        self._disk.run(written, file.write_pieces, ([blocks], offset))
        if (error := written.exception()) is not None:
            outcome.set_exception(error)
        else:
            self._loop.call_later(self._disk.draw_delay_s(), self._disk.run, outcome, file.sync, ())

    def close(self) -> None:
        pass


class SimulatedWriter(WriterThread):
    """Runs jobs one after the other on the loop, and returns their outcomes later."""

    def __init__(self, disk: SimulatedDisk, loop: VirtualLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()

    def start(self) -> None:
        pass

    def stop(self) -> None:
        while self._waiting:
            self._disk.run(*self._waiting.popleft())

    def run(self, job: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        outcome: asyncio.Future[T] = self._loop.create_future()
        self._add(outcome, job, args)
        return outcome

    def post(self, job: Callable[..., None], *args: Any) -> None:
        ignored: asyncio.Future[None] = self._loop.create_future()
        ignored.add_done_callback(asyncio.Future.exception)
        self._add(ignored, job, args)

    def _add(self, outcome: "asyncio.Future[Any]", job: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._waiting.append((outcome, job, args))
        if len(self._waiting) == 1:
            self._loop.call_later(self._disk.draw_delay_s(), self._run_next)

    def _run_next(self) -> None:
        if not self._waiting:
            return  # `stop` has run them
        outcome, job, args = self._waiting[0]
        done: asyncio.Future[Any] = self._loop.create_future()
        self._disk.run(done, job, args)
        self._waiting.popleft()
        self._loop.call_later(self._loop.draw_delay_s(), _pass_on, done, outcome)
        if self._waiting:
            self._loop.call_later(self._disk.draw_delay_s(), self._run_next)


def _pass_on(done: "asyncio.Future[Any]", outcome: "asyncio.Future[Any]") -> None:
    error = done.exception()
    if outcome.done():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())
