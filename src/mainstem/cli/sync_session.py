"""A session of the sync protocol for one command, which sends a request and waits for the reply."""

import random
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar

import msgspec
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from mainstem import limits
from mainstem.cli.addresses import Address
from mainstem.cli.clients import make_retries
from mainstem.cli.failures import ExitCode, Failure, current_request, explain_denial
from mainstem.client.sync_connection import SyncConnection
from mainstem.client.sync_protocol.errors import ServerRefused
from mainstem.client.sync_protocol.messages import (
    CommittedEvent,
    Connected,
    Page,
    SubmitResult,
    SubmitResults,
    encode_connect,
    encode_submit,
    encode_sync,
)
from mainstem.client.sync_protocol.urls import endpoint_url

ANONYMOUS = "mainstem-cli"
CODES = {
    "forbidden": (ExitCode.DENIED, "ask for a token that allows this partition"),
    "rate_limited": (ExitCode.UNAVAILABLE, "try again later, with fewer events"),
    "server_error": (ExitCode.UNAVAILABLE, "try again later; the server's log has the reason"),
}

T = TypeVar("T")


class Disconnected(Exception):
    """The connection broke; the request may be sent again."""


def client_of(token: str | None) -> str:
    """Return the client id in a token, or a default without one. The server refuses a token of another client."""
    try:
        claims = msgspec.json.decode(urlsafe_b64decode((token or "").split(".")[1] + "=="))
        return str(claims["client_id"])
    except (IndexError, ValueError, KeyError, TypeError, msgspec.DecodeError):
        return ANONYMOUS


class Session:
    """A connection that is made again when it breaks. If the first one fails, the command ends."""

    def __init__(self, address: Address, client_id: str | None) -> None:
        self._address = address
        self._url = endpoint_url(address.url)
        self._client_id = client_id or client_of(address.token)
        self._connection: SyncConnection | None = None
        self._numbers = count(1)
        self.head = 0
        """The head of the log when the connection was made."""

    def __enter__(self) -> "Session":
        try:
            self.connect()
        except Disconnected as error:
            raise self._unreachable(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def connect(self) -> None:
        self.close()
        try:
            self._connection = SyncConnection(
                self._url, timeout_s=limits.CLI_SYNC_WAIT_S, message_bytes_max=limits.CLI_SYNC_MESSAGE_BYTES_MAX
            )
        except InvalidStatus as refused:
            code = ExitCode.DENIED if refused.response.status_code in (401, 403) else ExitCode.FAILED
            raise Failure(
                f"{self._url} refused the connection with HTTP {refused.response.status_code}: check --url", code
            ) from None
        except InvalidHandshake:
            raise Disconnected("it does not accept WebSocket connections") from None
        except OSError as error:
            raise Disconnected((error.strerror or "the connection failed").lower()) from None
        token = self._address.token or ""
        connected = self._request(partial(encode_connect, token, self._client_id), Connected)
        self.head = connected.server_last_committed_id or 0

    def reconnect(self, error: Disconnected) -> None:
        """Wait until the server is back. Raise an error after as many attempts as the streams client makes."""
        retries = make_retries(self._address)
        failures = 1
        while retries.allow(failures):
            time.sleep(retries.delay(failures, random.random))
            try:
                return self.connect()
            except Disconnected as again:
                error = again
                failures += 1
        raise self._unreachable(error)

    def _unreachable(self, error: Disconnected) -> Failure:
        return Failure(
            f"cannot reach {self._url}: {error}: start a server with `mainstem serve`, or choose another with --url or "
            "--context",
            ExitCode.UNREACHABLE,
        )

    def _request(self, encode: Callable[[str], bytes], reply: type[T]) -> T:
        """Send a message with the next id, and wait for its reply. Skip broadcasts that arrive before it."""
        msg_id = str(next(self._numbers))
        with self._use_connection() as connection:
            connection.send(encode(msg_id))
            return connection.receive_reply(reply, msg_id)

    @contextmanager
    def _use_connection(self) -> Iterator[SyncConnection]:
        """Lend the connection, and translate its errors. An error message of the server ends the command."""
        assert self._connection is not None
        try:
            yield self._connection
        except ServerRefused as refusal:
            raise explain_refusal(refusal) from None
        except TimeoutError:
            raise Disconnected("the server did not answer") from None
        except (OSError, WebSocketException):
            raise Disconnected("the connection broke") from None

    # Requests of commands

    def submit(self, drafts: Sequence[dict[str, Any]]) -> tuple[SubmitResult, ...]:
        """Submit drafts, and return their results. Their ids make it safe to send them again after a reconnect."""
        while True:
            try:
                return self._request(partial(encode_submit, drafts), SubmitResults).results
            except Disconnected as error:
                self.reconnect(error)

    def pages(self, partitions: Sequence[str], since: int, *, subscribe: bool = False) -> Iterator[Page]:
        """Yield the pages from a cursor to the head."""
        subscribe_to = partitions if subscribe else None
        while True:
            encode = partial(encode_sync, partitions, since, limits.SYNC_PAGE_MAX, subscribe_to=subscribe_to)
            try:
                page = self._request(encode, Page)
            except Disconnected as error:
                self.reconnect(error)
                continue
            yield page
            since = page.next_since_committed_id
            if not page.has_more:
                return

    def events(self, partitions: Sequence[str], since: int) -> Iterator[Page]:
        """Yield the pages from a cursor to the head, and then each broadcast as a page, without end."""
        while True:
            try:
                for page in self.pages(partitions, since, subscribe=True):
                    yield page
                    since = page.next_since_committed_id
                while True:
                    with self._use_connection() as connection:
                        _, event = connection.receive(None)
                    if isinstance(event, CommittedEvent) and event.committed_id > since:
                        since = event.committed_id
                        yield Page((event,), since, since, has_more=False)
            except Disconnected as error:
                self.reconnect(error)


def explain_refusal(refusal: ServerRefused) -> Failure:
    if refusal.code == "auth_failed":
        return explain_denial(refusal.message)
    code, advice = CODES.get(refusal.code, (ExitCode.FAILED, ""))
    current = current_request()
    said = f"{current.command if current else 'sync'}: {refusal.code}: {refusal.message}"
    return Failure(f"{said}: {advice}" if advice else said, code)
