"""The client's errors as a command reports them."""

import click
import pytest

from mainstem.cli.client_errors import explain_client_error
from mainstem.cli.failures import ExitCode, note_request
from mainstem.client.core import errors

URL = "http://127.0.0.1:4437"


@pytest.fixture(autouse=True)
def command():
    """A command that talks to a server, with a token."""
    root = click.Context(click.Group("mainstem"), info_name="mainstem")
    with click.Context(click.Command("ls"), info_name="ls", parent=root) as context:
        note_request(context, URL, has_token=True)
        yield context


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            errors.ConnectionFailed(f"GET /v1/streams at {URL}: [Errno 111] Connection refused"),
            ExitCode.UNREACHABLE,
            f"cannot reach {URL}: connection refused: start a server",
        ),
        (
            errors.ConnectionFailed(f"list /v1/streams: cannot connect to {URL}: connection refused"),
            ExitCode.UNREACHABLE,
            f"cannot reach {URL}: connection refused: start a server",
        ),
        (
            errors.NotFound("read a b/c: there is no such stream", status=404, headers={"content-type": "text/plain"}),
            ExitCode.NOT_FOUND,
            "a b/c: there is no such stream: list the streams",
        ),
        (
            errors.NotFound("GET /v1/log/head: Not Found", status=404, headers={"content-type": "text/html"}),
            ExitCode.NOT_FOUND,
            f"ls: {URL} is not a Mainstem server: it answered 404: check --url",
        ),
        (
            errors.Unauthorized("head x: the server answered 401", status=401),
            ExitCode.DENIED,
            f"ls: {URL} rejected the token: pass a valid one with --token",
        ),
        (
            errors.Unauthorized("head x: the token has expired", status=401),
            ExitCode.DENIED,
            f"ls: {URL} rejected the token (the token has expired): pass a valid one with --token",
        ),
        (
            errors.OffsetGone("read x: gone", status=410, headers={"stream-earliest-offset": "5"}),
            ExitCode.NOT_FOUND,
            "x: gone: continue from --offset 5",
        ),
        (
            errors.BadArgument("this request cannot be sent: it has a line break"),
            ExitCode.USAGE,
            "this request cannot be sent: it has a line break",
        ),
    ],
)
def test_an_error_names_its_subject_its_reason_and_the_way_out(error, code, said):
    failure = explain_client_error(error)
    assert failure.exit_code == code
    assert failure.message.startswith(said)


def test_a_server_of_streams_of_another_kind_may_lack_a_stream():
    error = errors.NotFound("head x: the server answered 404", status=404, headers={"content-type": "text/plain"})
    assert explain_client_error(error).message.startswith("x: there is no such stream: ")


def test_a_command_without_a_token_is_told_to_pass_one(command):
    note_request(command, URL, has_token=False)
    failure = explain_client_error(errors.Unauthorized("GET /v1/streams: no token", status=401))
    assert failure.message.startswith(f"ls: {URL} requires a token: pass one with --token, set MAINSTEM_TOKEN, or ")
