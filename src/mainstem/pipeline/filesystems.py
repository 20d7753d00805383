"""File systems for local paths and for the URIs of object stores."""

from __future__ import annotations

import os

import pyarrow as pa
from pyarrow import fs

from mainstem.errors import BadOption

SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""What Arrow can open. Not every build of Arrow has all of them."""


def check_scheme(uri: str) -> None:
    """Raise `BadOption` for a URI that cannot be opened here."""
    scheme = uri.partition(":")[0]
    if scheme not in SCHEMES:
        raise BadOption(f"{uri}: the scheme {scheme!r} is unknown; give a path, or a URI with {', '.join(SCHEMES)}")


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it. Spark's schemes s3a and s3n work too."""
    scheme, colon, rest = location.partition(":")
    if not colon or scheme == "file":
        path = rest.removeprefix("//") if colon else location
        return fs.LocalFileSystem(), os.path.abspath(path)
    check_scheme(location)
    uri = f"s3:{rest}" if scheme in ("s3a", "s3n") else location
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadOption(f"cannot open {location}, check the address and your credentials ({error})") from None
    return found
