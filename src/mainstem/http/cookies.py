"""Cookies: finding one in a request, and setting one."""

from collections.abc import Iterable


def find_cookies(fields: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    """Return the values of all cookies with this name. Anything in the headers that is no cookie is skipped."""
    values: list[bytes] = []
    for name, value in fields:
        if name == b"cookie":
            for part in value.split(b";"):
                cookie, separator, content = part.strip().partition(b"=")
                if separator and cookie == wanted:
                    values.append(content)
    return values


def format_cookie(name: str, value: str, *, path: str, secure: bool, max_age_s: int | None = None) -> bytes:
    """Return a Set-Cookie value for a cookie that no script can read and no other site's page can send.

    Without a maximal age, the cookie lasts until the browser is closed.
    """
    parts = [f"{name}={value}", f"Path={path}", "HttpOnly", "SameSite=Strict"]
    if secure:
        parts.append("Secure")
    if max_age_s is not None:
        parts.append(f"Max-Age={max_age_s}")
    return "; ".join(parts).encode("latin-1")
