"""Which stream a URL names. The path is decoded once, strictly, so one stream has one name."""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from mainstem import limits
from mainstem.errors import BadHeader, BadPath

PREFIX = "/v1/stream"
RESERVED = "__ds"
"""The first segment under which the protocol keeps its control APIs (section 6)."""

BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
PREFIX_FORM = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
TAKEN = (
    "/v1/log",
    "/v1/partition",
    "/v1/prune",
    "/v1/snapshot",
    "/v1/stream-set",
    "/v1/stream-snapshot",
    "/v1/subscriptions",
    "/v1/sync",
    "/healthz",
    "/readyz",
    "/_test",
)
"""What else the server serves. The list of streams is not here: `GET /v1/streams` names no stream under /v1/streams."""


class Mount:
    """Where streams are served: every stream and every control path lies under one prefix."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self.prefix = prefix
        self.root = prefix.encode() + b"/"
        """What the raw path of every stream begins with."""
        self.control = self.root + RESERVED.encode()

    def parse_reference(self, text: str, root_path: str) -> str:
        """The stream that a header names by its URL path, as the public protocol does (section 4.2)."""
        raw = text.encode()
        if root_path and raw.startswith(root_path.encode() + self.root):
            raw = raw[len(root_path.encode()) :]
        if not raw.startswith(self.root):
            raise BadHeader(f"{text[:64]!r} is not the path of a stream, {self.prefix}/...")
        return parse_path(raw[len(self.root) :])


def check_prefix(prefix: str) -> None:
    """Raise ValueError for a prefix under which streams cannot be served."""
    if len(prefix) > limits.STREAM_PREFIX_BYTES_MAX or not PREFIX_FORM.fullmatch(prefix):
        raise ValueError(f"{prefix[:64]!r} cannot be a prefix of streams; write it as /v1/streams")
    for path in TAKEN:
        if prefix == path or prefix.startswith(path + "/") or path.startswith(prefix + "/"):
            raise ValueError(f"{prefix} would hide {path}, which the server serves itself; choose another prefix")


def is_reserved(path: str) -> bool:
    return path == RESERVED or path.startswith(RESERVED + "/")


@lru_cache(4096)
def parse_path(raw: bytes) -> str:
    """The stream path of a URL's path below the prefix."""
    path = unquote_text(raw) if b"%" in raw or not raw.isascii() else raw.decode("ascii")
    check_path(path)
    return path


def unquote_text(raw: bytes) -> str:
    """Part of a URL's path, decoded strictly: what cannot be decoded is no name of anything."""
    if BROKEN_ESCAPE.search(raw):
        raise BadPath("a percent sign is not followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise BadPath("the path is not UTF-8 when decoded") from None


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
                raise BadPath(f"the stream path has the segment {segment!r}")
