"""One connection as a pure state machine: it takes messages, and returns what to store and what to send.

It imports no clock, no socket and no store. Each call returns effects, which the owner performs in order: it sends
nothing that follows a `Save` until that is durable. If an effect fails, the owner discards the session, and the next
one begins with what the store holds. So the machine never has to undo anything.

    connected ──► catch up from the cursor ──► fetch added partitions from 0 ──► live
                        ▲                                                         │
                        └──────────── every OFFLINE_RENEW_EVENTS ◄────────────────┘

Only pages move the cursor (seeds 000 and 001): results and broadcasts are applied, but they do not prove that nothing
is missing before them. While live, a sync cycle now and then moves the cursor past them.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import msgspec

from mainstem import limits
from mainstem.client.offline.core.effects import Effects, Pause, Report, Save, Send
from mainstem.client.offline.core.errors import HistoryBehind, HistoryMismatch, PartitionRefused
from mainstem.client.offline.core.queue import SubmitQueue, pause_s
from mainstem.client.offline.core.records import Committed, Draft, Facts, Snapshot, StoreUpdate
from mainstem.client.sync_protocol.errors import ProtocolFault, ServerRefused
from mainstem.client.sync_protocol.messages import (
    CommittedEvent,
    Connected,
    Envelope,
    ErrorPayload,
    Page,
    SubmitResults,
    decode_message,
    encode_connect,
    encode_sync,
)

_object = msgspec.json.Decoder(dict[str, Any])


class Phase(Enum):
    CONNECTING = "connecting"
    SYNCING = "syncing"
    LIVE = "live"


class Cycle:
    """One sync cycle, from its first request to its last page."""

    def __init__(self, partitions: tuple[str, ...], since: int, *, fetches: bool) -> None:
        self.partitions = partitions
        self.since = since
        self.fetches = fetches
        """Whether it fetches the history of added partitions; otherwise it moves the cursor."""
        self.until: int | None = None
        self.msg_id = ""


class Session:
    """The state of one connection."""

    def __init__(
        self,
        facts: Facts,
        client_id: str,
        token: str,
        *,
        page_limit: int = limits.OFFLINE_PAGE,
        is_certain: bool = True,
    ) -> None:
        """With `is_certain`, a log that ends too early counts as another log; without it, the node may just lag."""
        self.phase = Phase.CONNECTING
        self.client_id = client_id
        self.page_limit = page_limit
        self._is_certain = is_certain
        self._token = token
        self._cursor = facts.cursor
        self._highest = facts.highest
        self._joined = {followed.name for followed in facts.partitions if followed.since is None}
        self._pending = {followed.name: followed.since for followed in facts.partitions if followed.since is not None}
        self._messages = 0
        self._queue = SubmitQueue(self._next_id)
        self._cycle: Cycle | None = None
        self._early: dict[int, Committed] = {}
        self._early_bytes = 0
        self._begin_again = False
        self._one_by_one = False
        self._refused: ServerRefused | None = None
        self._ahead = 0
        """How many events were applied that the cursor does not cover yet."""
        self._sync_paused = False

    @property
    def awaits_page(self) -> bool:
        return self._cycle is not None

    @property
    def refused(self) -> bool:
        """Whether the server refuses to let this client follow its partitions."""
        return self._refused is not None

    # Input

    def open(self) -> Effects:
        return [Send(encode_connect(self._token, self.client_id, self._next_id()))]

    def receive(self, text: bytes) -> Effects:
        """Process one message of the server.

        Raise `ProtocolFault` for a message that a server must not send, and `ServerRefused` for an error that ends the
        connection.
        """
        envelope, payload = decode_message(text)
        match payload:
            case None:
                return []  # heartbeat_ack, or a type that only newer clients know
            case ErrorPayload():
                return self._on_error(envelope, payload)
            case Connected():
                return self._on_connected(payload)
        if self.phase is Phase.CONNECTING:
            raise ProtocolFault(f"the server sent {envelope.type} before connected")
        match payload:
            case SubmitResults():
                return self._on_results(envelope, payload)
            case Page():
                return self._on_page(envelope, payload)
            case CommittedEvent():
                return self._on_broadcast(check_event(payload))
        raise AssertionError(envelope.type)

    def offer(self, drafts: Sequence[Draft]) -> Effects:
        """Take the drafts that `Load` asked for."""
        return self._queue.offer(drafts)

    def send_drafts(self) -> Effects:
        """Send the drafts of the store, unless a request is in flight."""
        return self._queue.load()

    def resume(self) -> Effects:
        """Continue after a pause."""
        if self._refused is not None:
            raise self._refused  # the next connection asks for a new token
        effects: Effects = []
        if self._sync_paused and self._cycle is not None:
            self._sync_paused = False
            effects.append(self._request_page(self._cycle, first=self._cycle.until is None))
        return effects + self._queue.resume()

    def follow(self, names: Iterable[str]) -> Effects:
        """Follow more partitions, and fetch their history from 0 (seed 003)."""
        for name in names:
            if name not in self._joined:
                self._pending.setdefault(name, 0)
        return self._continue_if_idle()

    def unfollow(self, names: Iterable[str]) -> Effects:
        for name in names:
            self._joined.discard(name)
            self._pending.pop(name, None)
        self._refused = None
        self._begin_again = True
        return self._continue_if_idle()

    # Connecting

    def _on_connected(self, connected: Connected) -> Effects:
        if self.phase is not Phase.CONNECTING:
            raise ProtocolFault("the server sent connected twice")
        self.phase = Phase.SYNCING
        effects: Effects = []
        end = connected.server_last_committed_id
        if end is not None and end < max(self._cursor, self._highest):
            seen = max(self._cursor, self._highest)
            effects = self._forget(f"the server's log ends at committed id {end}, and this client has seen {seen}")
        return [*effects, *self._begin(), *self._queue.begin(connected.limits)]

    def _forget(self, detail: str) -> Effects:
        """Start from scratch with another log. Drafts stay; if the log knows their ids, the server recognises them."""
        if not self._is_certain:
            raise HistoryBehind(detail)
        self._cursor = self._highest = self._ahead = 0
        self._joined.update(self._pending)
        self._pending.clear()
        self._early.clear()
        self._early_bytes = 0
        self._cycle = None
        self.phase = Phase.SYNCING
        return [Save(StoreUpdate(reset=True)), Report(HistoryMismatch(detail))]

    def _next_id(self) -> str:
        self._messages += 1
        return str(self._messages)

    # Catching up

    def _begin(self) -> Effects:
        """Start a cycle over all partitions that the cursor covers."""
        self._begin_again = False
        self._ahead = 0
        return self._start(Cycle(tuple(sorted(self._joined)), self._cursor, fetches=False))

    def _start(self, cycle: Cycle) -> Effects:
        self._cycle = cycle
        return [self._request_page(cycle, first=True)]

    def _request_page(self, cycle: Cycle, *, first: bool) -> Send:
        cycle.msg_id = self._next_id()
        subscribe_to = sorted(self._joined.union(cycle.partitions)) if first else None
        request = encode_sync(cycle.partitions, cycle.since, self.page_limit, cycle.msg_id, subscribe_to=subscribe_to)
        return Send(request)

    def _continue(self) -> Effects:
        """Start the next cycle, or go live."""
        self._cycle = None
        if self._begin_again:
            return self._begin()
        if self._pending:
            self.phase = Phase.SYNCING
            return self._start(self._next_fetch())
        self.phase = Phase.LIVE
        return self._renew()

    def _continue_if_idle(self) -> Effects:
        if self._cycle is None and self.phase is not Phase.CONNECTING and self._refused is None:
            return self._continue()
        return []

    def _next_fetch(self) -> Cycle:
        """Return a cycle that fetches all added partitions with the same progress."""
        first = min(self._pending)
        since = self._pending[first]
        alike = [first] if self._one_by_one else [name for name, at in self._pending.items() if at == since]
        return Cycle(tuple(sorted(alike)), since, fetches=True)

    def _renew(self) -> Effects:
        """Move the cursor past what was received live, so that the next connection does not fetch it again."""
        if self._ahead >= limits.OFFLINE_RENEW_EVENTS and self._cycle is None and self.phase is Phase.LIVE:
            return self._begin()
        return []

    def _on_page(self, envelope: Envelope, page: Page) -> Effects:
        cycle = self._cycle
        if cycle is None or envelope.msg_id not in (cycle.msg_id, None):
            raise ProtocolFault("the server sent a page that the client did not request")
        if page.sync_to_committed_id < cycle.since:
            end = page.sync_to_committed_id
            detail = f"the server's log ends at committed id {end}, and this client has seen {cycle.since}"
            return [*self._forget(detail), *self._begin()]
        events = tuple(check_event(event) for event in page.events)
        self._check_page(cycle, page, events)
        update = self._page_update(cycle, page, events)
        cycle.since, cycle.until = page.next_since_committed_id, page.sync_to_committed_id
        effects: Effects = [Save(update)]
        if page.has_more:
            return [*effects, self._request_page(cycle, first=False)]
        return [*effects, *self._flush_early(), *self._continue()]

    def _check_page(self, cycle: Cycle, page: Page, events: tuple[Committed, ...]) -> None:
        ids = [event.committed_id for event in events]
        ordered = all(before < after for before, after in zip([cycle.since, *ids], ids, strict=False))
        last = ids[-1] if ids else cycle.since
        if not ordered or page.next_since_committed_id < last:
            raise ProtocolFault(f"the page after committed id {cycle.since} is not in order")
        if page.next_since_committed_id > page.sync_to_committed_id:
            raise ProtocolFault(f"the page after committed id {cycle.since} goes beyond the end of its cycle")
        if page.has_more and page.next_since_committed_id <= cycle.since:
            raise ProtocolFault(f"the page after committed id {cycle.since} announces more events but does not advance")

    def _page_update(self, cycle: Cycle, page: Page, events: tuple[Committed, ...]) -> StoreUpdate:
        snapshots = tuple(
            Snapshot(snapshot.partition, snapshot.committed_id, bytes(snapshot.state)) for snapshot in page.snapshots
        )
        following = page.next_since_committed_id
        if not cycle.fetches:
            self._cursor = following
            return StoreUpdate(snapshots=snapshots, events=events, cursor=following, truncated=page.history_truncated)
        # A partition that was removed and added again meanwhile needs its earlier pages once more.
        names = [name for name in cycle.partitions if self._pending.get(name) == cycle.since]
        if page.has_more:
            self._pending.update(dict.fromkeys(names, following))
            fetched = tuple((name, following) for name in names)
            return StoreUpdate(snapshots=snapshots, events=events, fetched=fetched, truncated=page.history_truncated)
        for name in names:
            del self._pending[name]
        self._joined.update(names)
        return StoreUpdate(snapshots=snapshots, events=events, joined=tuple(names), truncated=page.history_truncated)

    # Broadcasts

    def _on_broadcast(self, event: Committed) -> Effects:
        """Apply a broadcast. During a cycle, events after its end wait until it is complete (seed 001)."""
        cycle = self._cycle
        if cycle is not None and (cycle.until is None or event.committed_id > cycle.until):
            self._keep_early(event)
            return []
        self._ahead += 1
        return [Save(StoreUpdate(events=(event,))), *self._renew()]

    def _keep_early(self, event: Committed) -> None:
        self._early[event.committed_id] = event
        self._early_bytes += len(event.event)
        crowded = len(self._early) > limits.OFFLINE_EARLY_EVENTS_MAX
        if crowded or self._early_bytes > limits.OFFLINE_EARLY_BYTES_MAX:
            self._early.clear()  # seed 001: syncing again from the cursor brings back a lost buffer
            self._early_bytes = 0
            self._begin_again = True

    def _flush_early(self) -> Effects:
        events = tuple(event for _, event in sorted(self._early.items()))
        self._early.clear()
        self._early_bytes = 0
        self._ahead += len(events)
        return [Save(StoreUpdate(events=events))] if events else []

    # Submitting

    def _on_results(self, envelope: Envelope, reply: SubmitResults) -> Effects:
        update = self._queue.settle(envelope, reply)
        self._ahead += len(update.commits)
        return [Save(update), *self._queue.load(), *self._renew()]

    # Errors

    def _on_error(self, envelope: Envelope, payload: ErrorPayload) -> Effects:
        error = ServerRefused(payload.code, payload.message, payload.details)
        ends = payload.code in ("auth_failed", "server_error", "protocol_version_unsupported")
        if ends or envelope.msg_id is None:
            raise error
        if self._queue.awaits(envelope.msg_id):
            return self._queue.refuse(error)
        if self._cycle is not None and envelope.msg_id == self._cycle.msg_id:
            return self._sync_refused(self._cycle, error)
        raise error

    def _sync_refused(self, cycle: Cycle, error: ServerRefused) -> Effects:
        if error.code == "rate_limited":
            self._sync_paused = True
            return [Report(error), Pause(pause_s(error))]
        if not cycle.fetches:
            self._cycle = None
            self._refused = error
            return [Report(error), Pause(limits.OFFLINE_REFUSED_S)]
        if len(cycle.partitions) > 1:
            self._one_by_one = True  # to find out which partition it is
            return self._continue()
        [name] = cycle.partitions
        self._pending.pop(name, None)
        refused = PartitionRefused(name, error.detail)
        return [Save(StoreUpdate(left=(name,))), Report(refused), *self._continue()]


def check_event(event: CommittedEvent) -> Committed:
    content = bytes(event.event)
    try:
        _object.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolFault(f"the event at committed id {event.committed_id} is not a JSON object") from error
    if event.committed_id < 1 or not event.id or not event.partitions:
        raise ProtocolFault(f"the event at committed id {event.committed_id} is malformed")
    return Committed(event.committed_id, event.id, event.client_id, event.partitions, content, event.status_updated_at)
