"""The errors of runs. They belong to the tree of the client's errors, with stable codes."""

from mainstem.client.core.errors import ClientError


class RunNotFound(ClientError):
    """No process remembers a run with this id."""

    code = "run_not_found"


class RunInProgress(ClientError):
    """Another run with this id is active, for another message."""

    code = "run_in_progress"
    hint = "Stop it, or wait until it has ended."


class RunsNotOpen(ClientError):
    """The `Runs` of this process are not open yet, or no longer."""

    code = "runs_not_open"
    retryable = True
    hint = "Use them inside `async with Runs(...)`, or in an app with their lifespan."


class TooManyRuns(ClientError):
    """This process has as many runs as it may have."""

    code = "too_many_runs"
    retryable = True
    hint = "Try again later."


class RequestForbidden(ClientError):
    """The routes refuse such requests, whatever token they have."""

    code = "forbidden"


class RunsUnavailable(ClientError):
    """The routes cannot use the log. Visitors get this error in place of the log's own."""

    code = "runs_unavailable"
    retryable = True
    hint = "Try again in a moment."


class RequestTooLarge(ClientError):
    """The request that starts a run is larger than the routes accept."""

    code = "body_too_large"


class StreamInUse(ClientError):
    """The stream of a new run is no JSON stream, or has data already or another run although one is to close it."""

    code = "stream_in_use"
    hint = "Choose another stream."
