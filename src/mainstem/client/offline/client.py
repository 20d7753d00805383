"""`OfflineClient`: works on a local copy, online or not, and brings it and the server together when it can."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import msgspec

from mainstem import limits
from mainstem.client.core.errors import BadArgument
from mainstem.client.core.retries import Retries
from mainstem.client.core.strict_json import encode_json
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
    """A draft that is durable in this client's store."""

    def __init__(self, client: "OfflineClient", id_: str, clock: int | None) -> None:
        self.id = id_
        self.clock = clock
        self._client = client

    def __repr__(self) -> str:
        return f"SubmittedDraft({self.id!r})"

    async def committed(self) -> int:
        """Its committed id, once the server has committed it; `DraftRejected` if it will not."""
        return await self._client.outcome(self.id)


class OfflineClient:
    """Use it as `async with OfflineClient(...) as client`. Leaving keeps everything that is not committed yet."""

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
            raise BadArgument(f"client_id is 1 to {limits.CLIENT_ID_BYTES_MAX} bytes")
        self.client_id = client_id
        self._first_partitions = check_partitions(partitions)
        self._new_id = new_id
        self._local = LocalState(store if isinstance(store, ClientStore) else SqliteClientStore(store), client_id)
        self._connector = Connector(self._local, url, token, retries, chance, proxy)
        self._was_opened = False
        self._is_open = False

    # Its life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store and begin to connect. It does not wait for the server."""
        if self._was_opened:
            raise SyncClientError("this client was opened before", hint="Make a new OfflineClient.")
        self._was_opened = True
        await self._local.open(self._first_partitions)
        self._is_open = True
        self._connector.start()

    async def close(self) -> None:
        """Leave in order. What is not committed stays in the store."""
        if self._is_open:
            self._is_open = False
            await self._connector.stop()
            await self._local.close()

    def _require_open(self) -> None:
        if not self._is_open:
            raise ClientClosed("the client is not open")
        if self._connector.failure is not None:
            raise SyncClientError(f"the client stopped: {self._connector.failure!r}") from self._connector.failure

    # Submitting

    async def submit(self, partitions: Sequence[str], event: dict[str, Any], id: str | None = None) -> SubmittedDraft:
        """Keep an event as a draft, and send it when there is a connection.

        Returns when the draft is durable here and part of the views; that needs no server. The same id with the same
        content again gives the same draft.
        """
        self._require_open()
        if isinstance(partitions, str):
            raise InvalidDraft("partitions is a list of names, not one name", "partitions")
        encoded = encode_event(event)
        kept = await self._local.add(self._new_id() if id is None else id, partitions, encoded)
        self._connector.send_drafts()
        return SubmittedDraft(self, kept.id, None if isinstance(kept, Committed) else kept.clock)

    async def outcome(self, id_: str) -> int:
        """The committed id of a draft of this store, once it has one; `DraftRejected` if it will not get one."""
        self._require_open()
        return await self._local.outcome(id_)

    async def drafts(self, limit: int = limits.OFFLINE_EVENTS_MAX) -> list[Event]:
        """What is not committed yet, in the order of the draft clock."""
        self._require_open()
        found = await self._local.first_drafts(limit, limits.OFFLINE_DRAFTS_BYTES_MAX)
        return [draft_event(draft, self.client_id) for draft in found]

    async def rejections(self, limit: int = limits.OFFLINE_EVENTS_MAX) -> list[Rejection]:
        """Drafts that the server refused and that were not dismissed, the oldest first. They survive restarts."""
        self._require_open()
        return await self._local.rejections(limit)

    async def dismiss(self, *ids: str) -> int:
        """Forget rejections that were dealt with; how many there were."""
        self._require_open()
        return await self._local.dismiss(ids)

    # Partitions

    @property
    def partitions(self) -> frozenset[str]:
        return self._local.facts.names

    async def add_partition(self, name: str) -> None:
        """Follow one more partition. Its history is fetched from 0 when there is a connection; `synced()` waits for
        it."""
        self._require_open()
        names = check_partitions([name])
        if len(self.partitions.union(names)) > limits.FILTER_PARTITIONS_MAX:
            raise InvalidDraft(f"a client follows at most {limits.FILTER_PARTITIONS_MAX} partitions", "partitions")
        await self._local.follow(names)
        self._connector.call_soon(lambda session: session.follow(names))

    async def remove_partition(self, name: str) -> None:
        """Follow it no more, and forget its events, unless they belong to another one that is followed."""
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
        """Make a view: `reducer(state, event)` over the committed events in their order, then over the drafts.

        States are JSON values. They are stored, so raise `version` when the reducer changes. `restore(state, partition,
        snapshot)` says what a snapshot of the server means; a view of one partition takes it as its state.
        """
        names = None if partitions is None else check_partitions(partitions)
        try:
            encoded = encode_json(initial)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise BadArgument(f"the initial state of {name!r} is not JSON: {error}") from None
        self._local.register(View(name, reducer, encoded, names, version, restore))

    async def view(self, name: str) -> Any:
        """The state of a view: what is committed, and the drafts on top."""
        self._require_open()
        return await self._local.view(name)

    async def events(
        self, partition: str, *, after: int = 0, limit: int = limits.OFFLINE_EVENTS_MAX, drafts: bool = True
    ) -> list[Event]:
        """Events of a partition behind a committed id, in order, then its drafts.

        Drafts follow only when no committed event is left out by the limit; so read on behind the last committed id
        until one comes, or none.
        """
        self._require_open()
        [name] = check_partitions([partition])
        limit = max(1, min(limit, limits.OFFLINE_EVENTS_MAX))
        return await self._local.events(name, after, limit, with_drafts=drafts)

    async def snapshot(self, partition: str) -> Snapshot | None:
        """What the server sent in place of pruned history; `state` is JSON."""
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
        """Up to this committed id nothing is missing in the copy."""
        return self._local.facts.cursor

    @property
    def waiting(self) -> int:
        """How many drafts are not committed yet."""
        return self._local.facts.drafts

    def changes(self) -> Changes:
        """What happens from now on, for `async for`."""
        return self._local.listeners.add()

    async def synced(self) -> None:
        """When the client is live, has all history of its partitions, and no draft is waiting.

        Raises what the server refused, if trying again cannot help; bound the wait with `asyncio.timeout`.
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
        """Do not wait until the next attempt is due, as when the network has come back."""
        self._connector.connect_now()
