"""What a job checks before it starts Spark: the server, the token, and the versions."""

from __future__ import annotations

import logging
import re
from importlib.metadata import PackageNotFoundError, version

import msgspec

from mainstem.errors import MissingSpark, RequestRefused, VersionMismatch
from mainstem.pipeline.http_client import HttpClient, ServerOptions

logger = logging.getLogger(__name__)

SPARK_MIN, SPARK_BELOW = (4, 2, 1), (4, 4)
"""The versions of pyspark in pyproject.toml."""
MINOR_VERSIONS = 2
"""How many minor versions a server may be older or newer: so long does a deprecated part of an API still work."""

SLOW_LOG = "its log is read as NDJSON, which is slower; install mainstem[arrow] there"
_asked: set[str] = set()


class Caller(msgspec.Struct, frozen=True):
    """The part of `/v1/whoami` that decides whether a job can run."""

    version: str
    authenticates: bool
    admin: bool
    client_id: str | None = None
    arrow: bool = True


def read_caller(client: HttpClient) -> Caller:
    """Ask the server who we are. Raise `RequestRefused` if it is not a Mainstem server."""
    found = client.get_json("/v1/whoami")
    try:
        return msgspec.convert(found, Caller)
    except msgspec.ValidationError:
        raise RequestRefused(
            f"{client.server.url} answered /v1/whoami like no Mainstem server does: check the url"
        ) from None


def check_caller(caller: Caller, url: str) -> None:
    """Raise unless the versions fit, and the token lets a job read the log."""
    check_versions(caller.version, url)
    if not caller.admin:
        raise RequestRefused(
            f"the token for {url} lacks the admin claim, which jobs need to read the log: make one with "
            "`mainstem token --admin --client-id NAME`",
            refused=403,
        )


def check_client_id(caller: Caller, url: str, client_id: str | None) -> None:
    """Raise unless the token may submit events as this client."""
    if not caller.authenticates or (client_id is not None and client_id == caller.client_id):
        return
    if caller.client_id is None:
        raise RequestRefused(
            f"the token for {url} names no client, which events need: make one with "
            "`mainstem token --admin --client-id NAME`, and pass --client-id NAME",
            refused=403,
        )
    raise RequestRefused(
        f"the token for {url} submits events only as {caller.client_id!r}: pass --client-id {caller.client_id}",
        refused=403,
    )


def warn_without_arrow(server: ServerOptions) -> None:
    """Log a warning, once per server and process, if the server cannot send the log as Arrow."""
    if server.url in _asked:
        return
    with HttpClient(server) as client:
        caller = read_caller(client)
    _asked.add(server.url)
    if not caller.arrow:
        logger.warning("%s was installed without Arrow: %s", server.url, SLOW_LOG)


def check_versions(server: str, url: str) -> None:
    """Raise `VersionMismatch` if the server is much older or newer than this program."""
    installed = version("mainstem")
    theirs, ours = _parse_version(server), _parse_version(installed)
    if theirs[0] != ours[0] or abs(theirs[1] - ours[1]) > MINOR_VERSIONS:
        older = "the server" if theirs < ours else "this program"
        raise VersionMismatch(f"{url} runs Mainstem {server}, and this is {installed}: upgrade {older}")


def check_spark_version() -> None:
    """Raise if pyspark is missing, or has a version that this program does not work with."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise MissingSpark("the package pyspark is not installed") from None
    if not SPARK_MIN <= _parse_version(found) < SPARK_BELOW:
        raise VersionMismatch(f"pyspark {found} is installed, but jobs need 4.2.1 to 4.3: install mainstem[spark]")


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
