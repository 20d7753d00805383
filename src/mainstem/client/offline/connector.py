"""Keeps the client connected: runs a session until it ends, reports why, waits, and reconnects."""

import asyncio
import inspect
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, WebSocketException

from mainstem import limits
from mainstem.client.core.errors import ClientError
from mainstem.client.core.retries import Retries
from mainstem.client.offline.changes import Reported, State, Status, StatusChanged
from mainstem.client.offline.connection import Connection, SessionCall
from mainstem.client.offline.core.errors import (
    ConnectionLost,
    HistoryBehind,
    HistoryMismatch,
    NotASyncEndpoint,
    Silence,
    StoreFailed,
)
from mainstem.client.offline.core.records import Diverged, Draft, StoreUpdate
from mainstem.client.offline.core.session import Phase, Session
from mainstem.client.offline.local_state import LocalState
from mainstem.client.sync_protocol.errors import ServerRefused, SyncClientError
from mainstem.client.sync_protocol.messages import encode_message
from mainstem.client.sync_protocol.urls import resolve_url
from mainstem.client.trace_context import add_trace_context

logger = logging.getLogger(__name__)

Token = str | Callable[[], str | Awaitable[str]]

STATES = {Phase.CONNECTING: State.CONNECTING, Phase.SYNCING: State.SYNCING, Phase.LIVE: State.LIVE}


class Connector:
    """Connects one client for as long as it is open."""

    def __init__(
        self,
        local: LocalState,
        url: str,
        token: Token,
        retries: Retries,
        chance: Callable[[], float],
        proxy: str | None,
    ) -> None:
        self.url = resolve_url(url)
        self.status = Status(State.OFFLINE)
        self._local = local
        self._token = token
        self._retries = retries
        self._chance = chance
        self._proxy = proxy
        self._page_limit = limits.OFFLINE_PAGE
        self._awaited_page = False
        self._mismatches = 0
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._try_now = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._on_done)

    async def stop(self) -> None:
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def failure(self) -> BaseException | None:
        """The unexpected error that has stopped the connector, if there was one."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        if self.failure is not None:
            logger.error("the offline client stopped because of an unexpected error", exc_info=self.failure)
            reason = f"the client stopped because of an unexpected error: {self.failure!r}"
            self._local.stop_waiting(SyncClientError(reason))
        self._local.notify()

    # Calls of the client

    def send_drafts(self) -> None:
        if self._connection is not None:
            self._connection.send_drafts()

    def call_soon(self, call: SessionCall) -> None:
        if self._connection is not None:
            self._connection.call_soon(call)

    def connect_now(self) -> None:
        if self.status.state is State.OFFLINE:
            self._set_state(State.OFFLINE)
        self._try_now.set()

    def _set_state(self, state: State, error: ClientError | None = None) -> None:
        status = Status(state, error)
        if status != self.status:
            self.status = status
            self._local.publish(StatusChanged(status))

    # Connecting

    async def _run(self) -> None:
        failures = 0
        while True:
            self._set_state(State.CONNECTING)
            error = await self._connect_once()
            self._mismatches = self._mismatches + 1 if isinstance(error, HistoryBehind) else 0
            if isinstance(error, Silence) and self._awaited_page:
                self._page_limit = max(limits.SYNC_PAGE_MIN, self._page_limit // 2)
            failures = 1 if self.status.state is State.LIVE else failures + 1
            self._set_state(State.OFFLINE, error)
            if isinstance(error, StoreFailed):
                self._local.stop_waiting(error)
                return  # the store could not keep anything that arrives
            delay_s = self._retries.delay(failures, self._chance)
            self._log_retry(error, failures, delay_s)
            await self._back_off(delay_s)

    def _log_retry(self, error: ClientError, failures: int, delay_s: float) -> None:
        """Log the first failure of an outage as a warning. Being offline is normal, so later ones are debug lines."""
        level = logging.WARNING if failures == 1 else logging.DEBUG
        text = "%s; drafts are kept; next attempt in %.1f s, retrying until the server answers"
        logger.log(level, text, error.detail, delay_s)

    async def _connect_once(self) -> ClientError:
        """Run one connection, and return why it ended."""
        try:
            await self._connect()
        except ClientError as error:
            return error
        except (OSError, WebSocketException, TimeoutError) as error:
            return explain_failure(self.url, error)
        except Exception as error:  # the application's token callable may raise anything
            logger.exception("could not connect to %s", self.url)
            return ConnectionLost(f"cannot connect to {self.url}: {error!r}")
        raise AssertionError("a connection ends with an error")

    async def _back_off(self, seconds: float) -> None:
        self._try_now.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._try_now.wait()
        except TimeoutError:
            pass

    async def _connect(self) -> None:
        token = self._token() if callable(self._token) else self._token
        if inspect.isawaitable(token):
            token = await token
        async with asyncio.timeout(limits.OFFLINE_OPEN_S_MAX):
            connected = await connect(
                self.url,
                compression=None,
                max_size=limits.OFFLINE_MESSAGE_BYTES_MAX,
                open_timeout=None,
                ping_interval=None,  # the protocol has heartbeats, which also work while a large page is being sent
                close_timeout=limits.OFFLINE_CLOSE_S_MAX,
                proxy=self._proxy,
                additional_headers=add_trace_context({}),
            )
        try:
            facts = await self._local.load_facts()
            is_certain = self._mismatches + 1 >= limits.OFFLINE_MISMATCHES
            client_id = self._local.client_id
            session = Session(facts, client_id, token, page_limit=self._page_limit, is_certain=is_certain)
            # Partitions that are added from here on go to the session; earlier ones are in the facts.
            self._connection = Connection(connected, session, self)
            await self._connection.run()
        except Diverged as fault:
            await self.save([StoreUpdate(reset=True)])
            mismatch = HistoryMismatch(str(fault))
            self.report(mismatch)
            raise mismatch from None
        finally:
            self._awaited_page = self._connection is not None and self._connection.session.awaits_page
            self._connection = None
            await self._close_socket(connected)

    async def _close_socket(self, connected: ClientConnection) -> None:
        try:
            async with asyncio.timeout(limits.OFFLINE_CLOSE_S_MAX):
                if self._is_stopping:
                    await connected.send(encode_message("disconnect", {"reason": "closed"}), text=True)
                await connected.close()
        except (WebSocketException, OSError, TimeoutError):
            connected.transport.abort()

    # Calls of a connection

    async def save(self, updates: Sequence[StoreUpdate]) -> None:
        await self._local.save(updates)

    async def load(self, items_max: int, bytes_max: int) -> list[Draft]:
        return await self._local.first_drafts(items_max, bytes_max)

    def report(self, error: SyncClientError) -> None:
        self._local.publish(Reported(error))
        if isinstance(error, ServerRefused) and not error.retryable:
            self._set_state(self.status.state, error)

    def update_status(self, session: Session) -> None:
        self._set_state(STATES[session.phase], self.status.error if session.refused else None)


def explain_failure(url: str, error: Exception) -> SyncClientError:
    """Return in our own words why there is no connection."""
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status in (408, 425, 429) or status >= 500:
            return ConnectionLost(f"{url} answered {status}: the server cannot accept connections at the moment")
        return NotASyncEndpoint(f"{url} answered {status} and did not accept a WebSocket")
    if isinstance(error, InvalidMessage):
        return ConnectionLost(f"{url} closed the connection, or does not speak HTTP")
    if isinstance(error, InvalidHandshake):
        return NotASyncEndpoint(f"{url} answered, but not with a WebSocket")
    return ConnectionLost(f"cannot connect to {url}: {describe_os_error(error)}")


def describe_os_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {limits.OFFLINE_OPEN_S_MAX:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS; use ws:// for a server without it"
    if isinstance(error, socket.gaierror):
        return "the host name is unknown"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return "the connection broke"
