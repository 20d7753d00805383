"""The command line: one file a noun."""

import click

import mainstem
from mainstem.cli.serve import serve
from mainstem.cli.token import token


@click.group()
@click.version_option(mainstem.__version__, prog_name="mainstem")
def main() -> None:
    """One global, ordered, durable commit log, served as Durable Streams over HTTP."""


main.add_command(serve)
main.add_command(token)
