"""Base64 in the alphabet of URLs, without padding (RFC 4648 section 5)."""

import base64


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Raises ValueError for what is not base64."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
