"""Progress bars on standard error: only on a terminal, and rich is only imported then."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int, int | None], None]
"""Told how much is done, and of how much if that is known."""


def ignore_progress(done: int, total: int | None) -> None:
    """Nobody watches."""


def is_visible(as_json: bool = False) -> bool:
    """Whether somebody sees a bar: standard error is a terminal, and the output does not run over it."""
    return sys.stderr.isatty() and not as_json


@contextmanager
def bar(label: str, *, then: str = "", bytes_: bool = True, shown: bool = True) -> Iterator[Advance]:
    """`then` is what goes on when all of it is done."""
    if not shown:
        yield ignore_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amounts: list[Any] = [DownloadColumn(), TransferSpeedColumn()] if bytes_ else [MofNCompleteColumn()]
    columns = [TextColumn("{task.description}"), BarColumn(), *amounts, TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)

        def advance(done: int, total: int | None) -> None:
            over = bool(then) and done == total
            progress.update(task, completed=done, total=total, description=then if over else label)

        yield advance
