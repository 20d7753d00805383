"""The server a command talks to, and its token: from options, the environment, or a saved context."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from mainstem.cli.failures import ExitCode, Failure
from mainstem.streams.rules import paths
from mainstem.streams.rules.paths import PREFIX

DEFAULT_URL = "http://127.0.0.1:4437"
SYNC = "/v1/sync"


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """A saved server."""

    url: str
    token: str | None = None
    token_file: str | None = None
    """A file that every command reads the token from, so that another program can renew it."""
    stream_prefix: str | None = None
    """The path under which the server serves streams; None is the default."""


class Contexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All contexts, and the name of the current one."""

    contexts: dict[str, Context] = {}
    current: str | None = None


class Address(msgspec.Struct, frozen=True):
    url: str
    token: str | None = None
    context: str | None = None
    stream_prefix: str = PREFIX


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "mainstem" / "contexts.json"


def load_contexts(path: Path | None = None) -> Contexts:
    path = path or contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Failure(f"{path} is not a valid contexts file: correct it, or delete it", ExitCode.LOCAL) from None


def save_contexts(contexts: Contexts, path: Path | None = None) -> None:
    """Replace the file atomically. Only its owner can read it, since it holds tokens."""
    path = path or contexts_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2)
    file, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mkstemp sets mode 0600
    try:
        with os.fdopen(file, "wb") as out:
            out.write(text + b"\n")
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def find_context(known: Contexts, name: str) -> Context:
    try:
        return known.contexts[name]
    except KeyError:
        names = ", ".join(sorted(known.contexts)) or "none"
        raise Failure(
            f"there is no context {name!r} (known: {names}): add it with `mainstem context add`", ExitCode.USAGE
        ) from None


def check_url(url: str) -> str:
    """Return the URL of a server without a trailing slash. Refuse a URL that cannot be one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(f"{url!r} is not the URL of a server: write it like {DEFAULT_URL}", ExitCode.USAGE)
    bare = url.rstrip("/")
    for ending in (PREFIX, SYNC):
        if bare.endswith(ending):
            raise Failure(
                f"{url!r} is not the URL of a server: leave out {ending}, as in {bare.removesuffix(ending)}",
                ExitCode.USAGE,
            )
    return bare


def check_prefix(prefix: str) -> str:
    try:
        paths.check_prefix(prefix)
    except ValueError as error:
        raise Failure(str(error), ExitCode.USAGE) from None
    return prefix


def find_address(
    url: str | None, token: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> Address:
    """Return the server and the token. An option overrides the environment, which overrides the current context.

    The token and the prefix of a context are used only for its own server, never for another URL.
    """
    token = token or environment.get("MAINSTEM_TOKEN") or None
    prefix = check_prefix(environment.get("MAINSTEM_STREAM_PREFIX") or PREFIX)
    if context is None and url is None:
        url = environment.get("MAINSTEM_URL") or None
        context = environment.get("MAINSTEM_CONTEXT") or None
    if context is None and url is not None:
        return Address(check_url(url), token, None, prefix)
    known = load_contexts()
    name = context or known.current
    if name is None:
        return Address(DEFAULT_URL, token, None, prefix)
    found = find_context(known, name)
    if url is not None and check_url(url) != found.url:
        return Address(check_url(url), token, name, prefix)
    if not environment.get("MAINSTEM_STREAM_PREFIX"):
        prefix = found.stream_prefix or PREFIX
    return Address(found.url, token or _token_of(found), name, prefix)


def _token_of(context: Context) -> str | None:
    return context.token if context.token_file is None else read_token(context.token_file)


def read_token(path: str) -> str:
    token = Path(path).read_text("utf-8").strip()
    if not token:
        raise Failure(f"{path} is empty: write the token into it", ExitCode.LOCAL)
    return token
