"""A session of the sync protocol for one command: it asks, and waits for the answer."""

import random
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NoReturn

import msgspec
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

from mainstem import limits
from mainstem.cli.addresses import Address
from mainstem.cli.faults import ExitCode, Failure
from mainstem.client import Retries
from mainstem.sync.protocol.messages import VERSION

ANONYMOUS = "mainstem-cli"
CODES = {
    "auth_failed": (ExitCode.DENIED, "give a valid token with --token, and its client with --client-id"),
    "forbidden": (ExitCode.DENIED, "ask for a token with this partition"),
    "rate_limited": (ExitCode.UNAVAILABLE, "try again later, with less"),
    "server_error": (ExitCode.UNAVAILABLE, "try again later; the server's log has the reason"),
}


class Envelope(msgspec.Struct):
    type: str
    payload: msgspec.Raw
    msg_id: str | int | None = None


class Complaint(msgspec.Struct):
    code: str
    message: str = ""


class Connected(msgspec.Struct):
    server_last_committed_id: int


class Event(msgspec.Struct):
    committed_id: int
    id: str
    client_id: str
    partitions: list[str]
    event: msgspec.Raw
    status_updated_at: str


class Snapshot(msgspec.Struct):
    partition: str
    committed_id: int
    state: msgspec.Raw


class Page(msgspec.Struct):
    events: list[Event]
    next_since_committed_id: int
    has_more: bool
    snapshots: list[Snapshot] = []
    history_truncated: list[str] = []


class Result(msgspec.Struct):
    id: str
    status: str
    committed_id: int | None = None
    reason: str | None = None
    errors: list[dict[str, Any]] = []
    status_updated_at: str | None = None


class Results(msgspec.Struct):
    results: list[Result]


class Lost(Exception):
    """The connection broke; what was asked for may be asked again."""


def client_of(token: str | None) -> str:
    """Who a token is for, or a name of our own: the server refuses a token of somebody else."""
    try:
        claims = msgspec.json.decode(urlsafe_b64decode((token or "").split(".")[1] + "=="))
        return str(claims["client_id"])
    except (IndexError, ValueError, KeyError, TypeError, msgspec.DecodeError):
        return ANONYMOUS


class Session:
    """One connection, and the next one when it breaks. The first must come about; later ones are waited for."""

    def __init__(self, address: Address, client_id: str | None) -> None:
        self._address = address
        self._url = "ws" + address.url.removeprefix("http") + "/v1/sync"
        self._client_id = client_id or client_of(address.token)
        self._socket: ClientConnection | None = None
        self._numbers = count(1)
        self.head = 0
        """The newest committed id when the connection began."""

    def __enter__(self) -> "Session":
        try:
            self.connect()
        except Lost as lost:
            raise self._unreachable(lost) from None
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def connect(self) -> None:
        self.close()
        try:
            self._socket = open_socket(
                self._url, open_timeout=limits.CLI_SYNC_WAIT_S, max_size=limits.CLI_SYNC_MESSAGE_BYTES_MAX
            )
        except InvalidStatus as refused:
            code = ExitCode.DENIED if refused.response.status_code in (401, 403) else ExitCode.FAILED
            raise Failure(f"{self._url} refuses the connection: {refused}", code) from None
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise Lost(str(error) or type(error).__name__) from None
        payload = {"client_id": self._client_id, "token": self._address.token or ""}
        self.head = self.ask("connect", payload, "connected", Connected).server_last_committed_id

    def reconnect(self, lost: Lost) -> None:
        """Wait until the server is back, within the patience of the client."""
        retries = Retries()
        failures = 1
        while retries.allow(failures):
            time.sleep(retries.delay(failures, random.random))
            try:
                return self.connect()
            except Lost as again:
                lost = again
                failures += 1
        raise self._unreachable(lost)

    def _unreachable(self, lost: Lost) -> Failure:
        return Failure(
            f"{self._url}: {lost}: start a server with `mainstem serve`, or name another with --url or --context",
            ExitCode.UNREACHABLE,
        )

    def ask(self, type_: str, payload: Any, answer: str, kind: type[Any]) -> Any:
        """Send a message, and wait for its answer; broadcasts that come before it are left out."""
        msg_id = str(next(self._numbers))
        self._send(type_, payload, msg_id)
        while True:
            heard = self.hear(limits.CLI_SYNC_WAIT_S)
            if heard.msg_id == msg_id and heard.type == answer:
                return msgspec.json.decode(heard.payload, type=kind)

    def _send(self, type_: str, payload: Any, msg_id: str) -> None:
        message = {"type": type_, "payload": payload, "protocol_version": VERSION, "msg_id": msg_id}
        assert self._socket is not None
        try:
            self._socket.send(msgspec.json.encode(message), text=True)
        except (ConnectionClosed, OSError) as error:
            raise Lost(str(error)) from None

    def hear(self, timeout_s: float | None) -> Envelope:
        """The next message. An error message ends the command."""
        assert self._socket is not None
        try:
            text = self._socket.recv(timeout=timeout_s)
        except TimeoutError:
            raise Lost("the server does not answer") from None
        except (ConnectionClosed, OSError, WebSocketException) as error:
            raise Lost(str(error)) from None
        envelope = msgspec.json.decode(text, type=Envelope)
        if envelope.type == "error":
            refuse(msgspec.json.decode(envelope.payload, type=Complaint))
        return envelope

    # What commands ask for

    def submit(self, drafts: Sequence[dict[str, Any]]) -> list[Result]:
        """Ids make it safe to send them again, so a server that restarts is waited for."""
        while True:
            try:
                results: Results = self.ask("submit_events", {"events": drafts}, "submit_events_result", Results)
                return results.results
            except Lost as lost:
                self.reconnect(lost)

    def pages(self, partitions: Sequence[str], since: int, *, subscribe: bool = False) -> Iterator[Page]:
        """From a cursor to the present, page by page."""
        payload: dict[str, Any] = {"partitions": partitions, "since_committed_id": since, "limit": limits.SYNC_PAGE_MAX}
        if subscribe:
            payload["subscription_partitions"] = partitions
        while True:
            try:
                page: Page = self.ask("sync", payload, "sync_response", Page)
            except Lost as lost:
                self.reconnect(lost)
                continue
            yield page
            payload["since_committed_id"] = page.next_since_committed_id
            if not page.has_more:
                return

    def events(self, partitions: Sequence[str], since: int) -> Iterator[Page]:
        """From a cursor on, for ever. Each broadcast is a page of its own."""
        while True:
            try:
                for page in self.pages(partitions, since, subscribe=True):
                    yield page
                    since = page.next_since_committed_id
                while True:
                    heard = self.hear(None)
                    if heard.type == "event_broadcast":
                        event = msgspec.json.decode(heard.payload, type=Event)
                        if event.committed_id > since:
                            since = event.committed_id
                            yield Page([event], since, False)
            except Lost as lost:
                self.reconnect(lost)


def refuse(complaint: Complaint) -> NoReturn:
    code, advice = CODES.get(complaint.code, (ExitCode.FAILED, ""))
    said = f"the server says {complaint.code}: {complaint.message}"
    raise Failure(f"{said}: {advice}" if advice else said, code)
