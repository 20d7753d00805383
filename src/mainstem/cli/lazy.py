"""Command groups: suggestions for misspelt commands, complete help, and commands that are imported only when used."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

ALIASES = {"list": "ls"}
"""Other names for commands, in every group that has the command."""


class CommandGroup(click.Group):
    """A group that suggests a command for a misspelt one, knows the aliases, and lists its commands in full."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = self.find_command(ctx, cmd_name)
        if command is None and cmd_name in ALIASES:
            command = self.find_command(ctx, ALIASES[cmd_name])
        return command

    def find_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command with exactly this name."""
        return super().get_command(ctx, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no command {name!r}. {self._suggest(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _suggest(self, ctx: click.Context, name: str) -> str:
        names = self.list_commands(ctx)
        close = get_close_matches(name, names) or [known for known in names if name and known.startswith(name)]
        if close:
            return f"Did you mean {' or '.join(close)}?"
        return f"Choose one of {', '.join(names)}."

    def describe_command(self, ctx: click.Context, name: str) -> str:
        """Return the whole first sentence of a command's help."""
        command = self.find_command(ctx, name)
        assert command is not None
        return command.get_short_help_str(limit=1_000)  # click would cut it off to fit on one line

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.describe_command(ctx, name)) for name in self.list_commands(ctx)])


class Lazy(NamedTuple):
    """The location of a command, and its line in the list of commands."""

    module: str
    name: str
    help: str


class LazyGroup(CommandGroup):
    """A group that imports a command only when it is used, so that `mainstem --help` is fast."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *(name for name in super().list_commands(ctx) if name not in self.lazy)]

    def find_command(self, ctx: click.Context, name: str) -> click.Command | None:
        known = self.lazy.get(name)
        if known is None:
            return super().find_command(ctx, name)
        command = getattr(import_module(known.module), known.name)
        assert isinstance(command, click.Command)
        return command

    def describe_command(self, ctx: click.Context, name: str) -> str:
        return self.lazy[name].help if name in self.lazy else super().describe_command(ctx, name)
