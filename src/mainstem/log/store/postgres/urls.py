"""The database's URL: what is accepted, and how it is shown. A password is never shown."""

from urllib.parse import urlsplit

from mainstem.errors import SettingsError


def describe_url(url: str) -> str:
    """Where the database is, without user, password and options."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2]
        return f"PostgreSQL database {parts.path.strip('/') or '(default)'} on {hosts or 'the local socket'}"
    except ValueError:
        raise SettingsError("the URL of the database is not a URL: postgresql://user@host:5432/database") from None
