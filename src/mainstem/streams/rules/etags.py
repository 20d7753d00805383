"""ETags of reads: which stream, which bytes of it, and whether it ended there."""

from base64 import b64encode

from mainstem.streams.rules.offsets import Offset


def make_etag(path: str, start: Offset, end: Offset, closed: bool) -> str:
    """Closing changes the tag, or a 304 would hide the end of the stream (protocol section 10.1)."""
    return f'"{b64encode(path.encode()).decode()}:{start}:{end}{":c" if closed else ""}"'


def matches(if_none_match: str, etag: str) -> bool:
    """The weak comparison of RFC 9110: any tag of the list, with or without W/."""
    return if_none_match.strip() == "*" or any(
        tag.strip().removeprefix("W/") == etag for tag in if_none_match.split(",")
    )
