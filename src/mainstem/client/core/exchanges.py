"""One request until it has an answer that counts: the retries, the token and the errors, without any I/O.

A call is a generator. It yields what is to be done (send a request, wait, ask a callable for a value), and is sent what
came of it. The two clients do these few things, one with await and one without; everything else is here, once.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from mainstem.client.core.errors import (
    BadArgument,
    ClientError,
    ConnectionFailed,
    Forbidden,
    NotFound,
    OutcomeUnknown,
    ResponseError,
    StaleEpoch,
    StreamClosed,
    TimedOut,
    Unauthorized,
    error_of,
)
from mainstem.client.core.protocol import Request, Response, with_query
from mainstem.client.core.retries import Retries, read_retry_after

T = TypeVar("T")

Given = str | Callable[[], Any]
"""A text, or a callable that gives it anew for each request; with AsyncStreams it may be a coroutine function."""


@dataclass(frozen=True)
class Send:
    """Send a request and take in its whole reply: a Response, or Lost is thrown in."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request and take in the head of its reply, as a Response without a body if it is a success.

    It stays open until its end, or until something else is asked for than to receive.
    """

    request: Request


@dataclass(frozen=True)
class Receive:
    """Take the next piece of what was opened: bytes, none at its end; Lost is thrown in when it breaks."""


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Ask:
    """Call something of the caller's, for a token or a header."""

    function: Callable[[], Any]


Effect = Send | Open | Receive | Wait | Ask
Call = Generator[Effect, Any, T]


class Lost(Exception):
    """There is no reply. `sent` is False when the server cannot have seen the request."""

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.timed_out = timed_out


# After these an earlier attempt, whose reply was lost, may have been stored all the same. Any other refusal of a
# stream comes after it has looked for duplicates.
UNDECIDED = (StreamClosed, NotFound, StaleEpoch, Unauthorized, Forbidden)


@dataclass(frozen=True)
class Exchanges:
    """How this client sends: to whom, as whom, and how often again."""

    url: str
    token: Given | None
    headers: Mapping[str, Given]
    params: Mapping[str, Given]
    retries: Retries
    chance: Callable[[], float]
    clock_s: Callable[[], float]
    """Monotonic: it never jumps, whatever happens to the time of day."""

    def exchange(self, request: Request, *, opens: bool = False, retries: Retries | None = None) -> Call[Response]:
        """The reply to a request, if it is a success; everything else is raised, after the retries that make sense.

        A request that is not `safe` is sent again only if the server cannot have acted on it.
        """
        retries = retries or self.retries
        failures, unsure = 0, False
        while True:
            failure: ClientError
            wait_s = None
            try:
                response = yield from self.attempt(request, opens=opens)
            except Lost as lost:
                failure = describe_loss(request, lost, self.url)
                if lost.sent:
                    unsure = True
                    if not request.safe:
                        raise OutcomeUnknown(f"{request}: {lost.reason}, after it was sent") from failure
            except ResponseError as error:
                failure = error
                wait_s = read_retry_after(error.headers)
                if unsure and request.method == "DELETE" and isinstance(error, NotFound):
                    return Response(204, error.headers)  # an earlier attempt did it
                refused = refused_before(error)
                unsure = unsure or (error.retryable and not refused)
                if not error.retryable or not (request.safe or refused):
                    settle(request, error, unsure)
            else:
                return response
            failures += 1
            if not retries.allow(failures):
                settle(request, failure, unsure)
            yield Wait(max(wait_s or 0.0, retries.delay(failures, self.chance)))

    def attempt(self, request: Request, *, opens: bool = False) -> Call[Response]:
        """The reply to one attempt, if it is a success. A token that has expired on its way is asked for once more."""
        refreshed = False
        while True:
            dressed = yield from self.dress(request)
            response: Response = yield Open(dressed) if opens else Send(dressed)
            if response.ok:
                return response
            error = error_of(
                str(request),
                response.status,
                response.headers,
                response.body,
                seq_sent="stream-seq" in request.headers,
            )
            if refreshed or not isinstance(error, Unauthorized) or not callable(self.token):
                raise error
            refreshed = True

    def dress(self, request: Request) -> Call[Request]:
        """The request with the token and headers of this client, which may differ each time."""
        headers = {}
        for name, value in self.headers.items():
            headers[name.lower()] = yield from evaluate(value, name)
        if self.token is not None:
            headers["authorization"] = "Bearer " + (yield from evaluate(self.token, "token"))
        query = {}
        for name, value in self.params.items():
            query[name] = yield from evaluate(value, name)
        return replace(request, target=with_query(request.target, query), headers={**headers, **request.headers})


def evaluate(value: Given, name: str) -> Call[str]:
    given = (yield Ask(value)) if callable(value) else value
    if not isinstance(given, str):
        raise BadArgument(f"{name} must be one line of text, and not {type(given).__name__}")
    if "\r" in given or "\n" in given:
        raise BadArgument(f"{name} must be one line of text, and this has a line break")
    return given


def describe_loss(request: Request, lost: Lost, url: str) -> ClientError:
    kind = TimedOut if lost.timed_out else ConnectionFailed
    return kind(f"{request} at {url}: {lost.reason}")


def refused_before(error: ResponseError) -> bool:
    """Whether the server turned the request away without acting on it."""
    return error.status in (408, 425, 429, 503)


def settle(request: Request, error: ClientError, unsure: bool) -> NoReturn:
    """Raise an error; but an append that may be stored must not be reported as one that is not."""
    if unsure and request.method == "POST" and (error.retryable or isinstance(error, UNDECIDED)):
        raise OutcomeUnknown(f"{request}: an attempt may have been stored, and then came: {error.detail}") from error
    raise error
