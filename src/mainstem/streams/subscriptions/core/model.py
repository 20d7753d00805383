"""The durable states of subscriptions, and the commands that create, change and delete them (protocol section 6).

A pattern links every stream that it matches, but a link is stored only once a stream has new data. Until then it is
implied by `created_id`, the head of the log when the subscription was created: everything committed later is new.
"""

import hashlib
from typing import Literal

import msgspec

from mainstem import globs, limits
from mainstem.errors import InvalidSubscription, SubscriptionExists, SubscriptionNotFound
from mainstem.log.commands import Freeing, Key, Sizeless, Space, View
from mainstem.log.records import CommittedId, TopicId
from mainstem.log.spaces import SpaceNumber
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key

replace = msgspec.structs.replace


class Config(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The configuration that a client requested. Explicit streams are stored as links, and not here."""

    type: Literal["webhook", "pull-wake"]
    pattern: str | None = None
    webhook_url: str | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = 30_000
    description: str | None = None


Status = Literal["active", "failed", "paused"]


class Failure(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """When and why a wake could not be delivered. The reason is the server's own text, never that of a receiver."""

    at_us: int
    reason: str


class Subscription(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscription and its current wake, if any. It is idle if `wake_id` is None. New fields must come last and have
    a default, so that older data stays readable."""

    nonce: str
    """Distinguishes incarnations of the same id, so that a token becomes invalid when the subscription is deleted."""
    config: Config
    config_hash: str
    base_url: str
    created_at_us: int
    created_id: CommittedId
    generation: int = 0
    wake_id: str | None = None
    snapshot: tuple[tuple[str, str], ...] = ()
    """The streams of the current wake, with the end offsets that were sent: path, offset."""
    holder: str | None = None
    lease_until_us: int | None = None
    attempts: int = 0
    next_attempt_us: int | None = None
    owner: str | None = None
    """The name in the token that created it. None without tokens, and for subscriptions older than this field."""
    paused: bool = False
    """Whether an operator has paused it: no wake is sent until it is resumed."""
    last_error: Failure | None = None
    """Why the latest delivery failed; None once one has succeeded."""
    unacknowledged_since_us: int | None = None
    """When the first wake after the latest acknowledgement began. Wakes that ended without one do not change it."""

    @property
    def status(self) -> Status:
        if self.paused:
            return "paused"
        return "active" if self.next_attempt_us is None else "failed"


class Link(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How far a subscription has processed a stream."""

    read_seq: int
    position: int
    explicit: bool

    @property
    def type(self) -> Literal["explicit", "glob"]:
        return "explicit" if self.explicit else "glob"

    @property
    def acked(self) -> Offset:
        return Offset(self.read_seq, self.position)


def _due(state: Subscription) -> int | None:
    if state.next_attempt_us is None:
        return state.lease_until_us
    return None if state.paused else state.next_attempt_us


SUBSCRIPTIONS: Space[Subscription] = Space(SpaceNumber.SUBSCRIPTIONS, Subscription, due=_due)
LINKS: Space[Link] = Space(SpaceNumber.LINKS, Link)


def subscription_key(subscription_id: str) -> Key:
    return Key(SUBSCRIPTIONS, subscription_id)


def link_prefix(nonce: str) -> str:
    return f"{nonce}\0"


def link_key(nonce: str, path: str) -> Key:
    """Return the key of a link. Links belong to one incarnation of a subscription, identified by its nonce."""
    return Key(LINKS, link_prefix(nonce) + path)


def split_link(name: str) -> tuple[str, str]:
    nonce, _, path = name.partition("\0")
    return nonce, path


def hash_config(config: Config, streams: tuple[str, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode((config, sorted(set(streams))))).hexdigest()


def find_subscription(view: View, subscription_id: str, nonce: str) -> Subscription:
    """Return the subscription if it is still the same incarnation. Raise `SubscriptionNotFound` otherwise."""
    state: Subscription | None = view.get(subscription_key(subscription_id))
    if state is None or state.nonce != nonce:
        raise SubscriptionNotFound(f"the subscription {subscription_id!r} does not exist")
    return state


def has_pending(state: Subscription, path: str, link: Link | None, stream: StreamState | None) -> bool:
    """Return whether a linked stream has data that was not acknowledged yet."""
    if stream is None or stream.deleted or stream.soft_deleted:
        return False
    if link is None:
        return matches_pattern(state, path) and stream.last_id > state.created_id
    return stream.next_offset > link.acked


def matches_pattern(state: Subscription, path: str) -> bool:
    return state.config.pattern is not None and globs.matches(state.config.pattern, path)


def count_lag(acked: Offset, stream: StreamState | None) -> int:
    """Return how many bytes of a stream follow an acknowledged offset and are still kept."""
    if stream is None or stream.deleted or stream.soft_deleted or stream.next_offset <= acked:
        return 0
    return stream.tail - max(stream.earliest, acked.position if acked.read_seq == stream.read_seq else 0)


class PutSubscription(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Create a subscription, or confirm that it exists with the same configuration. Return whether it is new."""

    id: str
    nonce: str
    config: Config
    streams: tuple[str, ...]
    base_url: str
    owner: str | None = None

    def needs(self) -> list[Key]:
        return [
            subscription_key(self.id),
            *(stream_key(path) for path in self.streams),
            *(link_key(self.nonce, path) for path in self.streams),
        ]

    def apply(self, view: View) -> bool:
        digest = hash_config(self.config, self.streams)
        old: Subscription | None = view.get(subscription_key(self.id))
        if old is not None:
            if old.config_hash != digest:
                raise SubscriptionExists(
                    f"the subscription {self.id!r} already exists with a different configuration; delete it first"
                )
            return False
        state = Subscription(self.nonce, self.config, digest, self.base_url, view.now_us, view.head, owner=self.owner)
        view.put(subscription_key(self.id), state)
        for path in self.streams:
            _link(view, self.nonce, path)
        return True


class AddStreams(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Link streams explicitly, each at its current end. A stream that is linked already keeps its acknowledged
    offset."""

    id: str
    nonce: str
    streams: tuple[str, ...]
    starts: tuple[tuple[str, TopicId, int], ...] = ()
    """Where links begin that are implied by the pattern and have pending data: path, topic, position."""

    def needs(self) -> list[Key]:
        return [
            subscription_key(self.id),
            *(stream_key(path) for path in self.streams),
            *(link_key(self.nonce, path) for path in self.streams),
        ]

    def apply(self, view: View) -> None:
        find_subscription(view, self.id, self.nonce)
        implied = {path: (topic, start) for path, topic, start in self.starts}
        for path in self.streams:
            _link(view, self.nonce, path, implied.get(path))


class RemoveStream(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Remove an explicit link. If the pattern matches the stream too, it stays linked and keeps its acknowledged
    offset."""

    id: str
    nonce: str
    path: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id), link_key(self.nonce, self.path)]

    def apply(self, view: View) -> None:
        state = find_subscription(view, self.id, self.nonce)
        key = link_key(self.nonce, self.path)
        link: Link | None = view.get(key)
        if link is None or not link.explicit:
            return
        view.put(key, replace(link, explicit=False) if matches_pattern(state, self.path) else None)


class DeleteSubscription(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Delete a subscription. Its links, which then have no effect, are removed afterwards in small steps."""

    id: str
    nonce: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        find_subscription(view, self.id, self.nonce)
        view.put(subscription_key(self.id), None)


class DropLinks(msgspec.Struct, Freeing, Sizeless, frozen=True, gc=False):
    """Remove links of a deleted subscription."""

    nonce: str
    paths: tuple[str, ...]

    def needs(self) -> list[Key]:
        return [link_key(self.nonce, path) for path in self.paths]

    def apply(self, view: View) -> None:
        for key in self.needs():
            view.put(key, None)


def _link(view: View, nonce: str, path: str, implied: tuple[TopicId, int] | None = None) -> None:
    key = link_key(nonce, path)
    link: Link | None = view.get(key)
    if link is not None:
        view.put(key, replace(link, explicit=True))
        return
    stream: StreamState | None = view.get(stream_key(path))
    if lifecycle.is_gone(stream, view.now_us, 0):
        view.put(key, Link(0 if stream is None else stream.read_seq + 1, 0, True))  # the next incarnation
    else:
        assert stream is not None
        position = implied[1] if implied is not None and implied[0] == stream.topic else stream.tail
        view.put(key, Link(stream.read_seq, position, True))


def check_id(subscription_id: str) -> None:
    if not subscription_id or len(subscription_id.encode()) > limits.SUBSCRIPTION_ID_BYTES_MAX:
        raise InvalidSubscription(f"the subscription id must be 1 to {limits.SUBSCRIPTION_ID_BYTES_MAX} bytes")


def check_config(config: Config, streams: tuple[str, ...]) -> None:
    if config.pattern is None and not streams:
        raise InvalidSubscription("a subscription needs a pattern or streams")
    if config.pattern is not None:
        globs.check_glob(config.pattern)
        globs.check_cost(config.pattern)
