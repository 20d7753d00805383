"""The local side of a client: its store and views, which run in a thread of their own, and its listeners."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from mainstem import limits
from mainstem.client.offline.changes import Change, Drafted, EventsCommitted, Listeners, Rejected, Reported
from mainstem.client.offline.core.errors import ClientClosed, DraftRejected, HistoryTruncated, NotFollowed
from mainstem.client.offline.core.records import (
    Applied,
    Committed,
    Draft,
    Event,
    Facts,
    RejectedDraft,
    Rejection,
    Snapshot,
    StoreUpdate,
    draft_event,
    event_of,
    rejection_of,
)
from mainstem.client.offline.store_thread import StoreThread
from mainstem.client.offline.stores.contract import ClientStore, Found
from mainstem.client.offline.submissions import Submissions, make_draft
from mainstem.client.offline.views import View, Views
from mainstem.client.sync_protocol.errors import SyncClientError

logger = logging.getLogger(__name__)


class LocalState:
    def __init__(self, store: ClientStore, client_id: str) -> None:
        self.client_id = client_id
        self.facts = Facts(0, 0, (), 0)
        self.listeners = Listeners()
        self._store = store
        self._thread = StoreThread()
        self._views = Views(store, client_id)
        self._submissions = Submissions(self._keep)
        self._outcomes: dict[str, list[asyncio.Future[int]]] = {}
        self._stopped: SyncClientError | None = None
        self._changed = asyncio.Event()

    # Lifecycle

    async def open(self, partitions: Sequence[str]) -> None:
        try:
            self.facts = await self._thread.run(self._open, partitions)
        except BaseException:
            self._thread.stop()
            raise

    def _open(self, partitions: Sequence[str]) -> Facts:
        self._store.open(self.client_id)
        try:
            return self._store.follow(partitions) if partitions else self._store.facts()
        except BaseException:
            self._store.close()
            raise

    async def close(self) -> None:
        """Store what was submitted, and wake every caller that is waiting."""
        await self._submissions.finish()
        self.stop_waiting(ClientClosed("the client was closed before the draft was committed"))
        self.notify()
        self.listeners.end()
        try:
            await self._thread.run(self._close)
        finally:
            self._thread.stop()

    def _close(self) -> None:
        try:
            self._views.store_checkpoints(at_once=True)
        except SyncClientError as error:  # a full or failed disk: the next client folds the views again
            logger.warning("could not store the state of the views: %s", error)
        finally:
            self._store.close()

    # Drafts

    async def add(self, id_: str, partitions: Sequence[str], event: bytes) -> Found:
        if len(event) > limits.PARSE_INLINE_BYTES_MAX:
            draft = await self._thread.run(make_draft, id_, partitions, event)
        else:
            draft = make_draft(id_, partitions, event)
        return await self._submissions.add(draft)

    async def _keep(self, drafts: Sequence[Draft]) -> list[Found | SyncClientError]:
        found, self.facts = await self._thread.run(self._keep_in_store, drafts)
        kept = tuple(draft.id for draft in found if isinstance(draft, Draft))
        if kept:
            self.publish(Drafted(kept))
        return found

    def _keep_in_store(self, drafts: Sequence[Draft]) -> tuple[list[Found | SyncClientError], Facts]:
        return self._store.add_drafts(drafts), self._store.facts()

    async def outcome(self, id_: str) -> int:
        """Wait until a draft is committed and return its committed id. Raise `DraftRejected` if the server refuses."""
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._outcomes.setdefault(id_, []).append(waiting)
        try:
            known = await self._thread.run(self._store.find, id_)
            if isinstance(known, Committed):
                return known.committed_id
            if isinstance(known, RejectedDraft):
                raise DraftRejected(known.id, known.reason, known.errors)
            if known is None and not waiting.done():
                raise SyncClientError(f"the store has no draft with the id {id_!r}")
            if self._stopped is not None:
                raise self._stopped
            return await waiting
        finally:
            waiting.cancel()
            self._outcomes[id_].remove(waiting)
            if not self._outcomes[id_]:
                del self._outcomes[id_]

    def stop_waiting(self, error: SyncClientError) -> None:
        """Fail every wait for an outcome, now and later."""
        self._stopped = error
        for waiting in [future for futures in self._outcomes.values() for future in futures]:
            if not waiting.done():
                waiting.set_exception(error)

    async def first_drafts(self, items_max: int, bytes_max: int) -> list[Draft]:
        return await self._thread.run(self._store.drafts, 0, items_max, bytes_max)

    async def rejections(self, limit: int) -> list[Rejection]:
        return await self._thread.run(self._rejections, limit)

    def _rejections(self, limit: int) -> list[Rejection]:
        return [rejection_of(draft) for draft in self._store.rejections(limit)]

    async def dismiss(self, ids: Sequence[str]) -> int:
        return await self._thread.run(self._store.dismiss, ids)

    # The committed copy

    async def load_facts(self) -> Facts:
        self.facts = await self._thread.run(self._store.facts)
        return self.facts

    async def follow(self, names: Sequence[str]) -> None:
        self.facts = await self._thread.run(self._follow, names)

    def _follow(self, names: Sequence[str]) -> Facts:
        facts = self._store.follow(names)
        self._views.invalidate_drafts()
        return facts

    async def save(self, updates: Sequence[StoreUpdate]) -> None:
        applied, self.facts = await self._thread.run(self._save, updates)
        self._publish_applied(applied)
        if any(update.cursor is not None for update in updates):
            await self._thread.run(self._views.store_checkpoints)

    def _save(self, updates: Sequence[StoreUpdate]) -> tuple[Applied, Facts]:
        applied = self._store.apply(updates)
        self._views.invalidate(applied)
        return applied, self._store.facts()

    async def events(self, name: str, after: int, limit: int, *, with_drafts: bool) -> list[Event]:
        return await self._thread.run(self._events, name, after, limit, with_drafts)

    def _events(self, name: str, after: int, limit: int, with_drafts: bool) -> list[Event]:
        if name not in self._store.facts().names:
            raise NotFollowed(f"this client does not follow {name!r}")
        events = [event_of(stored) for stored in self._store.events([name], after, None, limit + 1)]
        if len(events) > limit or not with_drafts:
            return events[:limit]
        found = self._store.drafts(0, limits.OFFLINE_DRAFTS_MAX, limits.OFFLINE_DRAFTS_BYTES_MAX)
        own = [draft_event(draft, self.client_id) for draft in found if name in draft.partitions]
        return events + own[: limits.OFFLINE_EVENTS_MAX]

    async def snapshots(self, names: Sequence[str]) -> list[Snapshot]:
        return await self._thread.run(self._store.snapshots, names)

    # Views

    def register(self, view: View) -> None:
        self._views.register(view)

    async def view(self, name: str) -> Any:
        return await self._thread.run(self._views.read, name)

    # Waiting and listening

    async def wait_for_change(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    def notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def publish(self, change: Change) -> None:
        self.listeners.publish(change)
        self.notify()

    def _publish_applied(self, applied: Applied) -> None:
        for id_, committed_id in applied.settled:
            for waiting in self._outcomes.get(id_, []):
                if not waiting.done():
                    waiting.set_result(committed_id)
        for rejection in applied.rejected:
            self.publish(Rejected(rejection.id, rejection.reason, rejection.errors))
            for waiting in self._outcomes.get(rejection.id, []):
                if not waiting.done():
                    waiting.set_exception(DraftRejected(rejection.id, rejection.reason, rejection.errors))
        if applied.events or applied.settled:
            ids = tuple(id_ for id_, _ in applied.settled)
            self.publish(EventsCommitted(applied.events, applied.first, applied.last, ids))
        for name in applied.truncated:
            self.publish(Reported(HistoryTruncated(name)))
        self.notify()
