"""A disk that fails on demand: it can be full, fail to sync, delay a sync, or lose power.

It is between a store and the real disk: for SQLite as a VFS with its own name, for the journal as the files that it
opens.

    with FaultyDisk() as disk:
        store = SqliteStore(directory, disk)
        ...
        disk.fill_up()
        ...
        disk.heal()

It does not affect shared memory (the index of SQLite's write-ahead log), and need not: SQLite rebuilds that from the
write-ahead log.
"""

import asyncio
import errno
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import apsw

from mainstem.log.store.sqlite.checksums import use_checksums
from mainstem.log.store.sqlite.direct import DirectFile, DirectWriter
from mainstem.log.store.sqlite.journal import Disk, JournalFile

_numbers = itertools.count(1)

SECTOR_BYTES = 512  # no disk tears a write within a sector
TEARS = ("all", "none", "beginning", "beginning", "some", "all but one", "all but one")
"""What is left of a write that was not synced. An almost complete one is the hardest to recognise."""
HELD_S_MAX = 30.0  # a test that forgets to release a sync should fail, not hang


class Image:
    """One file as it would be after a power failure: what was synced, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced = bytearray(path.read_bytes() if path.exists() else b"")
        self._pending: list[tuple[int, bytes | None]] = []  # writes at an offset; None truncates the file there

    def write(self, offset: int, size: int) -> None:
        """Note what was written to the file. It is read there, because SQLite adds checksums below this disk."""
        with self.path.open("rb") as file:
            file.seek(offset)
            self._pending.append((offset, file.read(size)))

    def truncate(self, size: int) -> None:
        self._pending.append((size, None))

    def sync(self) -> None:
        for offset, data in self._pending:
            _change(self.synced, offset, data)
        self._pending.clear()

    def survive(self, random: Random) -> bytes:
        """Return the file as a power failure may leave it: what was synced, and any part of what was written since."""
        content = bytearray(self.synced)
        self._write_some(content, random)
        return bytes(content)

    def fail_sync(self, random: Random) -> None:
        """Forget what was written since the last sync, except for any part of it: a later sync does not try again."""
        self._write_some(self.synced, random)
        self._pending.clear()

    def _write_some(self, content: bytearray, random: Random) -> None:
        for offset, data in self._pending:
            sectors: list[tuple[int, bytes | None]] = [(offset, None)] if data is None else [*_split(offset, data)]
            match random.choice(TEARS):
                case "none":
                    sectors = []
                case "beginning":
                    del sectors[random.randrange(len(sectors) + 1) :]
                case "all but one":
                    del sectors[random.randrange(len(sectors))]
                case "some":
                    sectors = [sector for sector in sectors if random.random() < 0.5]
            for sector in sectors:
                _change(content, *sector)


def _split(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a write that are in different sectors."""
    at = 0
    while at < len(data):
        end = at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES
        yield offset + at, data[at:end]
        at = end


def _change(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    else:
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data


class FaultyDisk(apsw.VFS, Disk):
    """A failing disk. Open a database with its `name` as `vfs`; switch faults on and off at any time, on any thread."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or f"faulty-disk-{os.getpid()}-{next(_numbers)}"
        self.syncs = 0
        """How many syncs were requested, including those that failed."""
        self.writes = 0
        self._changing = threading.Lock()
        self._writes_left: int | None = None
        self._syncs_left: int | None = None
        self._hold: threading.Event | None = None
        self._held = threading.Event()
        self.images: dict[str, Image] = {}
        self.vfs = self.name
        use_checksums()
        super().__init__(self.name, base="")

    def open_journal(self, path: Path) -> "FaultyJournalFile":
        return FaultyJournalFile(self, path)

    def open_direct_writer(self) -> DirectWriter:
        return _DirectWriter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self.unregister()

    # Faults

    def fill_up(self, *, after_writes: int = 0) -> None:
        """Fail writes from now on as on a full disk, after `after_writes` that still succeed: a torn write."""
        self._writes_left = after_writes

    def fail_syncs(self, *, after_syncs: int = 0) -> None:
        """Fail syncs from now on, after `after_syncs` that still succeed."""
        self._syncs_left = after_syncs

    def hold_syncs(self) -> None:
        """Make syncs wait until `heal` is called. `wait_for_sync` returns once one is waiting."""
        self._held.clear()
        self._hold = threading.Event()

    def wait_for_sync(self) -> None:
        """Return once a sync is waiting."""
        if not self._held.wait(HELD_S_MAX):
            raise TimeoutError(f"no sync was requested within {HELD_S_MAX:g} s")

    def heal(self) -> None:
        """Remove all faults, and let waiting syncs continue."""
        self._writes_left = None
        self._syncs_left = None
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.set()

    def lose_power(self, into: Path) -> None:
        """Write the files into another directory as they would be found if the power failed now."""
        into.mkdir(parents=True, exist_ok=True)
        with self._changing:
            for path, image in self.images.items():
                (into / Path(path).name).write_bytes(image.synced)

    # Called by SQLite

    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> "_File":
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        with self._changing:
            self.images.pop(filename, None)

    def excepthook(
        self, etype: type[BaseException] | None, evalue: BaseException | None, etraceback: TracebackType | None
    ) -> bool:
        return True  # SQLite retries some failed calls, so these errors are expected and not reported

    def image(self, path: str) -> Image:
        with self._changing:
            if path not in self.images:
                self.images[path] = Image(Path(path))
            return self.images[path]

    def write(self, image: Image | None, size: int, offset: int, do: Callable[[], None], full: Exception) -> None:
        """Write, or raise `full` if the disk is full."""
        with self._changing:
            self.writes += 1
            if self._writes_left is not None:
                if self._writes_left == 0:
                    raise full
                self._writes_left -= 1
            do()
            if image is not None:
                image.write(offset, size)

    def truncate(self, image: Image | None, size: int, do: Callable[[], None]) -> None:
        with self._changing:
            do()
            if image is not None:
                image.truncate(size)

    def sync(self, image: Image | None, do: Callable[[], None], failure: Exception) -> None:
        """Sync, or raise `failure` if syncs fail."""
        hold = self._hold
        if hold is not None:
            self._held.set()
            if not hold.wait(HELD_S_MAX):
                raise TimeoutError(f"a sync waited for more than {HELD_S_MAX:g} s; call heal() to release it")
        with self._changing:
            self.syncs += 1
            if self._syncs_left is not None:
                if self._syncs_left == 0:
                    raise failure
                self._syncs_left -= 1
            do()
            if image is not None:
                image.sync()


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: "str | apsw.URIFilename | None", flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._image = None if path is None else disk.image(path)

    def xWrite(self, data: bytes, offset: int) -> None:
        full = _error(apsw.SQLITE_FULL, "the disk is full")
        self._disk.write(self._image, len(data), offset, lambda: super(_File, self).xWrite(data, offset), full)

    def xTruncate(self, newsize: int) -> None:
        self._disk.truncate(self._image, newsize, lambda: super(_File, self).xTruncate(newsize))

    def xSync(self, flags: int) -> None:
        failure = _error(apsw.SQLITE_IOERR_FSYNC, "the disk could not sync")
        self._disk.sync(self._image, lambda: super(_File, self).xSync(flags), failure)


class FaultyJournalFile(JournalFile):
    def __init__(self, disk: FaultyDisk, path: Path) -> None:
        super().__init__(path)
        self._disk = disk
        self._image = disk.image(str(path))

    def write(self, pieces: list[bytes], offset: int) -> None:
        self.write_pieces(pieces, offset)
        self.sync()

    def write_pieces(self, pieces: Sequence[bytes], offset: int) -> None:
        """Write each piece on its own, so that the disk can be full after the first."""
        full = OSError(errno.ENOSPC, "No space left on device")
        for piece in pieces:
            self._disk.write(self._image, len(piece), offset, partial(super().write, [piece], offset), full)
            offset += len(piece)

    def sync(self) -> None:
        self._disk.sync(self._image, lambda: None, OSError(errno.EIO, "Input/output error"))

    def cut(self, size: int) -> None:
        self._disk.truncate(self._image, size, lambda: super(FaultyJournalFile, self).cut(size))
        self.sync()


class _DirectWriter(DirectWriter):
    """Gives writes to the failing disk, on a thread."""

    blocks = False

    def __init__(self) -> None:
        pass

    def write(self, file: DirectFile, pieces: Sequence[bytes], offset: int) -> "asyncio.Future[None]":
        assert isinstance(file, FaultyJournalFile)
        return asyncio.get_running_loop().run_in_executor(None, file.write, list(pieces), offset)

    def close(self) -> None:
        pass


def _error(code: int, text: str) -> Exception:
    error = apsw.exception_for(code)
    error.args = (text,)
    return error
