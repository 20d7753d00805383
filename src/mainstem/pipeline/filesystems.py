"""File systems of local paths and of the URIs of object stores."""

from __future__ import annotations

import os

import pyarrow as pa
from pyarrow import fs

from mainstem.errors import BadOption


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it. Spark's spellings are understood too."""
    scheme, colon, rest = location.partition(":")
    if not colon or scheme == "file":
        path = rest.removeprefix("//") if colon else location
        return fs.LocalFileSystem(), os.path.abspath(path)
    uri = f"s3:{rest}" if scheme in ("s3a", "s3n") else location
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadOption(f"rows cannot be staged at {location}: {error}; set stagingLocation") from None
    return found
