"""The staging directory: files that tasks write and the driver sends, and one manifest per batch.

A manifest fixes which files make up a batch, and in which order, before the first of them is sent. A replay of the
batch finds the manifest and sends the same files again, whatever its own tasks have staged this time.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa
from pyarrow import fs

from mainstem.errors import StageLost
from mainstem.pipeline.claims import make_claim, read_claim
from mainstem.pipeline.durable_files import create_file, fsync, replace_file
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.storage_errors import explain_storage

FOLDER = "mainstem-sink"
CLAIM = "claim"
FRAME = struct.Struct(">III")  # bytes of the name, rows, bytes of the body


class Frame(NamedTuple):
    """One request as it will be sent: the body of an append to `name`, or the items of a submit."""

    name: str
    rows: int
    body: bytes


class StagedFile(msgspec.Struct, frozen=True):
    """A file that a task has staged."""

    path: str
    size: int
    frames: int
    rows: int


class Manifest(msgspec.Struct, frozen=True):
    """The files of a batch, in the order in which they are sent. It is stored as JSON."""

    target: str
    files: list[StagedFile]
    done: bool = False
    reached: dict[str, str] = {}
    """When the batch is done: the ends of some streams or partitions, to check later that the server still has it."""


class StagingDirectory:
    """The staged files of one producer: a query, or a batch write.

    On a disk, the manifest of a batch is the file `manifest.json`, and a hard link decides which driver's manifest
    counts. On an object store a claim decides that, and `manifest.json` only records that the batch is done.
    """

    def __init__(self, location: str, producer: str) -> None:
        self._location = location
        self._fs, root = open_location(location)
        self._local = isinstance(self._fs, fs.LocalFileSystem)
        name = quote(producer, safe="")
        if not self._local:
            name = name.replace("%", "=")  # delta-rs takes % for an escape, but Arrow does not
        self.folder = f"{root.rstrip('/')}/{FOLDER}/{name}"
        self._uri = f"{location.partition('?')[0].rstrip('/')}/{FOLDER}/{name}"

    def batch_folder(self, batch: int) -> str:
        return f"{self.folder}/{batch}"

    # Tasks

    def open_writer(self, batch: int, partition: int) -> StagedFileWriter:
        """Open a separate file for each attempt of a task, so that the file of a failed attempt is never sent."""
        folder = self.batch_folder(batch)
        path = f"{folder}/{partition:06d}-{uuid.uuid4().hex}.frames"
        with explain_storage(self._location):
            self._fs.create_dir(folder, recursive=True)
            file = self._fs.open_output_stream(path)
        return StagedFileWriter(file, path, self._location, self._local)

    # Driver

    def read_manifest(self, batch: int) -> Manifest | None:
        path = self._manifest_path(batch)
        with explain_storage(self._location, "read"):
            if self._fs.get_file_info(path).type != fs.FileType.NotFound:
                with self._fs.open_input_stream(path) as file:
                    return msgspec.json.decode(file.read(), type=Manifest)
        claimed = None if self._local else read_claim(self._claim_uri(batch))
        return None if claimed is None else msgspec.json.decode(claimed, type=Manifest)

    def write_manifest(self, batch: int, manifest: Manifest) -> Manifest:
        """Write the manifest, and return the one that counts: this one, or one that another driver wrote first."""
        encoded = msgspec.json.encode(manifest)
        if not self._local:
            make_claim(self._claim_uri(batch), encoded.decode())
        else:
            with explain_storage(self._location):
                create_file(Path(self._manifest_path(batch)), encoded)
        found = self.read_manifest(batch)
        assert found is not None
        return found

    def mark_done(self, batch: int, manifest: Manifest, reached: dict[str, str] | None = None) -> None:
        """Record that the whole batch was sent. The record stays until the next batch is done."""
        done = Manifest(manifest.target, [], done=True, reached=reached or {})
        path, data = self._manifest_path(batch), msgspec.json.encode(done)
        with explain_storage(self._location):
            if self._local:
                replace_file(Path(path), data)
            else:  # an object appears as a whole
                with self._fs.open_output_stream(path) as file:
                    file.write(data)

    def delete_manifest(self, batch: int) -> None:
        """Forget that the batch was sent, because the server no longer has it."""
        self.discard(self._manifest_path(batch))
        if not self._local:
            self._delete_folder(f"{self.batch_folder(batch)}/{CLAIM}")

    def read_frames(self, file: StagedFile) -> Iterator[Frame]:
        """Yield the frames of a file."""
        with explain_storage(self._location, "read"):
            try:
                stream = self._fs.open_input_stream(file.path)
            except FileNotFoundError:
                raise StageLost(f"{file.path} is missing") from None
        with stream, explain_storage(self._location, "read"):
            for _ in range(file.frames):
                name_size, rows, size = FRAME.unpack(_read_exactly(stream, FRAME.size, file.path))
                name = _read_exactly(stream, name_size, file.path).decode()
                yield Frame(name, rows, _read_exactly(stream, size, file.path))

    def clean(self, batch: int) -> None:
        """Remove what no replay can need: the files of a batch that is done, and all earlier batches."""
        for entry in self._list(self.folder):
            number = Path(entry.path).name
            if number.isdigit() and int(number) < batch:
                self._delete_folder(entry.path)
        for entry in self._list(self.batch_folder(batch)):
            if entry.is_file and entry.path != self._manifest_path(batch):
                self.discard(entry.path)

    def discard(self, path: str) -> None:
        with explain_storage(self._location, "delete files of"):
            try:
                self._fs.delete_file(path)
            except FileNotFoundError:
                pass

    def discard_all(self) -> None:
        self._delete_folder(self.folder)

    def _delete_folder(self, path: str) -> None:
        with explain_storage(self._location, "delete files of"):
            try:
                self._fs.delete_dir(path)
            except FileNotFoundError:
                pass

    def _manifest_path(self, batch: int) -> str:
        return f"{self.batch_folder(batch)}/manifest.json"

    def _claim_uri(self, batch: int) -> str:
        return f"{self._uri}/{batch}/{CLAIM}"

    def _list(self, folder: str) -> list[Any]:
        with explain_storage(self._location, "read"):
            return list(self._fs.get_file_info(fs.FileSelector(folder, allow_not_found=True)))


class StagedFileWriter:
    """Writes frames into one staged file."""

    def __init__(self, file: pa.NativeFile, path: str, location: str, local: bool) -> None:
        self._file = file
        self._path = path
        self._location = location
        self._local = local
        self._size = self._frames = self._rows = 0

    def write(self, name: str, rows: int, *parts: bytes | memoryview) -> None:
        encoded = name.encode()
        size = sum(len(part) for part in parts)
        with explain_storage(self._location):
            self._file.write(FRAME.pack(len(encoded), rows, size) + encoded)
            for part in parts:
                self._file.write(part)
        self._size += FRAME.size + len(encoded) + size
        self._frames += 1
        self._rows += rows

    def close(self) -> StagedFile:
        """Flush the file to disk, and describe it."""
        with explain_storage(self._location):
            self._file.close()
            if self._local:
                fsync(self._path)
        return StagedFile(self._path, self._size, self._frames, self._rows)


def _read_exactly(stream: pa.NativeFile, size: int, path: str) -> bytes:
    data: bytes = stream.read(size)
    if len(data) != size:
        raise StageLost(f"{path} is truncated")
    return data
