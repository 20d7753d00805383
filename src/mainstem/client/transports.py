"""The parts of httpx2 that both clients use: how it is set up, and what its exceptions mean."""

import os
import socket
import ssl
from typing import Any

import httpx2

from mainstem import limits
from mainstem.client.core.effects import NoResponse
from mainstem.client.core.errors import BadArgument, ClientError, TooMuchData
from mainstem.client.core.protocol import Request, Response
from mainstem.client.trace_context import add_trace_context

NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


def client_options(url: str, timeout_s: float, verify: ssl.SSLContext | bool) -> dict[str, Any]:
    return {
        "timeout": httpx2.Timeout(timeout_s, connect=min(timeout_s, limits.CLIENT_CONNECT_S)),
        "limits": httpx2.Limits(
            max_connections=limits.CLIENT_CONNECTIONS_MAX,
            max_keepalive_connections=limits.CLIENT_CONNECTIONS_MAX,
            keepalive_expiry=limits.CLIENT_KEEP_ALIVE_S,
        ),
        "follow_redirects": True,
        "max_redirects": limits.CLIENT_REDIRECTS_MAX,
        # Loading the certificates takes longer than everything else here, and plain http has no use for them.
        "verify": verify if url.startswith("https://") else False,
    }


def request_options(url: str, request: Request, timeout_s: float) -> dict[str, Any]:
    read_timeout_s = timeout_s if request.read_timeout_s is None else request.read_timeout_s
    headers = add_trace_context(request.headers)
    if request.on_body_sent is not None:  # the body is an iterator, which httpx2 would send in chunks
        headers = {**headers, "content-length": str(len(request.body))}
    return {
        "method": request.method,
        "url": url + request.target,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "content": request.body if request.body or request.method in ("POST", "PUT") else None,
        "timeout": httpx2.Timeout(timeout_s, read=read_timeout_s, connect=min(timeout_s, limits.CLIENT_CONNECT_S)),
    }


def check_open(closed: bool) -> None:
    if closed:
        raise BadArgument("this client is disconnected: create a new one")


def read_head(response: httpx2.Response, body: bytes = b"") -> Response:
    return Response(response.status_code, dict(response.headers), body)


def check_size(size: int) -> None:
    if size > limits.CLIENT_RESPONSE_BYTES_MAX:
        raise TooMuchData(f"a reply is larger than {limits.CLIENT_RESPONSE_BYTES_MAX} bytes")


def translate_error(error: Exception) -> NoResponse | ClientError:
    """Return httpx2's exception as one of ours. Only a request that never left is certain to have had no effect."""
    if isinstance(error, (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
        return BadArgument("HTTP cannot carry this request: check the URL, the path and the headers")
    if isinstance(error, httpx2.TimeoutException):
        connecting = isinstance(error, NEVER_SENT)
        reason = "connecting took too long" if connecting else "the server was silent for too long"
        return NoResponse(reason, sent=not connecting, timed_out=True)
    cause = find_cause(error)
    return NoResponse(
        describe_failure(error, cause),
        sent=not isinstance(error, NEVER_SENT),
        is_final=isinstance(cause, ssl.SSLError) and isinstance(error, NEVER_SENT),
    )


def find_cause(error: BaseException) -> OSError | None:
    """Return the operating system's or TLS error that an exception was raised for."""
    found, following = None, error.__cause__ or error.__context__
    while following is not None:
        if isinstance(following, OSError) and (found is None or following.errno is not None):
            found = following
        following = following.__cause__ or following.__context__
    return found


def describe_failure(error: Exception, cause: OSError | None) -> str:
    """Return in our own words why there was no reply."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return "it does not speak TLS, or not a version of it that this client accepts"
    if isinstance(cause, socket.gaierror):
        return "the host name is unknown"
    if cause is not None and cause.errno is not None:
        return os.strerror(cause.errno).lower()
    if isinstance(error, httpx2.TooManyRedirects):
        return f"it redirects more than {limits.CLIENT_REDIRECTS_MAX} times"
    if isinstance(error, httpx2.DecodingError):
        return "the compressed reply is corrupt"
    if isinstance(error, httpx2.RemoteProtocolError):
        is_closed = any(word in str(error) for word in ("disconnected", "closed connection"))
        return "the connection was closed before the reply was complete" if is_closed else "the reply is not HTTP"
    return "the connection broke"


HTTP_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
