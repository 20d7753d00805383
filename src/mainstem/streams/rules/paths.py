"""Stream paths in URLs. A path is decoded once and strictly, so that each stream has exactly one name."""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from mainstem import limits
from mainstem.errors import BadHeader, BadPath

PREFIX = "/v1/stream"
RESERVED = "__ds"
"""The first path segment of the protocol's control APIs (section 6)."""

JOBS_PATH = "_mainstem/jobs"
"""The stream of the rounds that jobs have reported."""

BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
PREFIX_FORM = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
TAKEN = (
    "/v1/cookie",
    "/v1/jobs",
    "/v1/log",
    "/v1/partition",
    "/v1/partitions",
    "/v1/prune",
    "/v1/snapshot",
    "/v1/sessions",
    "/v1/signed-urls",
    "/v1/stream-offset",
    "/v1/stream-set",
    "/v1/stream-snapshot",
    "/v1/subscriptions",
    "/v1/sync",
    "/v1/whoami",
    "/asyncapi.json",
    "/client",
    "/console",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/_test",
)
"""The other paths of the server. `/v1/streams`, the list of streams, is not among them: it does not conflict with
streams under `/v1/streams/`."""


class Mount:
    """The prefix of all stream URLs and control paths."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix
        self.root = prefix.encode() + b"/"
        """The beginning of the raw path of every stream."""
        self.control = self.root + RESERVED.encode()

    def parse_reference(self, text: str, root_path: str) -> str:
        """Return the stream that a header names by its URL path (protocol section 4.2)."""
        raw = text.encode()
        if root_path and raw.startswith(root_path.encode() + self.root):
            raw = raw[len(root_path.encode()) :]
        if not raw.startswith(self.root):
            raise BadHeader(f"{text[:64]!r} is not the URL path of a stream, such as {self.prefix}/chat/1")
        return parse_path(raw[len(self.root) :])


def check_prefix(prefix: str) -> None:
    """Raise ValueError if streams cannot be served under this prefix."""
    if len(prefix) > limits.STREAM_PREFIX_BYTES_MAX or not PREFIX_FORM.fullmatch(prefix):
        raise ValueError(f"{prefix[:64]!r} is not a valid prefix; use a path such as /v1/streams")
    for path in TAKEN:
        if prefix == path or prefix.startswith(path + "/") or path.startswith(prefix + "/"):
            raise ValueError(f"{prefix} conflicts with {path}, which the server uses itself; choose another prefix")


def is_reserved(path: str) -> bool:
    return path == RESERVED or path.startswith(RESERVED + "/")


@lru_cache(4096)
def parse_path(raw: bytes) -> str:
    """Return the stream path for the part of a URL's path after the prefix."""
    path = unquote_text(raw) if b"%" in raw or not raw.isascii() else raw.decode("ascii")
    check_path(path)
    return path


def unquote_text(raw: bytes) -> str:
    """Percent-decode a part of a URL's path. Raise `BadPath` if that is not possible."""
    if BROKEN_ESCAPE.search(raw):
        raise BadPath("the path has a percent sign that is not followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise BadPath("the percent-decoded path is not UTF-8") from None


def check_path(path: str) -> None:
    if not path:
        raise BadPath("the stream path is empty")
    if len(path) > limits.STREAM_PATH_BYTES_MAX or len(path.encode()) > limits.STREAM_PATH_BYTES_MAX:
        raise BadPath(f"the stream path is longer than {limits.STREAM_PATH_BYTES_MAX} bytes")
    if not path.isprintable() and any(ord(c) < 0x20 or ord(c) == 0x7F for c in path):
        raise BadPath("the stream path has a control character")
    if "." in path or "//" in path or path[0] == "/":
        for segment in path.removesuffix("/").split("/"):
            if segment in ("", ".", ".."):
                raise BadPath(f"the stream path has {f'the segment {segment!r}' if segment else 'an empty segment'}")
