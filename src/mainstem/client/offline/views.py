"""Materialised views: a reducer over the committed events, and then over the drafts.

    checkpoint ──► stable: events up to the cursor ──► shown: a copy with later events, then drafts
    (in the store)    (never undone)                      (discarded when something changes before its end)

The events up to the cursor are complete, so the stable state is never undone. The store keeps a checkpoint of it with
the committed id that it covers, so opening a store folds only later events. A partition that is added later brings
older events: the store then discards the checkpoints that lack them, and the view is folded from scratch.

Everything here runs in the store's thread.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mainstem import limits
from mainstem.client.core.strict_json import NotJson, encode_json
from mainstem.client.offline.core.errors import UnknownView, ViewFailed
from mainstem.client.offline.core.records import Applied, Checkpoint, Draft, Event, draft_event, event_of, is_stale
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.sync_protocol.errors import SyncClientError

logger = logging.getLogger(__name__)

Reducer = Callable[[Any, Event], Any]
Restore = Callable[[Any, str, Any], Any]

_decode = msgspec.json.Decoder().decode


class View:
    """A registered view, and the states that have been folded so far."""

    def __init__(
        self,
        name: str,
        reducer: Reducer,
        initial: bytes,
        partitions: tuple[str, ...] | None,
        version: int,
        restore: Restore | None,
    ) -> None:
        self.name = name
        self.reducer = reducer
        self.initial = initial
        self.partitions = partitions
        self.version = version
        self.restore = restore
        self.is_loaded = False
        self.has_failed = False
        """Whether its reducer failed. It runs again when the application reads the view."""
        self.stable: Any = None
        self.stable_at = 0
        self.folded = 0
        """How many events were folded since the last checkpoint."""
        self.forget_shown()

    def forget_shown(self) -> None:
        self.shown: Any = None
        self.shown_at = -1
        """The committed id of the last event in the shown state; -1 if there is no shown state."""
        self.shown_clock = 0

    def forget(self) -> None:
        self.is_loaded = False
        self.forget_shown()

    def fold(self, state: Any, event: Event) -> Any:
        try:
            return self.reducer(state, event)
        except Exception as error:
            culprit = f"the draft {event.id}" if event.is_draft else f"committed id {event.committed_id}"
            raise ViewFailed(f"the reducer of the view {self.name!r} failed at {culprit}: {error!r}") from error

    def encode(self, state: Any) -> bytes:
        try:
            encoded = encode_json(state)
        except NotJson as error:
            raise ViewFailed(f"the state of the view {self.name!r} cannot be written as JSON: {error}") from error
        if len(encoded) > limits.OFFLINE_VIEW_BYTES_MAX:
            raise ViewFailed(
                f"the state of the view {self.name!r} takes {len(encoded)} bytes",
                hint=f"The limit is {limits.OFFLINE_VIEW_BYTES_MAX} bytes: keep less in the state.",
            )
        return encoded


class Views:
    """The views of one client."""

    def __init__(self, store: ClientStore, client_id: str) -> None:
        self._store = store
        self._client_id = client_id
        self._views: dict[str, View] = {}

    def register(self, view: View) -> None:
        if view.name not in self._views and len(self._views) >= limits.OFFLINE_VIEWS_MAX:
            raise SyncClientError(f"{len(self._views)} views are registered, which is the limit")
        self._views[view.name] = view

    def read(self, name: str) -> Any:
        """Return the state with all events and drafts, as a copy that belongs to the caller."""
        view = self._views.get(name)
        if view is None:
            raise UnknownView(f"no view is registered as {name!r}")
        self._settle(view)
        view.has_failed = False
        try:
            self._show(view)
        except BaseException:
            view.forget_shown()
            raise
        return _decode(view.encode(view.shown))

    def invalidate(self, applied: Applied) -> None:
        """Discard the states that a change of the store has made wrong."""
        for view in self._views.values():
            below = is_stale(view.shown_at, view.partitions, applied.lowest)
            drafts_moved = applied.settled or applied.rejected or (view.shown_clock and applied.lowest)
            if applied.reset or is_stale(view.stable_at, view.partitions, applied.lowest):
                view.forget()
            elif below or drafts_moved:
                view.forget_shown()

    def invalidate_drafts(self) -> None:
        """Discard the shown states after partitions were added: drafts in those partitions now count."""
        for view in self._views.values():
            view.forget_shown()

    def store_checkpoints(self, *, at_once: bool = False) -> None:
        """Store checkpoints of the views that have folded enough events.

        A reducer that fails stops nothing else; the error is raised when the application reads the view.
        """
        for view in self._views.values():
            if view.has_failed:
                continue
            try:
                self._settle(view)
                if view.folded >= (1 if at_once else limits.OFFLINE_VIEW_EVENTS):
                    self._store_checkpoint(view)
            except ViewFailed:
                view.has_failed = True
                logger.exception("could not update the view %r", view.name)

    def _store_checkpoint(self, view: View) -> None:
        state = view.encode(view.stable)
        self._store.save_checkpoint(Checkpoint(view.name, view.version, view.partitions, view.stable_at, state))
        view.folded = 0

    def _settle(self, view: View) -> None:
        """Fold the events that the cursor now covers."""
        if not view.is_loaded:
            self._load(view)
        until = self._store.facts().stable_until(view.partitions)
        while view.stable_at < until:
            events = self._store.events(view.partitions, view.stable_at, until, limits.OFFLINE_FOLD_EVENTS)
            try:
                for stored in events:
                    view.stable = view.fold(view.stable, event_of(stored))
                    view.stable_at = stored.committed_id
            except BaseException:
                view.is_loaded = False  # the reducer may have changed half of the state
                raise
            view.folded += len(events)
            if len(events) < limits.OFFLINE_FOLD_EVENTS:
                view.stable_at = until
            elif view.folded >= limits.OFFLINE_VIEW_EVENTS:
                self._store_checkpoint(view)

    def _load(self, view: View) -> None:
        view.forget_shown()
        found = self._store.load_checkpoint(view.name)
        if found is not None and (found.version, found.partitions) == (view.version, view.partitions):
            view.stable, view.stable_at = _decode(found.state), found.committed_id
        else:
            view.stable, view.stable_at = self._begin(view), 0
        view.folded = 0
        view.is_loaded = True

    def _begin(self, view: View) -> Any:
        """Return the initial state, with the server's snapshots in it."""
        state = _decode(view.initial)
        for snapshot in self._store.snapshots(view.partitions):
            kept = _decode(snapshot.state)
            if view.restore is not None:
                state = view.restore(state, snapshot.partition, kept)
            elif view.partitions is not None and len(view.partitions) == 1:
                state = kept
            else:
                raise ViewFailed(
                    f"the server has pruned {snapshot.partition!r} up to committed id {snapshot.committed_id} and sent"
                    f" a snapshot, and the view {view.name!r} does not say how to use it",
                    hint="Register the view with restore=, a function that adds a partition's snapshot to the state.",
                )
        return state

    def _show(self, view: View) -> None:
        if view.shown_at < 0:
            view.shown = _decode(view.encode(view.stable))
            view.shown_at, view.shown_clock = view.stable_at, 0
        if not view.shown_clock:  # drafts come last, so no event can follow once there is one
            self._show_events(view)
        names = view.partitions if view.partitions is not None else self._store.facts().names
        while drafts := self._store.drafts(view.shown_clock, limits.OFFLINE_FOLD_EVENTS, limits.SYNC_MESSAGE_BYTES_MAX):
            for draft in drafts:
                if concerns(draft, names):
                    view.shown = view.fold(view.shown, draft_event(draft, self._client_id))
                view.shown_clock = draft.clock

    def _show_events(self, view: View) -> None:
        while events := self._store.events(view.partitions, view.shown_at, None, limits.OFFLINE_FOLD_EVENTS):
            for stored in events:
                view.shown = view.fold(view.shown, event_of(stored))
                view.shown_at = stored.committed_id


def concerns(draft: Draft, names: Sequence[str] | frozenset[str]) -> bool:
    return any(name in names for name in draft.partitions)
