"""What the client's errors mean to somebody at a terminal."""

from mainstem.cli.failures import ExitCode, Failure
from mainstem.client.core import errors

ErrorType = type[errors.ClientError]

CODES: list[tuple[ErrorType, ExitCode]] = [  # the first that fits
    (errors.BadArgument, ExitCode.USAGE),
    (errors.ConnectionFailed, ExitCode.UNREACHABLE),
    (errors.OutcomeUnknown, ExitCode.UNREACHABLE),
    (errors.Unauthorized, ExitCode.DENIED),
    (errors.Forbidden, ExitCode.DENIED),
    (errors.StaleEpoch, ExitCode.CONFLICT),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.OffsetGone, ExitCode.NOT_FOUND),
    (errors.Conflict, ExitCode.CONFLICT),
    (errors.TailMoved, ExitCode.CONFLICT),
    (errors.RateLimited, ExitCode.UNAVAILABLE),
    (errors.ServerFailed, ExitCode.UNAVAILABLE),
]

# The client's own hints speak to programmers. These take their place.
ADVICE: list[tuple[ErrorType, str]] = [
    (errors.TimedOut, "the server is slow or stuck; look at it, and try again"),
    (errors.ConnectionFailed, "start a server with `mainstem serve`, or name another with --url or --context"),
    (errors.OutcomeUnknown, "it is stored once or not at all; look at the end of the stream before you repeat it"),
    (errors.Unauthorized, "give a valid one with --token or MAINSTEM_TOKEN, or keep it in a context"),
    (errors.Forbidden, "ask for a token that allows it"),
    (errors.NotFound, "look what is there with `mainstem stream ls`"),
    (errors.ContentTypeMismatch, "leave --type out, and the stream's own is used"),
    (errors.StreamExists, "use it as it is, or another path"),
    (errors.StreamClosed, "use another stream"),
    (errors.ServerFailed, "try again later; the server's log has the reason"),
]


# A reply to HEAD has no body that could tell.
STATUS_TEXTS = {
    401: "the server wants a valid token",
    403: "the token does not allow this",
    404: "there is no such stream",
    410: "the stream was deleted",
}


def explain_client_error(error: errors.ClientError) -> Failure:
    code = next((code for type_, code in CODES if isinstance(error, type_)), ExitCode.FAILED)
    advice = next((advice for type_, advice in ADVICE if isinstance(error, type_)), error.hint)
    detail = error.detail.replace("\n", " ").rstrip(".")
    if error.status in STATUS_TEXTS and detail.endswith(f"the server answered {error.status}"):
        detail = detail.replace(f"the server answered {error.status}", STATUS_TEXTS[error.status])
    if isinstance(error, errors.NotFound) and " /v1/" in detail:  # not of a stream
        advice = "look at the name, and at --url"
    if isinstance(error, errors.OffsetGone) and error.earliest_offset is not None:
        advice = f"read on from --offset {error.earliest_offset}"
    between = ". " if advice[:1].isupper() else ": "  # the client's own hints are sentences
    return Failure(f"{detail}{between}{advice}" if advice else detail, code)
