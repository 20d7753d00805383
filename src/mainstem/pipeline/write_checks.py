"""Whether a job can write where it should, found out before Spark starts."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from mainstem import limits
from mainstem.errors import LocationNotWritable
from mainstem.pipeline.filesystems import open_location
from mainstem.pipeline.lake.delta import last_cause


def check_writable(location: str, wait_s: float = limits.WRITE_CHECK_S_MAX) -> None:
    """Raise `LocationNotWritable` unless files can be written at a path or URI. No file is left there."""
    system, root = open_location(location)
    if isinstance(system, fs.LocalFileSystem):
        _check_directory(Path(root))
    else:
        _check_store(system, root, location, wait_s)


def _check_directory(folder: Path) -> None:
    """Write a small file, if the directory exists; otherwise check that it can be created."""
    above = next(path for path in (folder, *folder.parents) if path.exists())
    if not above.is_dir():
        raise LocationNotWritable(f"cannot write into {folder}: {above} is a file")
    if above != folder:
        if not os.access(above, os.W_OK | os.X_OK):
            raise LocationNotWritable(f"cannot create {folder}: this user may not write into {above}")
        return
    probe = folder / f".mainstem-{uuid.uuid4().hex}"  # Spark ignores names that begin with a dot
    try:
        probe.write_bytes(b"x")
    except OSError as error:
        raise LocationNotWritable(f"cannot write into {folder}: {error.strerror}") from None
    finally:
        probe.unlink(missing_ok=True)


def _check_store(system: fs.FileSystem, root: str, location: str, wait_s: float) -> None:
    """Write and delete a small object. Arrow retries for minutes, so that a thread does it."""
    failures: list[Exception] = []

    def probe() -> None:
        path = f"{root.rstrip('/')}/.mainstem-{uuid.uuid4().hex}"
        try:
            with system.open_output_stream(path) as stream:
                stream.write(b"x")
            system.delete_file(path)
        except (OSError, pa.ArrowException) as error:
            failures.append(error)

    prober = threading.Thread(target=probe, daemon=True)
    prober.start()
    prober.join(wait_s)
    if prober.is_alive():
        raise LocationNotWritable(f"{location} took no file within {wait_s:g} s: check the address and the network")
    if failures:
        raise LocationNotWritable(f"cannot write into {location}: {last_cause(failures[0])}")
