"""Options that many commands share."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _note_verbose(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        context.find_root().meta["mainstem.verbose"] = True


verbose = click.option(
    "--verbose",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_note_verbose,
    help="Show the stack trace of a fault.",
)


def common(function: F) -> F:
    """--json, as `as_json`, and --verbose: every command has them."""
    return verbose(click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(function))


def server(function: F) -> Callable[..., Any]:
    """--url, --token and --context besides: the command gets an `address`."""

    @click.option("--url", metavar="URL", help="The server; also MAINSTEM_URL.  [default: http://127.0.0.1:4437]")
    @click.option("--token", metavar="TOKEN", help="Who you are; also MAINSTEM_TOKEN, which other users cannot see.")
    @click.option("--context", metavar="NAME", help="A server by name; also MAINSTEM_CONTEXT.")
    @functools.wraps(function)
    def wrapped(*args: Any, url: str | None, token: str | None, context: str | None, **options: Any) -> Any:
        from mainstem.cli.addresses import find_address

        return function(*args, address=find_address(url, token, context), **options)

    return common(wrapped)


def store(function: F) -> F:
    """--data, --store and --config, as `mainstem serve` has them."""
    for option in (
        click.option("--config", metavar="FILE", help="The TOML file of the server.", envvar="MAINSTEM_CONFIG"),
        click.option("--store", metavar="STORE", help="sqlite, or a postgresql:// URL.  [default: sqlite]"),
        click.option("--data", metavar="DIR", help="Directory that holds the log.  [default: ./mainstem-data]"),
    ):
        function = option(function)
    return function
