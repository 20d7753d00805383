"""Pending streams: the subscriptions, and the streams that may have new data for each of them.

All of this is in memory and only says where to look; a command decides whether there is new data. A path that has
changed is first *unmatched*: its subscriptions have not been looked up yet. Once it is *matched*, it is in the pending
set of each of them, and another change costs almost nothing. A subscription that is idle and not paused and has pending
streams is *ready* to be woken.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from mainstem import limits
from mainstem.globs import GlobIndex
from mainstem.log.records import CommittedId
from mainstem.streams.subscriptions.core.model import Link, Status, Subscription, split_link


class PendingStreams:
    """`notify` is called whenever there are paths to match or subscriptions to wake."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.change_count = 0
        """The number of changes so far. A caller that reads streams must note it before the read and pass it to
        `clear_pending`."""
        self.matched_count = 0
        """The number of paths matched so far. Once it has grown by `unmatched_count`, all paths that are unmatched now
        have been matched."""
        self.owned: Counter[str | None] = Counter()
        """The number of subscriptions per owner; None stands for subscriptions without an owner."""
        self.statuses: Counter[Status] = Counter()
        """The number of subscriptions per status."""
        self._notify = notify
        self._ids: dict[str, str] = {}
        """Maps a nonce, by which links are named, to its subscription."""
        self._globs = GlobIndex()
        self._by_pattern: dict[str, set[str]] = {}
        self._explicit: dict[str, set[str]] = {}
        self._pending: dict[str, dict[str, None]] = {}
        self._unmatched: OrderedDict[str, None] = OrderedDict()
        """In the order in which they will be matched; the first may be partly done."""
        self._matched: set[str] = set()
        self._changes: dict[str, int] = {}
        """Maps a path to `change_count` at its last change. A read that began earlier must not clear the path."""
        self._ready: set[str] = set()
        self._unacknowledged: dict[str, int] = {}
        """Since when each subscription has been woken without an acknowledgement, while it has a wake and is not
        paused."""

    # Changes

    def note_change(self, path: str) -> None:
        """Note that a stream has changed. Do not call it while there are no `subscriptions`. For a path that is already
        matched, this is the whole cost of an append."""
        self.change_count += 1
        self._changes[path] = self.change_count
        if path not in self._matched:
            self._unmatched[path] = None
            self._notify()

    def note_subscription(self, name: str, state: Subscription | None) -> str | None:
        """Note that a subscription was created, changed or deleted. Return the nonce of the incarnation that this
        ended, if any."""
        old = self.subscriptions.get(name)
        ended = None
        if old is not None and (state is None or state.nonce != old.nonce):
            self._remove(name, old)
            ended, old = old.nonce, None
        if state is None:
            return ended
        if old is None:
            self._add(name, state)
        else:
            self.statuses[old.status] -= 1
            if state.wake_id != old.wake_id:
                self._move_to_end(name, old)
        self.statuses[state.status] += 1
        self.subscriptions[name] = state
        if state.wake_id is None or state.paused or state.unacknowledged_since_us is None:
            self._unacknowledged.pop(name, None)
        else:
            self._unacknowledged[name] = state.unacknowledged_since_us
        if _may_wake(state) and self._pending[name]:
            self.make_ready([name])
        return ended

    def note_link(self, key: str, link: Link | None) -> None:
        """Note that a link was created, changed or deleted; `key` is its name in the store. Only explicit links are
        kept here. If the stream of a link is not pending, the link may have been moved back."""
        nonce, path = split_link(key)
        name = self._ids.get(nonce)
        if name is None:
            return
        if link is not None and link.explicit:
            self._explicit.setdefault(path, set()).add(name)
        else:
            self._remove_explicit(name, path)
        if link is not None and (link.explicit or path not in self._pending[name]):
            self._unmatched[path] = None
            self._notify()

    def forget_all(self) -> None:
        for name, state in list(self.subscriptions.items()):
            self._remove(name, state)

    def _add(self, name: str, state: Subscription) -> None:
        self._ids[state.nonce] = name
        self.owned[state.owner] += 1
        self._pending[name] = {}
        if state.config.pattern is not None:
            self._by_pattern.setdefault(state.config.pattern, set()).add(name)
            self._globs.add(state.config.pattern)
        # Paths that were matched to other subscriptions have not been matched to this one.
        self._unmatched.update(dict.fromkeys(self._matched))
        self._matched.clear()

    def _remove(self, name: str, state: Subscription) -> None:
        del self.subscriptions[name]
        del self._ids[state.nonce]
        self.statuses[state.status] -= 1
        self.owned[state.owner] -= 1
        if not self.owned[state.owner]:
            del self.owned[state.owner]
        del self._pending[name]
        self._unacknowledged.pop(name, None)
        self._ready.discard(name)
        pattern = state.config.pattern
        if pattern is not None:
            self._globs.remove(pattern)
            self._by_pattern[pattern].discard(name)
            if not self._by_pattern[pattern]:
                del self._by_pattern[pattern]
        for path in list(self._explicit):
            self._remove_explicit(name, path)

    def _remove_explicit(self, name: str, path: str) -> None:
        linked = self._explicit.get(path)
        if linked is not None:
            linked.discard(name)
            if not linked:
                del self._explicit[path]

    def _move_to_end(self, name: str, woken: Subscription) -> None:
        """Let other streams come first in the next wake, in case the worker of this one acknowledged nothing."""
        pending = self._pending[name]
        for path, _ in woken.snapshot:
            if path in pending:
                del pending[path]
                pending[path] = None

    # Queries

    def has_nonce(self, nonce: str) -> bool:
        return nonce in self._ids

    def has_explicit(self, path: str) -> bool:
        return path in self._explicit

    def oldest_id(self) -> CommittedId | None:
        """Return the head of the log when the oldest subscription was created: nothing up to it is new to any of
        them."""
        return min((state.created_id for state in self.subscriptions.values()), default=None)

    def paths(self, name: str) -> list[str]:
        """Return the streams that may have new data for a subscription, those first that waited longest since they
        changed or a wake contained them."""
        return list(self._pending.get(name, ()))

    def has_paths(self, name: str) -> bool:
        return bool(self._pending.get(name))

    def idle_with_pending(self, name: str) -> Subscription | None:
        """Return the subscription if it is idle, not paused and has pending streams, or else None."""
        state = self.subscriptions.get(name)
        return state if state is not None and _may_wake(state) and self._pending[name] else None

    def oldest_unacknowledged_us(self) -> int | None:
        """Return when the wakes began that have gone without an acknowledgement for the longest time."""
        return min(self._unacknowledged.values(), default=None)

    def count_behind(self) -> int:
        """Return the number of subscriptions that have pending streams."""
        return sum(map(bool, self._pending.values()))

    def count_pending(self) -> int:
        """Return the number of pending streams of all subscriptions together."""
        return sum(map(len, self._pending.values()))

    def linked_to(self, path: str) -> set[str]:
        """Return the subscriptions to a stream, except those that use it as their wake stream: their own wakes would
        wake them forever."""
        found = set(self._explicit.get(path, ()))
        for pattern in self._globs.find(path):
            found |= self._by_pattern.get(pattern, set())
        return {name for name in found if self.subscriptions[name].config.wake_stream != path}

    @property
    def unmatched_count(self) -> int:
        return len(self._unmatched)

    # Matching and waking

    def add_unmatched(self, paths: Iterable[str]) -> None:
        """Add streams that may have new data, without calling `notify`."""
        self._unmatched.update(dict.fromkeys(paths))

    def match_changes(self, tries_max: int = limits.INTEGER_MAX) -> bool:
        """Put unmatched paths into the pending sets of their subscriptions, trying at most about `tries_max` patterns.

        Return whether all paths are matched. A caller on the event loop should yield between two calls.
        """
        while self._unmatched:
            if tries_max <= 0:
                return False
            path = next(iter(self._unmatched))
            tries_max -= 1 + self._globs.advance(path, tries_max)
            if not self._globs.knows(path):
                return False
            del self._unmatched[path]
            self.matched_count += 1
            linked = self.linked_to(path)
            for name in linked:
                self._pending[name][path] = None
                if _may_wake(self.subscriptions[name]):
                    self._ready.add(name)
            if not linked:
                self._changes.pop(path, None)
            if len(self._matched) < limits.MATCHED_PATHS_MAX:
                self._matched.add(path)
        if len(self._changes) > 2 * limits.MATCHED_PATHS_MAX:
            waiting = {path for pending in self._pending.values() for path in pending}
            self._changes = {path: at for path, at in self._changes.items() if path in waiting}
        return True

    def make_ready(self, names: Iterable[str]) -> None:
        self._ready.update(name for name in names if name in self.subscriptions)
        self._notify()

    def take_ready(self, names_max: int) -> list[str]:
        return [self._ready.pop() for _ in range(min(len(self._ready), names_max))]

    def clear_pending(self, name: str, up_to_date: Iterable[str], since: int) -> None:
        """Forget streams until they change again: a read that began when `change_count` was `since` found nothing new
        in them."""
        pending = self._pending.get(name)
        if pending is None:
            return
        for path in up_to_date:
            if self._changes.get(path, 0) <= since:
                pending.pop(path, None)
                self._matched.discard(path)
        if pending:
            self.make_ready([name])


def _may_wake(state: Subscription) -> bool:
    return state.wake_id is None and not state.paused
