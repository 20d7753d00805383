"""Base64 with the URL-safe alphabet and without padding (RFC 4648 section 5)."""

import base64


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Decode base64. Raise ValueError if the text is not valid."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
