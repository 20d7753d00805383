"""Escaping of other people's data on a terminal. Pipes and files, and --raw, get the bytes unchanged."""

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
        context.meta[RAW] = True


raw_option = click.option(
    "--raw",
    is_flag=True,
    expose_value=False,
    callback=_note_raw,
    help="Print control characters unescaped, even on a terminal.",
)


def is_escaped() -> bool:
    """Return whether standard output is a terminal, which would obey control characters in data."""
    context = click.get_current_context(silent=True)
    return sys.stdout.isatty() and not (context is not None and context.meta.get(RAW))


def show(data: bytes) -> bytes:
    """Return data as it may be written to standard output."""
    return escape_text(data.decode("utf-8", "backslashreplace")).encode() if is_escaped() else data


class IncrementalEscaper:
    """Escapes data that arrives in pieces. A piece may end within a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def show(self, data: bytes, *, last: bool = False) -> bytes:
        return escape_text(self._decoder.decode(data, last)).encode() if is_escaped() else data
