"""The streams client's errors, as messages and exit codes for a person at a terminal."""

import re

from mainstem.cli.failures import ExitCode, Failure, current_request, explain_denial
from mainstem.client.core import errors

ErrorType = type[errors.ClientError]

CODES: list[tuple[ErrorType, ExitCode]] = [  # the first match counts
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

# The client's own hints are for programmers. These replace them.
ADVICE: list[tuple[ErrorType, str]] = [
    (errors.TimedOut, "the server is slow or stuck; check it, and try again"),
    (errors.ConnectionFailed, "start a server with `mainstem serve`, or choose another with --url or --context"),
    (errors.InvalidResponse, "check --url: another server, or a proxy, may have answered"),
    (errors.OutcomeUnknown, "the server stored it once or not at all; read the end of the stream before you repeat it"),
    (errors.Forbidden, "ask for a token that allows it"),
    (errors.NotFound, "list the streams with `mainstem stream ls`"),
    (errors.ContentTypeMismatch, "omit --type to use the stream's own content type"),
    (errors.StreamExists, "use the stream as it is, or choose another path"),
    (errors.StreamClosed, "append to another stream"),
    (errors.ServerFailed, "try again later; the server's log has the reason"),
]

# A reply to HEAD has no body with a reason.
STATUS_TEXTS = {
    403: "the token does not allow this",
    404: "there is no such stream",
    410: "the stream was deleted",
}
CALL = re.compile(
    r"(?:[A-Z]+|append\w*|close|create|delete|follow|fork|head|list|read\w*) (?P<target>.*?)(?:\?\S*)?"
    r"(?: at (?P<url>https?://\S+))?: (?:cannot connect to (?P<other>https?://\S+): )?"
)
"""The beginning of the client's details: its method, or that of HTTP, and the stream or the path of the server."""
PROBLEM = "application/problem+json"
FOREIGN_STATUSES = frozenset([404, 405, 501])


def explain_client_error(error: errors.ClientError) -> Failure:
    detail = error.detail.replace("\n", " ").rstrip(".")
    call = CALL.match(detail)
    reason = detail if call is None else detail[call.end() :]
    if isinstance(error, errors.Unauthorized):
        return explain_denial("" if reason.startswith("the server ") else reason)
    if error.status in STATUS_TEXTS and reason == f"the server answered {error.status}":
        reason = STATUS_TEXTS[error.status]
    code = next((code for type_, code in CODES if isinstance(error, type_)), ExitCode.FAILED)
    advice = next((advice for type_, advice in ADVICE if isinstance(error, type_)), error.hint)
    current = current_request()
    if call is not None and isinstance(error, errors.ConnectionFailed):
        url = call["url"] or call["other"] or (current.url if current else "the server")
        detail = f"cannot reach {url}: {_plain(reason)}"
    elif call is not None:
        about_stream = not call["target"].startswith("/")
        detail = f"{call['target'] if about_stream or current is None else current.command}: {reason}"
        if isinstance(error, errors.ResponseError) and current is not None and _is_foreign(error, about_stream):
            detail = f"{current.command}: {current.url} is not a Mainstem server: it answered {error.status}"
            advice = "check --url; the URL of a server ends before /v1"
        elif isinstance(error, errors.ResponseError) and error.facts.get("code") == "not_found":
            advice = "check --url, and MAINSTEM_STREAM_PREFIX if the server serves streams under another path"
        elif isinstance(error, errors.NotFound) and not about_stream:
            advice = "check the name and --url"
    if isinstance(error, errors.OffsetGone) and error.earliest_offset is not None:
        advice = f"continue from --offset {error.earliest_offset}"
    between = ". " if advice[:1].isupper() else ": "  # the client's own hints are sentences
    return Failure(f"{detail}{between}{advice}" if advice else detail, code)


def _plain(reason: str) -> str:
    """Return the reason of a failed connection without the number of its system error, in lower case."""
    reason = re.sub(r"^\[Errno -?\d+\] ", "", reason)
    return reason[:1].lower() + reason[1:]


def _is_foreign(error: errors.ResponseError, about_stream: bool) -> bool:
    """Return whether the reply is of another kind of server: Mainstem sends a problem document with every error.

    Other servers of Durable Streams do not, so a missing stream proves nothing.
    """
    if error.status not in FOREIGN_STATUSES or error.headers.get("content-type", "").startswith(PROBLEM):
        return False
    return not (about_stream and error.status == 404)
