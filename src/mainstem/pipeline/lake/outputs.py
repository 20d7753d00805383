"""A directory that an export fills: files appear in it whole, each once, and it keeps how far it has come.

What a run has written lies beside, in `_temporary`. A journal then says which of it counts, in one atomic step, and
only after that the files are moved to their places. Whoever comes back after a kill finishes the moves of the
journal, and forgets the rest.
"""

from __future__ import annotations

import os
import posixpath
import uuid

import msgspec
from pyarrow import fs

from mainstem.errors import BadOption
from mainstem.pipeline.durable_files import fsync
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.copies import WrittenFile
from mainstem.pipeline.lake.tables import Place

JOURNAL = "_export.json"
SUCCESS = "_SUCCESS"
TEMPORARY = "_temporary"


class Journal(msgspec.Struct, frozen=True):
    """What an export was asked for, up to where it has come, and what is left to be moved."""

    asked: str
    until: int
    pruned: int
    """What the log had lost already when the export began."""
    rows: int = 0
    moves: dict[str, str] = {}
    place: Place | None = None
    """The last row that was exported."""


class Output:
    """One export's directory."""

    def __init__(self, location: str, extension: str) -> None:
        self._fs, self._root = open_location(location)
        self._local = isinstance(self._fs, fs.LocalFileSystem)
        self._extension = extension
        self.location = location if "://" in location else self._root

    def open(self, asked: str) -> Journal | None:
        """The journal of this export, its moves made; None if it begins now. Another export's place is refused."""
        found = self._list("")
        journal = self._read_journal()
        if journal is None:
            if found:
                raise BadOption(f"{self.location} is not empty, and no export of mainstem: give a directory of its own")
            return None
        if journal.asked != asked:
            raise BadOption(
                f"{self.location} holds an export of something else ({journal.asked}): give a directory of its own"
            )
        return journal

    def recover(self, journal: Journal) -> Journal:
        """Finish what a killed run had decided, and forget what it had not."""
        journal = self._move(journal)
        if self._fs.get_file_info(self._path(TEMPORARY)).type != fs.FileType.NotFound:
            self._fs.delete_dir(self._path(TEMPORARY))
        return journal

    def begin(self) -> None:
        """From now on until `finish` it is not complete."""
        if self._fs.get_file_info(self._path(SUCCESS)).type != fs.FileType.NotFound:
            self._fs.delete_file(self._path(SUCCESS))

    def add(self, files: list[WrittenFile], journal: Journal, until: int) -> Journal:
        """Make the files of a run part of the export."""
        moves = {file.path: f"{file.first:016d}-{file.last:016d}.{self._extension}" for file in files}
        rows = journal.rows + sum(file.rows for file in files)
        last = max(files, key=lambda file: file.last, default=None)
        place = Place(last.last, last.since_us, last.until_us) if last else journal.place
        return self._move(Journal(journal.asked, until, journal.pruned, rows, moves, place), write=True)

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

    def start(self, journal: Journal) -> Journal:
        """The first journal, before anything is written."""
        self._write(JOURNAL, msgspec.json.encode(journal))
        return journal

    def _list(self, folder: str) -> list[str]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        return [posixpath.basename(entry.path) for entry in self._fs.get_file_info(selector)]

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, name)

    def _write(self, name: str, data: bytes) -> None:
        """All at once, and on disk."""
        self._fs.create_dir(self._root, recursive=True)
        new = self._path(f"_{uuid.uuid4().hex}") if self._local else self._path(name)
        with self._fs.open_output_stream(new) as file:
            file.write(data)
        if self._local:
            fsync(new)
            os.replace(new, self._path(name))
            fsync(self._root)
