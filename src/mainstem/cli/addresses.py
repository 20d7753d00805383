"""Which server a command speaks to, and as whom: options, environment, or a named context in a file."""

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


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server by name."""

    url: str
    token: str | None = None
    token_file: str | None = None
    """Where the token is read from each time, for tokens that something else renews."""
    stream_prefix: str | None = None
    """Where the server serves streams; None is the default."""


class Contexts(msgspec.Struct, frozen=True, omit_defaults=True):
    """All contexts, and the one that is in use."""

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
    except msgspec.MsgspecError as error:
        raise Failure(f"{path} cannot be read ({error}): mend it, or remove it", ExitCode.LOCAL) from None


def save_contexts(contexts: Contexts, path: Path | None = None) -> None:
    """In one step, readable by its owner alone: it holds tokens."""
    path = path or contexts_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2)
    file, unfinished = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mkstemp makes it 0600
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
        names = ", ".join(sorted(known.contexts)) or "none yet"
        raise Failure(
            f"there is no context {name!r} (there are: {names}): add it with `mainstem context add`", ExitCode.USAGE
        ) from None


def check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(f"{url!r} is not a URL of a server: write it as {DEFAULT_URL}", ExitCode.USAGE)
    return url.rstrip("/")


def check_prefix(prefix: str) -> str:
    try:
        paths.check_prefix(prefix)
    except ValueError as error:
        raise Failure(str(error), ExitCode.USAGE) from None
    return prefix


def find_address(
    url: str | None, token: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> Address:
    """A flag beats the environment, which beats the context in use.

    The token and the prefix of a context are only for that context's own server, never for a URL that was named
    besides.
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
        raise Failure(f"{path} is empty: it should hold a token", ExitCode.LOCAL)
    return token
