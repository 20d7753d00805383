"""Calling webhooks: checks which URLs are allowed, and sends one bounded HTTP request to a checked address.

Names are resolved here, and the connection goes to exactly the address that was checked, so a name that later resolves
to another address (DNS rebinding) achieves nothing. Redirects are never followed.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httptools
import msgspec

from mainstem import limits
from mainstem.errors import WebhookUrlRejected
from mainstem.streams.subscriptions.public_addresses import is_public

PRINTABLE = re.compile(r"[!-~]+")
NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
LOCAL_DOMAINS = frozenset(["localhost", "local", "internal"])

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
Resolve = Callable[[str, int], Awaitable[list[str]]]


class Outcome(StrEnum):
    """How a call to a webhook ended."""

    ACCEPTED = "accepted"
    DONE = "done"
    """Accepted, and everything in the wake is acknowledged."""
    STATUS = "status"
    """The receiver responded with a status other than 2xx."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    ADDRESS = "address"
    """The server does not call this URL or address."""
    RESPONSE = "response"
    """The response is too large, or not HTTP."""


class WebhookFailed(Exception):
    """The receiver did not accept the wake. The reason is shown to operators, so nothing of the response is in it."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.UNREACHABLE) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome


class WebhookResponse(msgspec.Struct, frozen=True):
    status: int
    body: bytes


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_url(url: str, *, allow_local: bool) -> SplitResult:
    """Parse a webhook URL. Raise `WebhookUrlRejected` if it is not allowed, as far as that is known without DNS."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise WebhookUrlRejected("the webhook URL is not a valid URL") from None
    if len(url) > limits.WEBHOOK_URL_BYTES_MAX:
        raise WebhookUrlRejected(f"the webhook URL is longer than {limits.WEBHOOK_URL_BYTES_MAX} bytes")
    if not host or not PRINTABLE.fullmatch(url) or port == 0:
        raise WebhookUrlRejected("the webhook URL is not the URL of a web server")
    if parts.username is not None or parts.password is not None:
        raise WebhookUrlRejected("the webhook URL must not contain a user name or password")
    if allow_local and _is_local(host) and parts.scheme in ("http", "https"):
        return parts
    if parts.scheme != "https":
        raise WebhookUrlRejected("the webhook URL must use https")
    name = host.lower().removesuffix(".")
    try:
        public = is_public(name)
    except ValueError:  # a name, which is checked when it is resolved
        # If the last label is a number, most resolvers take the name for an address, in forms that we do not parse.
        last = name.rpartition(".")[2]
        public = "." in name and last not in LOCAL_DOMAINS and not NUMBER.fullmatch(last)
    if not public:
        raise WebhookUrlRejected("the webhook URL must point to a public address")
    return parts


async def resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class WebhookClient:
    def __init__(self, *, allow_local: bool, resolve: Resolve = resolve) -> None:
        self.allow_local = allow_local
        self._resolve = resolve
        self._tls: ssl.SSLContext | None = None

    async def call(
        self, url: str, body: bytes, signature: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> WebhookResponse:
        """POST a wake and return the response. Raise `WebhookFailed` for any failure, within a bounded time.

        `headers` are sent as they are.
        """
        try:
            async with asyncio.timeout(limits.WEBHOOK_S_MAX):
                return await self._call(url, body, signature, headers)
        except TimeoutError:
            raise WebhookFailed(f"no response within {limits.WEBHOOK_S_MAX:g} s", Outcome.TIMEOUT) from None
        except WebhookUrlRejected as error:
            raise WebhookFailed(error.detail, Outcome.ADDRESS) from None
        except (OSError, UnicodeError) as error:
            raise _explain(error) from None

    async def _call(self, url: str, body: bytes, signature: str, headers: Mapping[str, str]) -> WebhookResponse:
        parts = check_url(url, allow_local=self.allow_local)
        host = parts.hostname or ""
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        address = await self._choose_address(host, port)
        if secure and self._tls is None:  # loading all certificates takes longer than the rest of a server's start
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        reader, writer = await asyncio.open_connection(
            address,
            port,
            ssl=self._tls if secure else None,
            server_hostname=host if secure else None,
            limit=limits.WEBHOOK_ANSWER_BYTES_MAX,
        )
        try:
            writer.write(_request(parts, body, signature, headers))
            await writer.drain()
            return await _read_response(reader)
        finally:
            writer.close()

    async def _choose_address(self, host: str, port: int) -> str:
        addresses = await self._resolve(host, port)
        allowed = [a for a in addresses if is_public(a) or (self.allow_local and _is_local(host) and _is_local(a))]
        if not allowed or len(allowed) != len(addresses):
            raise WebhookFailed("the host name resolves to an address that is not public", Outcome.ADDRESS)
        return allowed[0]


FAILURES: Final[tuple[tuple[type[Exception], str, Outcome], ...]] = (
    (ssl.SSLCertVerificationError, "the receiver's TLS certificate is not valid", Outcome.TLS),
    (ssl.SSLError, "the TLS handshake with the receiver failed", Outcome.TLS),
    (socket.gaierror, "the host name could not be resolved", Outcome.UNREACHABLE),
    (ConnectionRefusedError, "the receiver refused the connection", Outcome.UNREACHABLE),
    (ConnectionError, "the receiver closed the connection", Outcome.UNREACHABLE),
    (OSError, "the receiver could not be reached", Outcome.UNREACHABLE),
    (UnicodeError, "the host name is not valid", Outcome.ADDRESS),
)
"""What to say about an exception: the first that matches."""


def _explain(error: Exception) -> WebhookFailed:
    return next(WebhookFailed(reason, outcome) for type_, reason, outcome in FAILURES if isinstance(error, type_))


def _request(parts: SplitResult, body: bytes, signature: str, headers: Mapping[str, str]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    more = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    return (
        f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nWebhook-Signature: {signature}\r\n"
        f"User-Agent: mainstem\r\nAccept: application/json\r\n{more}Connection: close\r\n\r\n"
    ).encode() + body


class _ResponseParser:
    def __init__(self) -> None:
        self.body = bytearray()
        self.complete = False
        self.has_length = False
        self.has_head = False

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self.has_length = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


async def _read_response(reader: asyncio.StreamReader) -> WebhookResponse:
    answer = _ResponseParser()
    parser = httptools.HttpResponseParser(answer)
    received = 0
    while not answer.complete:
        data = await reader.read(16 * limits.KIB)
        received += len(data)
        if received > limits.WEBHOOK_ANSWER_BYTES_MAX:
            raise WebhookFailed(
                f"the response is larger than {limits.WEBHOOK_ANSWER_BYTES_MAX} bytes", Outcome.RESPONSE
            )
        if not data:
            if answer.has_length:
                raise WebhookFailed("the connection closed before the response was complete", Outcome.RESPONSE)
            break  # a response without a length ends with its connection
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            raise WebhookFailed("the response is not valid HTTP", Outcome.RESPONSE) from None
    status = parser.get_status_code()
    if not status or not answer.has_head:
        raise WebhookFailed("the connection closed without a response", Outcome.RESPONSE)
    return WebhookResponse(status, bytes(answer.body))
