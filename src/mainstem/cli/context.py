"""`mainstem context`: saved servers."""

import sys

import click
import msgspec

from mainstem.cli import options, output
from mainstem.cli.addresses import (
    Context,
    Contexts,
    check_prefix,
    check_url,
    contexts_path,
    find_address,
    find_context,
    load_contexts,
    save_contexts,
)
from mainstem.cli.lazy import CommandGroup
from mainstem.streams.rules.paths import PREFIX


@click.group(cls=CommandGroup)
def context() -> None:
    """Save servers under names, and choose one.

    Contexts are stored in $XDG_CONFIG_HOME/mainstem/contexts.json, which only you can read.
    """


@context.command()
@click.argument("name")
@click.option("--url", required=True, help="URL of the server.")
@click.option("--token", help="Token for this server; - reads it from standard input.")
@click.option("--token-file", metavar="FILE", help="File with the token; every command reads it again.")
@click.option(
    "--stream-prefix", metavar="PATH", help="Path under which the server serves streams.  [default: /v1/stream]"
)
@click.option("--use/--no-use", default=None, help="Make it the current context.  [default: only if it is the first]")
@options.common
def add(
    name: str,
    url: str,
    token: str | None,
    token_file: str | None,
    stream_prefix: str | None,
    use: bool | None,
    as_json: bool,
) -> None:
    """Save a server under NAME, or change a saved one."""
    if token is not None and token_file is not None:
        raise click.UsageError("--token and --token-file exclude each other: give one of them")
    if not name or not name.isprintable() or name.strip() != name:
        raise click.UsageError(
            f"{name!r} cannot be the name of a context: use printable characters, without spaces around them"
        )
    if token == "-":
        token = sys.stdin.readline().strip()
    known = load_contexts()
    chosen = use if use is not None else known.current is None
    prefix = None if stream_prefix is None else check_prefix(stream_prefix)
    contexts = {**known.contexts, name: Context(check_url(url), token or None, token_file, prefix)}
    save_contexts(Contexts(contexts, name if chosen else known.current))
    said = f"saved {name} ({check_url(url)})" + (" as the current context" if chosen else "")
    output.write_result({"name": name, "url": check_url(url), "current": chosen}, said, as_json)


@context.command()
@click.argument("name")
@options.common
def use(name: str, as_json: bool) -> None:
    """Make NAME the current context."""
    known = load_contexts()
    found = find_context(known, name)
    save_contexts(msgspec.structs.replace(known, current=name))
    output.write_result(
        {"name": name, "url": found.url, "current": True}, f"{name} ({found.url}) is now the current context", as_json
    )


@context.command("ls")
@options.common
def list_(as_json: bool) -> None:
    """List the contexts, without their tokens."""
    known = load_contexts()
    rows = [_describe(name, known) for name in sorted(known.contexts)]
    if as_json:
        for row in rows:
            output.write_json(row)
    elif rows:
        table = [("*" if row["current"] else "", *(str(row[key]) for key in ("name", "url", "token"))) for row in rows]
        output.write_table(("", "NAME", "URL", "TOKEN"), table)
    else:
        output.note_empty("no contexts: add one with `mainstem context add NAME --url URL`")


@context.command()
@click.argument("name", required=False)
@options.common
def show(name: str | None, as_json: bool) -> None:
    """Show the context NAME, or the server that commands use by default."""
    if name is not None:
        known = load_contexts()
        find_context(known, name)
        output.write_facts(_describe(name, known), as_json)
        return
    address = find_address(None, None, None)
    facts = {
        "name": address.context,
        "url": address.url,
        "token": "kept" if address.token else "none",
        "stream_prefix": address.stream_prefix,
        "file": str(contexts_path()),
    }
    output.write_facts(facts, as_json)


@context.command()
@click.argument("name")
@options.common
def rm(name: str, as_json: bool) -> None:
    """Delete the context NAME."""
    known = load_contexts()
    find_context(known, name)
    contexts = {other: value for other, value in known.contexts.items() if other != name}
    save_contexts(Contexts(contexts, None if known.current == name else known.current))
    output.write_result({"name": name, "removed": True}, f"deleted {name}", as_json)


def _describe(name: str, known: Contexts) -> dict[str, str | bool]:
    found = known.contexts[name]
    token = f"from {found.token_file}" if found.token_file else "kept" if found.token else "none"
    return {
        "name": name,
        "url": found.url,
        "token": token,
        "stream_prefix": found.stream_prefix or PREFIX,
        "current": known.current == name,
    }
