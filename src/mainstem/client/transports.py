"""What both clients need of httpx2: how it is set up, and what its exceptions mean."""

import ssl
from typing import Any

import httpx2

from mainstem import limits
from mainstem.client.core.effects import NoResponse
from mainstem.client.core.errors import BadArgument, ClientError, TooMuchData
from mainstem.client.core.protocol import Request, Response

NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


def client_options(url: str, timeout_s: float, verify: ssl.SSLContext | bool) -> dict[str, Any]:
    return {
        "timeout": httpx2.Timeout(timeout_s),
        "limits": httpx2.Limits(
            max_connections=limits.CLIENT_CONNECTIONS_MAX,
            max_keepalive_connections=limits.CLIENT_CONNECTIONS_MAX,
            keepalive_expiry=limits.CLIENT_KEEP_ALIVE_S,
        ),
        "follow_redirects": True,
        "max_redirects": limits.CLIENT_REDIRECTS_MAX,
        # Reading all certificates takes longer than everything else, and http has no use for them.
        "verify": verify if url.startswith("https://") else False,
    }


def request_options(url: str, request: Request, timeout_s: float) -> dict[str, Any]:
    read_timeout_s = timeout_s if request.read_timeout_s is None else request.read_timeout_s
    headers = request.headers
    if request.on_body_sent is not None:  # its body goes as an iterator, which would be sent in chunks
        headers = {**headers, "content-length": str(len(request.body))}
    return {
        "method": request.method,
        "url": url + request.target,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "content": request.body if request.body or request.method in ("POST", "PUT") else None,
        "timeout": httpx2.Timeout(timeout_s, read=read_timeout_s),
    }


def check_open(closed: bool) -> None:
    if closed:
        raise BadArgument("this client is disconnected: make a new one")


def read_head(response: httpx2.Response, body: bytes = b"") -> Response:
    return Response(response.status_code, dict(response.headers), body)


def check_size(size: int) -> None:
    if size > limits.CLIENT_RESPONSE_BYTES_MAX:
        raise TooMuchData(f"a reply is larger than {limits.CLIENT_RESPONSE_BYTES_MAX} bytes")


def translate_error(error: Exception) -> NoResponse | ClientError:
    """httpx2's exception as ours. Only what failed before the request left is certain to be without effect."""
    reason = str(error) or type(error).__name__
    if isinstance(error, (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError)):
        return BadArgument(f"this request cannot be sent: {reason}")
    timed_out = isinstance(error, httpx2.TimeoutException)
    if timed_out:
        reason = f"the server was silent for too long ({type(error).__name__})"
    return NoResponse(reason, sent=not isinstance(error, NEVER_SENT), timed_out=timed_out)


HTTP_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError)
