"""The database's URL: what is accepted, and how it is shown. A password is never shown."""

from urllib.parse import parse_qs, unquote, urlsplit

from mainstem.errors import SettingsError


def describe_url(url: str) -> str:
    """Where the database is, without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise SettingsError("the URL of the database is not a URL: postgresql://user@host:5432/database") from None
    user, _, hosts = parts.netloc.rpartition("@")
    if not user and "@" in url:  # else a part of the password would be taken for the host, and shown
        raise SettingsError(
            "the URL of the database has an @ where none can be: a password with / ? # or @ in it must be "
            "percent-encoded, as %2F %3F %23 and %40, or given by PGPASSWORD"
        )
    return f"PostgreSQL database {parts.path.strip('/') or '(default)'} on {hosts or 'the local socket'}"


def strip_password(url: str) -> str:
    """The URL as it may be shown: without its password, and without options, which may hold one too."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{parts.username}@{host}" if parts.username else host, query="").geturl()


def explain(error: BaseException, url: str) -> str:
    """What the driver says of a database that it cannot use; only the kind, if it would tell the URL or a secret."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    return f"{kind}: {text}" if text and not any(word in text for word in _secrets(url)) else kind


def _secrets(url: str) -> set[str]:
    secrets = {url, "password="}
    try:
        parts = urlsplit(url)
        written = [parts.password or "", *parse_qs(parts.query).get("password", [])]
    except ValueError:
        return secrets
    return secrets | {word for given in written for word in (given, unquote(given)) if word}
