"""`OfflineClient`: works on a local copy, online or offline, and synchronises it with the server when it can."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from mainstem import limits
from mainstem.client.core.errors import BadArgument
from mainstem.client.core.retries import Retries
from mainstem.client.core.strict_json import NotJson, encode_json
from mainstem.client.offline.changes import Changes, State, Status
from mainstem.client.offline.connector import Connector, Token
from mainstem.client.offline.core.errors import ClientClosed, InvalidDraft
from mainstem.client.offline.core.records import Committed, Event, Rejection, Snapshot, StoreUpdate, draft_event
from mainstem.client.offline.local_state import LocalState
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.offline.stores.sqlite import SqliteClientStore
from mainstem.client.offline.submissions import encode_event
from mainstem.client.offline.views import Reducer, Restore, View
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.partitions import normalise_filter

BACKOFF = Retries(attempts_max=None, delay_s=limits.OFFLINE_BACKOFF_S, delay_s_max=limits.OFFLINE_BACKOFF_S_MAX)


def new_id() -> str:
    return str(uuid4())


def check_partitions(partitions: Sequence[str]) -> tuple[str, ...]:
    try:
        return normalise_filter(partitions)
    except ValidationFailed as fault:
        raise InvalidDraft(fault.detail, fault.field) from None


class SubmittedDraft:
    """A draft in the store of this client. It is durable."""

    def __init__(self, client: "OfflineClient", id_: str, clock: int | None) -> None:
        self.id = id_
        self.clock = clock
        self._client = client

    def __repr__(self) -> str:
        return f"SubmittedDraft({self.id!r})"

    async def committed(self) -> int:
        """Wait for the commit and return the committed id. Raise `DraftRejected` if the server refuses the draft."""
        return await self._client.outcome(self.id)


class OfflineClient:
    """An offline-first client: `async with OfflineClient(...) as client`. Drafts that are not committed stay stored."""

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        store: ClientStore | Path | str,
        token: Token = "",
        partitions: Sequence[str] = (),
        new_id: Callable[[], str] = new_id,
        retries: Retries = BACKOFF,
        chance: Callable[[], float] = random.random,
        proxy: str | None = None,
    ) -> None:
        if not client_id or len(client_id.encode()) > limits.CLIENT_ID_BYTES_MAX:
            raise BadArgument(f"client_id must be 1 to {limits.CLIENT_ID_BYTES_MAX} bytes long")
        self.client_id = client_id
        self._first_partitions = check_partitions(partitions)
        self._new_id = new_id
        self._local = LocalState(store if isinstance(store, ClientStore) else SqliteClientStore(store), client_id)
        self._connector = Connector(self._local, url, token, retries, chance, proxy)
        self._was_opened = False
        self._is_open = False

    # Lifecycle

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store and start to connect. This does not wait for the server."""
        if self._was_opened:
            raise SyncClientError("this client was already opened", hint="Create a new OfflineClient.")
        self._was_opened = True
        await self._local.open(self._first_partitions)
        self._is_open = True
        self._connector.start()

    async def close(self) -> None:
        """Disconnect and close the store. Drafts that are not committed stay in it."""
        if self._is_open:
            self._is_open = False
            await self._connector.stop()
            await self._local.close()

    def _require_open(self) -> None:
        if not self._is_open:
            raise ClientClosed("the client is not open")
        if self._connector.failure is not None:
            raise SyncClientError(
                f"the client stopped because of an unexpected error: {self._connector.failure!r}"
            ) from self._connector.failure

    # Submitting

    async def submit(self, partitions: Sequence[str], event: dict[str, Any], id: str | None = None) -> SubmittedDraft:
        """Store an event as a draft, and send it as soon as there is a connection.

        This returns when the draft is durable in the store and part of the views; it needs no server. Submitting the
        same id with the same content again returns the same draft. The id of a rejected draft is free for new content.
        """
        self._require_open()
        if isinstance(partitions, str):
            raise InvalidDraft("partitions must be a list of names, not a str", "partitions")
        encoded = encode_event(event)
        kept = await self._local.add(self._new_id() if id is None else id, partitions, encoded)
        self._connector.send_drafts()
        return SubmittedDraft(self, kept.id, None if isinstance(kept, Committed) else kept.clock)

    async def outcome(self, id_: str) -> int:
        """Wait for the commit of a draft in this store and return its committed id, or raise `DraftRejected`."""
        self._require_open()
        return await self._local.outcome(id_)

    async def drafts(self, limit: int = limits.OFFLINE_EVENTS_MAX) -> list[Event]:
        """Return the drafts that are not committed yet, in the order in which they were submitted."""
        self._require_open()
        found = await self._local.first_drafts(limit, limits.OFFLINE_DRAFTS_BYTES_MAX)
        return [draft_event(draft, self.client_id) for draft in found]

    async def rejections(self, limit: int = limits.OFFLINE_EVENTS_MAX) -> list[Rejection]:
        """Return the drafts that the server refused and that were not dismissed, oldest first, even after a restart."""
        self._require_open()
        return await self._local.rejections(limit)

    async def dismiss(self, *ids: str) -> int:
        """Discard rejections that the application has dealt with, and return how many there were."""
        self._require_open()
        return await self._local.dismiss(ids)

    # Partitions

    @property
    def partitions(self) -> frozenset[str]:
        return self._local.facts.names

    async def add_partition(self, name: str) -> None:
        """Follow another partition. Once connected, the client fetches its whole history; `synced()` waits for it."""
        self._require_open()
        names = check_partitions([name])
        if len(self.partitions.union(names)) > limits.FILTER_PARTITIONS_MAX:
            raise InvalidDraft(f"a client can follow at most {limits.FILTER_PARTITIONS_MAX} partitions", "partitions")
        await self._local.follow(names)
        self._connector.call_soon(lambda session: session.follow(names))

    async def remove_partition(self, name: str) -> None:
        """Stop following a partition, and discard its events except those that another followed partition shows."""
        self._require_open()
        names = check_partitions([name])
        await self._local.save([StoreUpdate(left=names)])
        self._connector.call_soon(lambda session: session.unfollow(names))

    # Reading

    def register_view(
        self,
        name: str,
        reducer: Reducer,
        initial: Any,
        *,
        partitions: Sequence[str] | None = None,
        version: int = 1,
        restore: Restore | None = None,
    ) -> None:
        """Register a view: `reducer(state, event)` over the committed events in order, and then over the drafts.

        States are JSON values. The client stores them, so raise `version` when the reducer changes. `restore(state,
        partition, snapshot)` returns the state that includes a snapshot of the server; a view of one partition uses
        the snapshot as its state by default.
        """
        names = None if partitions is None else check_partitions(partitions)
        try:
            encoded = encode_json(initial)
        except NotJson as error:
            raise BadArgument(f"the initial state of the view {name!r} cannot be written as JSON: {error}") from None
        self._local.register(View(name, reducer, encoded, names, version, restore))

    async def view(self, name: str) -> Any:
        """Return the state of a view: the committed events, and then the drafts."""
        self._require_open()
        return await self._local.view(name)

    async def events(
        self, partition: str, *, after: int = 0, limit: int = limits.OFFLINE_EVENTS_MAX, drafts: bool = True
    ) -> list[Event]:
        """Return the events of a partition after a committed id, in order, followed by its drafts.

        If `limit` cuts off committed events, there are no drafts in the result: call again with the last committed id
        as `after`.
        """
        self._require_open()
        [name] = check_partitions([partition])
        limit = max(1, min(limit, limits.OFFLINE_EVENTS_MAX))
        return await self._local.events(name, after, limit, with_drafts=drafts)

    async def snapshot(self, partition: str) -> Snapshot | None:
        """Return the snapshot that the server sent in place of pruned history, if any; its `state` is JSON."""
        self._require_open()
        found = await self._local.snapshots(check_partitions([partition]))
        return found[0] if found else None

    # Watching

    @property
    def url(self) -> str:
        return self._connector.url

    @property
    def status(self) -> Status:
        return self._connector.status

    @property
    def cursor(self) -> int:
        """The committed id up to which the local copy is complete."""
        return self._local.facts.cursor

    @property
    def waiting(self) -> int:
        """The number of drafts that are not committed yet."""
        return self._local.facts.drafts

    def changes(self) -> Changes:
        """Return an asynchronous iterator of the changes from now on."""
        return self._local.listeners.add()

    async def synced(self) -> None:
        """Wait until the client is live, has the whole history of its partitions, and no draft is waiting.

        Raise the error if retrying cannot help, such as a refused token. Limit the wait with `asyncio.timeout`.
        """
        while True:
            self._require_open()
            status = self.status
            if status.error is not None and not status.error.retryable:
                raise status.error
            if status.state is State.LIVE and self._local.facts.is_complete:
                return
            await self._local.wait_for_change()

    def connect_now(self) -> None:
        """Connect now, without waiting for the next attempt; call this when the network is back."""
        self._connector.connect_now()
