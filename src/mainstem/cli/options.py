"""Options that many commands share."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mainstem.cli import failures

F = TypeVar("F", bound=Callable[..., Any])


def _note_verbose(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        context.meta[failures.VERBOSE] = True


verbose = click.option(
    "--verbose",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_note_verbose,
    help="Show the stack trace of an error.",
)


def common(function: F) -> F:
    """Add --json, as `as_json`, and --verbose, which every command has."""
    return verbose(click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")(function))


def server(function: F) -> Callable[..., Any]:
    """Add --url, --token and --context to the common options. The command gets an `address`."""

    @click.option("--url", metavar="URL", help="Server URL; also MAINSTEM_URL.  [default: http://127.0.0.1:4437]")
    @click.option("--token", metavar="TOKEN", help="Token to send; MAINSTEM_TOKEN hides it from other local users.")
    @click.option("--context", metavar="NAME", help="Saved server to use; also MAINSTEM_CONTEXT.")
    @functools.wraps(function)
    def wrapped(*args: Any, url: str | None, token: str | None, context: str | None, **options: Any) -> Any:
        from mainstem.cli.addresses import find_address

        address = find_address(url, token, context)
        failures.note_request(click.get_current_context(), address.url, has_token=bool(address.token))
        return function(*args, address=address, **options)

    return common(wrapped)


def store(function: F) -> F:
    """Add --data, --store and --config, as `mainstem serve` has them."""
    for option in (
        click.option("--config", metavar="FILE", help="The server's TOML file.", envvar="MAINSTEM_CONFIG"),
        click.option("--store", metavar="STORE", help="sqlite, or a postgresql:// URL.  [default: sqlite]"),
        click.option("--data", metavar="DIR", help="Directory that holds the log.  [default: ./mainstem-data]"),
    ):
        function = option(function)
    return function
