"""How a command ends: every error becomes one line on standard error, with a way out, and an exit code."""

import errno
import os
import sys
import traceback
from enum import IntEnum
from typing import IO, Any, NamedTuple, NoReturn

import click

from mainstem import errors
from mainstem.escaping import escape_text

VERBOSE = "mainstem.verbose"
REQUEST = "mainstem.request"


class ExitCode(IntEnum):
    """Scripts depend on these: add new ones, and never change the meaning of one."""

    DONE = 0
    FAILED = 1
    """The server refused the request, a check found faults, or a copy could not be made."""
    USAGE = 2
    UNREACHABLE = 3
    """No server answered, or the connection was lost and could not be restored."""
    DENIED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    LOCAL = 7
    """A problem with a file, directory, disk or lock on this machine."""
    UNAVAILABLE = 8
    """The server answered that it cannot handle the request now."""
    BUG = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(click.ClickException):
    """An error that ends a command: its message and its exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"mainstem: {escape_text(self.message)}", file=file, err=True)


def is_verbose(context: click.Context) -> bool:
    return bool(context.meta.get(VERBOSE))


class ServerRequest(NamedTuple):
    """The command that talks to a server, for the messages of its errors."""

    command: str
    url: str
    has_token: bool


def note_request(context: click.Context, url: str, *, has_token: bool) -> None:
    """Remember which server a command talks to, and the subscription that it names."""
    command = context.command_path.removeprefix(f"{context.find_root().info_name} ")
    if name := context.params.get("name"):
        command += f" {name}"
    context.meta[REQUEST] = ServerRequest(command, url, has_token)


def current_request() -> ServerRequest | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(REQUEST)


def lacks_token() -> bool:
    request = current_request()
    return request is not None and not request.has_token


def explain_denial(reason: str = "") -> Failure:
    """Return the failure for a server that requires a token, or that does not accept the one it received."""
    command, url, has_token = current_request() or ServerRequest("this command", "the server", has_token=False)
    ways = "pass {} with --token, set MAINSTEM_TOKEN, or save it with `mainstem context add`"
    if not has_token:
        return Failure(f"{command}: {url} requires a token: {ways.format('one')}", ExitCode.DENIED)
    why = f" ({reason})" if reason else ""
    return Failure(f"{command}: {url} rejected the token{why}: {ways.format('a valid one')}", ExitCode.DENIED)


def exit_with(context: click.Context, error: BaseException) -> NoReturn:
    """Print one line about an error, and end the process."""
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        raise click.exceptions.Exit(ExitCode.BROKEN_PIPE)  # the reader of the output has closed it: say nothing
    if is_verbose(context):
        traceback.print_exception(error)
    raise explain(error) from None


def explain(error: BaseException) -> Failure:
    """Return the message and the exit code for any error."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Failure("interrupted", ExitCode.INTERRUPTED)
    if isinstance(error, errors.RequestRefused) and error.facts.get("refused") == 401 and lacks_token():
        return explain_denial()
    if isinstance(error, errors.MainstemError):
        return Failure(_sentence(error.detail, error.hint), _code_of(error))
    client = sys.modules.get("mainstem.client.core.errors")  # it is loaded if it has raised this error
    if client is not None and isinstance(error, client.ClientError):
        from mainstem.cli.client_errors import explain_client_error

        return explain_client_error(error)
    if isinstance(error, OSError):
        return _explain_os_error(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in OF_SPARK:
        return explain(errors.MissingSpark(f"the package {error.name} is not installed"))
    said = f"{type(error).__name__}: {error}".replace("\n", " ")
    return Failure(f"this is a bug in mainstem ({said}): please report it with the output of --verbose", ExitCode.BUG)


OF_SPARK = frozenset(["cronsim", "deltalake", "numpy", "pandas", "pyarrow", "pyspark"])
"""Packages that only the extra `spark` installs."""

CODES: dict[type[errors.MainstemError], ExitCode] = {
    errors.SettingsError: ExitCode.USAGE,
    errors.BadRequest: ExitCode.USAGE,
    errors.BadOption: ExitCode.USAGE,
    errors.StoreLocked: ExitCode.LOCAL,
    errors.StoreUnusable: ExitCode.LOCAL,
    errors.StoreTooNew: ExitCode.LOCAL,
    errors.BackupTargetFull: ExitCode.LOCAL,
    errors.PipelineLocked: ExitCode.LOCAL,
    errors.MissingJava: ExitCode.LOCAL,
    errors.MissingSpark: ExitCode.LOCAL,
    errors.VersionMismatch: ExitCode.LOCAL,
    errors.LocationNotWritable: ExitCode.LOCAL,
    errors.ServerUnreachable: ExitCode.UNREACHABLE,
}


def _code_of(error: errors.MainstemError) -> ExitCode:
    if isinstance(error, errors.RequestRefused) and error.facts.get("refused") in (401, 403):
        return ExitCode.DENIED
    return next((code for type_, code in CODES.items() if isinstance(error, type_)), ExitCode.FAILED)


def _explain_os_error(error: OSError) -> Failure:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Failure(f"{where}no space is left on the disk: free some, or write to another one", ExitCode.LOCAL)
    return Failure(f"{where}{error.strerror or error}", ExitCode.LOCAL)


def _sentence(detail: str, hint: str) -> str:
    return f"{detail}: {hint}" if hint else detail


def _discard_stdout() -> None:
    """Send buffered output to /dev/null: Python writes it when the process ends, which would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
