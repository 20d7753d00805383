"""Data of strangers on a terminal. Into a pipe or a file, and with --raw, bytes go as they are."""

import codecs
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mainstem.escaping import escape_text

F = TypeVar("F", bound=Callable[..., Any])
RAW = "mainstem.raw"


def _note_raw(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        context.find_root().meta[RAW] = True


raw_option = click.option(
    "--raw",
    is_flag=True,
    expose_value=False,
    callback=_note_raw,
    help="Print control characters as they are, on a terminal too.",
)


def is_escaped() -> bool:
    """Whether standard output is a terminal that must be kept from obeying data."""
    context = click.get_current_context(silent=True)
    return sys.stdout.isatty() and not (context is not None and context.find_root().meta.get(RAW))


def show(data: bytes) -> bytes:
    """Whole data, as it may be written to standard output."""
    return escape_text(data.decode("utf-8", "backslashreplace")).encode() if is_escaped() else data


class IncrementalEscaper:
    """The same for data that comes in pieces, of which one may end within a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def show(self, data: bytes, *, last: bool = False) -> bytes:
        return escape_text(self._decoder.decode(data, last)).encode() if is_escaped() else data
