"""The directory of an export: complete files, each exactly once, and a journal that records the progress.

The tasks of a batch write into `_temporary`. Then one atomic step writes a journal that says which of these files
count, and after that the files are moved to their final names. After a kill, the next round finishes the moves of the
journal and deletes all other temporary files.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from pyarrow import fs

from mainstem.errors import BadOption
from mainstem.pipeline.durable_files import fsync, replace_file
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.delta import LastCommit
from mainstem.pipeline.lake.files import WrittenFile
from mainstem.pipeline.log_reader import Position
from mainstem.pipeline.storage_errors import explain_storage

JOURNAL = "_export.json"
SUCCESS = "_SUCCESS"
TEMPORARY = "_temporary"

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["ExportDirectory", P], T]


class Journal(msgspec.Struct, frozen=True):
    """What is exported, the committed id that it has reached, and the files to be moved. It is stored as JSON."""

    request: str = msgspec.field(name="asked")
    """The options that decide which rows are exported."""
    until: int
    pruned: int
    """The highest committed id that was pruned when the export began."""
    rows: int = 0
    moves: dict[str, str] = {}
    last_commit: LastCommit | None = msgspec.field(default=None, name="place")
    log: str | None = None
    """The id of the log; None in the journal of an older version."""
    epoch: str | None = None

    @property
    def position(self) -> Position:
        return Position(self.until, self.log, self.epoch)


def _explained(verb: str) -> Callable[[Method[P, T]], Method[P, T]]:
    """Decorate a method so that it raises `StorageFailed` for errors of the disk or object store."""

    def decorate(method: Method[P, T]) -> Method[P, T]:
        @functools.wraps(method)
        def wrapped(self: ExportDirectory, /, *args: P.args, **kwargs: P.kwargs) -> T:
            with explain_storage(self.location, verb):
                return method(self, *args, **kwargs)

        return wrapped

    return decorate


class ExportDirectory:
    """One export's directory."""

    def __init__(self, location: str, extension: str) -> None:
        self._fs, self._root = open_location(location)
        self._local = isinstance(self._fs, fs.LocalFileSystem)
        self._extension = extension
        self.location = location if "://" in location else self._root

    @_explained("read")
    def open(self, request: str) -> Journal | None:
        """Return the journal of this export, or None for a new one. Raise if the directory holds something else."""
        found = self._list("")
        journal = self._read_journal()
        if journal is None:
            if found:
                raise BadOption(f"{self.location} is not empty, and is not an export: give an empty directory")
            return None
        if journal.request != request:
            raise BadOption(
                f"{self.location} holds an export with other options ({journal.request}): give another directory"
            )
        return journal

    @_explained("write")
    def recover(self, journal: Journal) -> Journal:
        """Finish the moves of a killed round, and delete its other temporary files."""
        journal = self._move(journal)
        if self._fs.get_file_info(self._path(TEMPORARY)).type != fs.FileType.NotFound:
            self._fs.delete_dir(self._path(TEMPORARY))
        return journal

    @_explained("write")
    def mark_incomplete(self) -> None:
        """Mark the export as incomplete until `finish`."""
        if self._fs.get_file_info(self._path(SUCCESS)).type != fs.FileType.NotFound:
            self._fs.delete_file(self._path(SUCCESS))

    @_explained("write")
    def add(self, files: list[WrittenFile], journal: Journal, end: Position) -> Journal:
        """Make the files of a batch part of the export."""
        moves = {file.path: f"{file.first:016d}-{file.last:016d}.{self._extension}" for file in files}
        rows = journal.rows + sum(file.rows for file in files)
        last = max(files, key=lambda file: file.last, default=None)
        last_commit = LastCommit(last.last, last.since_us, last.until_us) if last else journal.last_commit
        extended = Journal(
            journal.request, end.committed_id, journal.pruned, rows, moves, last_commit, end.log, end.epoch
        )
        return self._move(extended, write=True)

    @_explained("write")
    def finish(self, journal: Journal) -> None:
        self.recover(journal)
        self._write(SUCCESS, b"")

    def _move(self, journal: Journal, *, write: bool = False) -> Journal:
        if write:
            self._write(JOURNAL, msgspec.json.encode(journal))
        for origin, target in journal.moves.items():
            if self._fs.get_file_info(self._path(origin)).type != fs.FileType.NotFound:  # else it was moved before
                self._fs.move(self._path(origin), self._path(target))
        if self._local and journal.moves:
            fsync(self._root)
        return journal

    def _read_journal(self) -> Journal | None:
        path = self._path(JOURNAL)
        if self._fs.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with self._fs.open_input_stream(path) as file:
            return msgspec.json.decode(file.read(), type=Journal)

    @_explained("write")
    def start(self, journal: Journal) -> Journal:
        """Write the first journal, before any rows."""
        self._write(JOURNAL, msgspec.json.encode(journal))
        return journal

    def _list(self, folder: str) -> list[str]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        return [posixpath.basename(entry.path) for entry in self._fs.get_file_info(selector)]

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)

    def _write(self, name: str, data: bytes) -> None:
        """Write a file atomically and durably. Object stores guarantee that."""
        if self._local:
            replace_file(Path(self._path(name)), data)
            return
        self._fs.create_dir(self._root, recursive=True)
        with self._fs.open_output_stream(self._path(name)) as file:
            file.write(data)
