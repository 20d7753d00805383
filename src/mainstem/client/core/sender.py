"""Sends one request until there is a reply that counts: retries, the token and errors, without any I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from mainstem.client.core.addresses import is_web_page, name_wrong_server, report_web_page
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
from mainstem.client.core.retries import Retries, Retry, read_retry_after

TextSource = str | Callable[[], Any]
"""A text, or a callable that returns it for each request; with AsyncStreams it may be a coroutine function."""

# After these errors, an earlier attempt whose reply was lost may still have been stored. A server refuses an append for
# any other reason only after it has looked for duplicates.
INCONCLUSIVE = (StreamClosed, NotFound, StaleEpoch, Unauthorized, Forbidden)


@dataclass
class Sender:
    """How one client sends requests: to which server, with which token, and with which retries."""

    url: str
    token: TextSource | None
    headers: Mapping[str, TextSource]
    params: Mapping[str, TextSource]
    retries: Retries
    first_retries: Retries
    """The retries of calls that get no reply while the server has never answered this client."""
    chance: Callable[[], float]
    clock_s: Callable[[], float]
    """A monotonic clock: it never jumps, even if somebody changes the time of day."""
    report: Callable[[Retry], None]
    reached: bool = False
    """Whether the server has ever answered."""

    def send(self, request: Request, *, opens: bool = False, retries: Retries | None = None) -> Operation[Response]:
        """Return the reply to a request if it is a success. Raise everything else, after the retries that make sense.

        A request that is not `safe` is sent again only if the server cannot have acted on it.
        """
        failures, maybe_stored = 0, False
        while True:
            failure: ClientError
            wait_s = None
            allowed = retries or self.retries
            try:
                response = yield from self.attempt(request, opens=opens)
            except NoResponse as no_response:
                failure = self.explain(request, no_response)
                if no_response.sent:
                    maybe_stored = True
                    if not request.safe:
                        reason = f"{request}: the request was sent, and then {no_response.reason}"
                        raise OutcomeUnknown(reason) from failure
                if no_response.is_final:
                    raise failure from None
                if not (self.reached or retries):
                    allowed = self.first_retries
            except ResponseError as error:
                failure = error
                wait_s = read_retry_after(error.headers)
                if maybe_stored and request.method == "DELETE" and isinstance(error, NotFound):
                    return Response(204, error.headers)  # an earlier attempt deleted it
                refused = was_not_processed(error)
                maybe_stored = maybe_stored or (error.retryable and not refused)
                if not error.retryable or not (request.safe or refused):
                    raise_final(request, error, maybe_stored)
            else:
                return response
            failures += 1
            if not allowed.allow(failures):
                raise_final(request, failure, maybe_stored)
            delay_s = max(wait_s or 0.0, allowed.delay(failures, self.chance))
            self.report(self.describe_retry(request, failure, failures, allowed, delay_s))
            yield Wait(delay_s)

    def describe_retry(
        self, request: Request, failure: ClientError, failures: int, retries: Retries, wait_s: float
    ) -> Retry:
        remaining_s = retries.remaining_s(failures)
        return Retry(
            call=str(request),
            url=self.url,
            error=failure,
            failures=failures,
            attempts_max=retries.attempts_max,
            wait_s=wait_s,
            remaining_s=None if remaining_s is None else max(remaining_s, wait_s),
        )

    def attempt(self, request: Request, *, opens: bool = False) -> Operation[Response]:
        """Return the reply to one attempt if it is a success. If a token has expired, ask once for a new one."""
        refreshed = False
        while True:
            complete = yield from self.add_client_headers(request)
            response: Response = yield Open(complete) if opens else Send(complete)
            self.reached = True
            if response.ok:
                if request.call and is_web_page(response.headers):
                    raise report_web_page(str(request), self.url, response.status)
                return response
            error = error_of(
                str(request),
                response.status,
                response.headers,
                response.body,
                seq_sent="stream-seq" in request.headers,
            )
            if request.call:
                name_wrong_server(error, str(request), self.url)
            if refreshed or not isinstance(error, Unauthorized) or not callable(self.token):
                raise error
            refreshed = True

    def explain(self, request: Request, no_response: NoResponse) -> ClientError:
        """Return the error for a request that got no reply."""
        if no_response.timed_out:
            return TimedOut(f"{request} at {self.url}: {no_response.reason}")
        if not no_response.sent:
            hint = None
            if no_response.is_final:
                hint = "Use http:// for a server without TLS, or pass verify= with the certificates that you trust."
            return ConnectionFailed(f"{request}: cannot connect to {self.url}: {no_response.reason}", hint=hint)
        detail = f"{request} at {self.url}: {no_response.reason}"
        if self.reached:
            return ConnectionFailed(detail)
        hint = "Nothing at this address has answered over HTTP yet: check the host, the port, and http or https."
        return ConnectionFailed(detail, hint=hint)

    def add_client_headers(self, request: Request) -> Operation[Request]:
        """Return the request with the token, headers and query parameters of this client, which may change."""
        headers = {}
        for name, value in self.headers.items():
            headers[name.lower()] = yield from resolve(value, name)
        if self.token is not None:
            headers["authorization"] = "Bearer " + check_token((yield from resolve(self.token, "token")))
        query = {}
        for name, value in self.params.items():
            query[name] = yield from resolve(value, name)
        return replace(request, target=with_query(request.target, query), headers={**headers, **request.headers})


def resolve(value: TextSource, name: str) -> Operation[str]:
    resolved = (yield Invoke(value)) if callable(value) else value
    if not isinstance(resolved, str):
        raise BadArgument(f"{name} must be a str, not {type(resolved).__name__}")
    if "\r" in resolved or "\n" in resolved:
        raise BadArgument(f"{name} must not contain a line break")
    return resolved


def check_token(token: str) -> str:
    """Return a token that fits into a header; whether it is valid is for the server to decide."""
    if not token or not token.isprintable() or token != token.strip():
        wrong = "is empty" if not token.strip() else "contains white space at its ends, or control characters"
        raise BadArgument(f"token {wrong}: pass a valid one, or leave it out if the server requires none")
    return token


def was_not_processed(error: ResponseError) -> bool:
    """Return whether the server refused the request without acting on it."""
    return error.status in (408, 425, 429, 503)


def raise_final(request: Request, error: ClientError, maybe_stored: bool) -> NoReturn:
    """Raise the error of a call. An append that may have been stored must not be reported as one that was not."""
    if maybe_stored and request.method == "POST" and (error.retryable or isinstance(error, INCONCLUSIVE)):
        raise OutcomeUnknown(
            f"{request}: an earlier attempt may have been stored; the last error: {error.detail}"
        ) from error
    raise error
