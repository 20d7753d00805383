"""File systems for local paths and for the URIs of object stores."""

from __future__ import annotations

import os

import pyarrow as pa
from pyarrow import fs

from mainstem import limits
from mainstem.errors import BadOption
from mainstem.pipeline.storage_errors import describe_storage_error

SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""What Arrow can open. Not every build of Arrow has all of them."""
HADOOP_SCHEMES = ("file", "s3a", "s3n", "hdfs", "viewfs")
"""What Spark opens itself. For s3a and s3n it needs the package hadoop-aws, which no wheel contains."""


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
        found, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadOption(
            f"cannot open {location}, check the address and your credentials ({describe_storage_error(error)})"
        ) from None
    if found.type_name == "s3" and "?" not in uri:  # the parameters of a URI would be lost
        found = _open_patiently(found.region)
    return found, path


def _open_patiently(region: str) -> fs.FileSystem:
    """Open S3 with more attempts per request than a URI can ask for."""
    endpoint = find_endpoint()
    return fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        scheme="http" if endpoint and endpoint.startswith("http://") else "https",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=limits.STORAGE_ATTEMPTS),
    )


def find_endpoint() -> str | None:
    """Return the address of an object store other than Amazon's, from the standard variables."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def needs_python_readers(location: str) -> bool:
    """Return whether Spark cannot open a location, so that its Python workers have to read it."""
    return "://" in location and location.partition(":")[0] not in HADOOP_SCHEMES


def delta_options(location: str) -> dict[str, str]:
    """Return the options that delta-rs does not take from the standard variables itself."""
    if "://" not in location:
        return {}
    options = {"max_retries": str(limits.STORAGE_ATTEMPTS - 1)}
    endpoint = find_endpoint()
    if endpoint is not None:
        options["aws_endpoint_url"] = endpoint
        options["aws_allow_http"] = "true" if endpoint.startswith("http://") else "false"
    return options
