"""The bodies of appends. Every message has 100 bytes, so that rates in messages and in bytes can be compared."""

from __future__ import annotations

from bench.load_jobs import Content

MESSAGE_BYTES = 100
CONTENT_TYPES: dict[Content, str] = {"json": "application/json", "bytes": "application/octet-stream"}


def make_message(label: str) -> bytes:
    """Return a JSON message of exactly MESSAGE_BYTES that contains the label."""
    start = f'{{"id":"{label}","pad":"'
    return (start + "x" * (MESSAGE_BYTES - len(start) - 2) + '"}').encode()


def make_body(content: Content, messages: int) -> bytes:
    """Return a request body of `messages` messages; a JSON batch is an array, which the server splits."""
    if content == "bytes":
        return (b"0123456789" * (MESSAGE_BYTES // 10)) * messages
    parts = [make_message(f"{index:06d}") for index in range(messages)]
    return parts[0] if messages == 1 else b"[" + b",".join(parts) + b"]"
