"""The URL of the database: how to check it and show it without its password."""

import socket
from urllib.parse import parse_qs, unquote, urlsplit

from mainstem.errors import SettingsError


def describe_url(url: str) -> str:
    """Return a description of the database without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SettingsError(
            "the URL of the database is malformed; write it like postgresql://user@host:5432/database"
        ) from None
    user, _, hosts = parts.netloc.rpartition("@")
    if not user and "@" in url:  # otherwise a part of the password would be taken for the host, and shown
        raise SettingsError(
            "the URL of the database has an @ in the wrong part: percent-encode / ? # and @ in the password as "
            "%2F %3F %23 and %40, or pass the password in PGPASSWORD"
        )
    return f"PostgreSQL database {parts.path.strip('/') or '(default)'} on {hosts or 'the local socket'}"


def strip_password(url: str) -> str:
    """Return the URL without its password, and without its options, which may contain one too."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}@{host}" if parts.username else host, query="").geturl()


def explain(error: BaseException, url: str) -> str:
    """Return why the database cannot be used: the kind of error only, if its text contains the URL or a secret."""
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused; is PostgreSQL running there?"
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    text = " ".join(str(error).split())
    return text if text and not any(word in text for word in _secrets(url)) else type(error).__name__


def _secrets(url: str) -> set[str]:
    secrets = {url, "password="}
    try:
        parts = urlsplit(url)
        written = [parts.password or "", *parse_qs(parts.query).get("password", [])]
    except ValueError:
        return secrets
    return secrets | {word for given in written for word in (given, unquote(given)) if word}
