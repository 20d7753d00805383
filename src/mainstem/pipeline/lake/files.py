"""What the files of all formats share: the interface of a writer, and its report."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that a task has written."""

    path: str
    """The path relative to the directory or table."""
    size: int
    rows: int
    first: int
    """The lowest committed id in it."""
    last: int
    since_us: int
    """The earliest commit time in it."""
    until_us: int
    partition: dict[str, str] = {}


class FileWriter(Protocol):
    """Writes one file."""

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        """Write rows in the schema of the file. Their ids and times come separately, since the schema may lack them."""

    def close(self) -> WrittenFile:
        """Flush everything to disk, and describe the file."""


class FileStats:
    """Counts the rows of a file, and keeps the lowest and highest of their ids and times."""

    def __init__(self) -> None:
        self.rows = 0
        self._ids: tuple[int, int] | None = None
        self._times: tuple[int, int] | None = None

    def add(self, ids: pa.Array, times: pa.Array) -> None:
        self.rows += len(ids)
        self._ids = _widen(self._ids, ids)
        self._times = _widen(self._times, times.cast(pa.int64()))

    def describe(self, path: str, size: int, partition: dict[str, str] | None = None) -> WrittenFile:
        assert self._ids is not None
        assert self._times is not None
        return WrittenFile(path, size, self.rows, *self._ids, *self._times, partition or {})


def _widen(known: tuple[int, int] | None, values: pa.Array) -> tuple[int, int]:
    found: Any = pc.min_max(values).as_py()
    if known is None:
        return found["min"], found["max"]
    return min(known[0], found["min"]), max(known[1], found["max"])


class RowCounter:
    """A `FileWriter` that writes no file, for dry runs."""

    def __init__(self) -> None:
        self._stats = FileStats()

    def write(self, batch: pa.RecordBatch, ids: pa.Array, times: pa.Array) -> None:
        self._stats.add(ids, times)

    def close(self) -> WrittenFile:
        return self._stats.describe("", 0)
