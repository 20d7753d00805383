"""A group of commands that imports a command only when it is used, so that `mainstem --help` is quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Lazy(NamedTuple):
    """Where a command is, and what the list of commands says of it."""

    module: str
    name: str
    help: str


class LazyGroup(click.Group):
    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *self._others(ctx)]

    def _others(self, ctx: click.Context) -> list[str]:
        return [name for name in super().list_commands(ctx) if name not in self.lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self.lazy.get(cmd_name)
        if known is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(known.module), known.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list, from what is known without an import."""
        rows = [(name, known.help) for name, known in self.lazy.items()]
        for name in self._others(ctx):
            command = super().get_command(ctx, name)
            assert command is not None
            rows.append((name, command.get_short_help_str(limit=formatter.width)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
