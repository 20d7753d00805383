"""Content types: compared without case or parameters, stored as the client wrote them."""

from functools import lru_cache

from mainstem import limits
from mainstem.errors import BadHeader
from mainstem.streams.rules.json_mode import JSON

DEFAULT = "application/octet-stream"


@lru_cache(256)
def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


@lru_cache(256)
def is_json(content_type: str) -> bool:
    return media_type(content_type) == JSON


def is_text(content_type: str) -> bool:
    """Return whether SSE can carry the content unchanged (protocol section 5.8). Other content is sent in base64."""
    media = media_type(content_type)
    return media.startswith("text/") or media == JSON


@lru_cache(256)
def is_active(content_type: str) -> bool:
    """Return whether a browser that opens the content would show a document that can run scripts."""
    media = media_type(content_type)
    return media in ("text/html", "text/xml", "application/xml", "text/xsl") or media.endswith("+xml")


def check_content_type(content_type: str) -> None:
    if len(content_type) > limits.CONTENT_TYPE_BYTES_MAX:
        raise BadHeader(f"Content-Type is longer than {limits.CONTENT_TYPE_BYTES_MAX} bytes")
    kind, slash, subtype = media_type(content_type).partition("/")
    if not (kind and slash and subtype and content_type.isascii() and content_type.isprintable()):
        raise BadHeader(f"Content-Type {content_type[:64]!r} is not a media type such as application/json")
