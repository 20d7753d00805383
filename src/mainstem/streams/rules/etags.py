"""ETags of reads: they identify the stream, the range of bytes, and whether the stream is closed at its end."""

from base64 import b64encode

from mainstem.streams.rules.offsets import Offset


def make_etag(path: str, start: Offset, end: Offset, closed: bool) -> str:
    """Return the ETag of a page. Closing the stream changes it; otherwise a 304 would hide that the stream has ended
    (protocol section 10.1)."""
    return f'"{b64encode(path.encode()).decode()}:{start}:{end}{":c" if closed else ""}"'


def matches(if_none_match: str, etag: str) -> bool:
    """Return whether any tag in the list equals the ETag in the weak comparison of RFC 9110, with or without W/."""
    return if_none_match.strip() == "*" or any(
        tag.strip().removeprefix("W/") == etag for tag in if_none_match.split(",")
    )
