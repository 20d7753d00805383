"""Sends one request until it has a reply that counts: retries, the token and errors, without any I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from mainstem.client.core.effects import Invoke, NoResponse, Open, Operation, Send, Wait
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

TextSource = str | Callable[[], Any]
"""A text, or a callable that gives it anew for each request; with AsyncStreams it may be a coroutine function."""

# After these an earlier attempt, whose reply was lost, may have been stored all the same. Any other refusal of a
# stream comes after it has looked for duplicates.
INCONCLUSIVE = (StreamClosed, NotFound, StaleEpoch, Unauthorized, Forbidden)


@dataclass(frozen=True)
class Sender:
    """How this client sends: to whom, as whom, and how often again."""

    url: str
    token: TextSource | None
    headers: Mapping[str, TextSource]
    params: Mapping[str, TextSource]
    retries: Retries
    chance: Callable[[], float]
    clock_s: Callable[[], float]
    """Monotonic: it never jumps, whatever happens to the time of day."""

    def send(self, request: Request, *, opens: bool = False, retries: Retries | None = None) -> Operation[Response]:
        """The reply to a request, if it is a success; everything else is raised, after the retries that make sense.

        A request that is not `safe` is sent again only if the server cannot have acted on it.
        """
        retries = retries or self.retries
        failures, maybe_stored = 0, False
        while True:
            failure: ClientError
            wait_s = None
            try:
                response = yield from self.attempt(request, opens=opens)
            except NoResponse as no_response:
                failure = explain_no_response(request, no_response, self.url)
                if no_response.sent:
                    maybe_stored = True
                    if not request.safe:
                        raise OutcomeUnknown(f"{request}: {no_response.reason}, after it was sent") from failure
            except ResponseError as error:
                failure = error
                wait_s = read_retry_after(error.headers)
                if maybe_stored and request.method == "DELETE" and isinstance(error, NotFound):
                    return Response(204, error.headers)  # an earlier attempt did it
                refused = was_not_processed(error)
                maybe_stored = maybe_stored or (error.retryable and not refused)
                if not error.retryable or not (request.safe or refused):
                    raise_final(request, error, maybe_stored)
            else:
                return response
            failures += 1
            if not retries.allow(failures):
                raise_final(request, failure, maybe_stored)
            yield Wait(max(wait_s or 0.0, retries.delay(failures, self.chance)))

    def attempt(self, request: Request, *, opens: bool = False) -> Operation[Response]:
        """The reply to one attempt, if it is a success. A token that has expired on its way is asked for once more."""
        refreshed = False
        while True:
            complete = yield from self.add_client_headers(request)
            response: Response = yield Open(complete) if opens else Send(complete)
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

    def add_client_headers(self, request: Request) -> Operation[Request]:
        """The request with the token and headers of this client, which may differ each time."""
        headers = {}
        for name, value in self.headers.items():
            headers[name.lower()] = yield from resolve(value, name)
        if self.token is not None:
            headers["authorization"] = "Bearer " + (yield from resolve(self.token, "token"))
        query = {}
        for name, value in self.params.items():
            query[name] = yield from resolve(value, name)
        return replace(request, target=with_query(request.target, query), headers={**headers, **request.headers})


def resolve(value: TextSource, name: str) -> Operation[str]:
    resolved = (yield Invoke(value)) if callable(value) else value
    if not isinstance(resolved, str):
        raise BadArgument(f"{name} must be one line of text, and not {type(resolved).__name__}")
    if "\r" in resolved or "\n" in resolved:
        raise BadArgument(f"{name} must be one line of text, and this has a line break")
    return resolved


def explain_no_response(request: Request, no_response: NoResponse, url: str) -> ClientError:
    kind = TimedOut if no_response.timed_out else ConnectionFailed
    return kind(f"{request} at {url}: {no_response.reason}")


def was_not_processed(error: ResponseError) -> bool:
    """Whether the server turned the request away without acting on it."""
    return error.status in (408, 425, 429, 503)


def raise_final(request: Request, error: ClientError, maybe_stored: bool) -> NoReturn:
    """Raise an error; but an append that may be stored must not be reported as one that is not."""
    if maybe_stored and request.method == "POST" and (error.retryable or isinstance(error, INCONCLUSIVE)):
        raise OutcomeUnknown(f"{request}: an attempt may have been stored, and then came: {error.detail}") from error
    raise error
