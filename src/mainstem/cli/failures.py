"""How a command ends: whatever went wrong becomes one line on standard error that says what to do, and an exit code."""

import errno
import os
import sys
import traceback
from enum import IntEnum
from typing import IO, Any, NoReturn

import click

from mainstem import errors
from mainstem.escaping import escape_text


class ExitCode(IntEnum):
    """Scripts depend on these: add, never change."""

    DONE = 0
    FAILED = 1
    """The server refused the request, a check found faults, or a copy could not be made."""
    USAGE = 2
    UNREACHABLE = 3
    """No server answers, or the connection was lost and did not come back."""
    DENIED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    LOCAL = 7
    """A file, directory or disk of this machine."""
    UNAVAILABLE = 8
    """The server answers, but cannot do it now."""
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(click.ClickException):
    """The end of a command: what is said, and the exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"mainstem: {escape_text(self.message)}", file=file, err=True)


def is_verbose(context: click.Context) -> bool:
    return bool(context.find_root().meta.get("mainstem.verbose"))


def exit_with(context: click.Context, error: BaseException) -> NoReturn:
    """Say what happened, and end."""
    if isinstance(error, BrokenPipeError):
        _give_up_stdout()
        raise click.exceptions.Exit(ExitCode.BROKEN_PIPE)  # who reads the output has had enough: nothing to say
    if is_verbose(context):
        traceback.print_exception(error)
    raise explain(error) from None


def explain(error: BaseException) -> Failure:
    if isinstance(error, Failure):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", ExitCode.INTERRUPTED)
    if isinstance(error, errors.MainstemError):
        return Failure(_sentence(error.detail, error.hint), _code_of(error))
    client = sys.modules.get("mainstem.client.core.errors")  # raised by it, so it is loaded
    if client is not None and isinstance(error, client.ClientError):
        from mainstem.cli.client_errors import explain_client_error

        return explain_client_error(error)
    if isinstance(error, OSError):
        return _explain_os_error(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OF_SPARK:
        return explain(errors.MissingSpark(f"the package {error.name} is not installed"))
    said = f"{type(error).__name__}: {error}".replace("\n", " ")
    return Failure(f"a fault of mainstem itself ({said}); please report it, with what --verbose shows", ExitCode.BUG)


OF_SPARK = frozenset(["deltalake", "numpy", "pandas", "pyarrow", "pyspark"])
"""What only an installation with the extra `spark` has."""

CODES: dict[type[errors.MainstemError], ExitCode] = {
    errors.SettingsError: ExitCode.USAGE,
    errors.BadRequest: ExitCode.USAGE,
    errors.BadOption: ExitCode.USAGE,
    errors.StoreLocked: ExitCode.LOCAL,
    errors.StoreUnusable: ExitCode.LOCAL,
    errors.StoreTooNew: ExitCode.LOCAL,
    errors.BackupTargetFull: ExitCode.LOCAL,
    errors.MissingJava: ExitCode.LOCAL,
    errors.MissingSpark: ExitCode.LOCAL,
    errors.ServerUnreachable: ExitCode.UNREACHABLE,
}


def _code_of(error: errors.MainstemError) -> ExitCode:
    if isinstance(error, errors.RequestRefused) and error.facts.get("refused") in (401, 403):
        return ExitCode.DENIED
    return next((code for type_, code in CODES.items() if isinstance(error, type_)), ExitCode.FAILED)


def _explain_os_error(error: OSError) -> Failure:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(f"{where}no space left on the disk: free some, or write elsewhere", ExitCode.LOCAL)
    return Failure(f"{where}{error.strerror or error}", ExitCode.LOCAL)


def _sentence(detail: str, hint: str) -> str:
    return f"{detail}: {hint}" if hint else detail


def _give_up_stdout() -> None:
    """What is still buffered would be written at the end of the process, and fail there once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
