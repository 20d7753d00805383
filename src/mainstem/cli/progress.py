"""Progress bars on standard error, if it is a terminal; only then is rich imported."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int, int | None], None]
"""Called with the amount that is done, and the total if it is known."""


def ignore_progress(done: int, total: int | None) -> None:
    """Show nothing."""


def is_visible(as_json: bool = False) -> bool:
    """Return whether to show a bar: standard error is a terminal, and the output is not JSON."""
    return sys.stderr.isatty() and not as_json


@contextmanager
def bar(label: str, *, then: str = "", bytes_: bool = True, shown: bool = True) -> Iterator[Advance]:
    """Show a bar. `then` replaces the label once everything is done, while the command still works."""
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
