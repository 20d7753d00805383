"""The commands of wakes: wake a worker, claim, acknowledge and release (protocol section 7).

    idle      no current wake               -> Wake, Claim
    woken     wake_id, no holder            -> Claim (pull-wake), Acknowledge (webhook), PostponeDelivery, ExpireLease
    held      wake_id, holder, lease        -> Acknowledge, Release, ExpireLease

Every wake increments the generation. A worker with an older generation, or another wake_id, is fenced. Only
Acknowledge moves the acknowledged offsets forward. While a subscription is paused, no wake begins, no webhook is
retried and no claim is accepted; a worker that holds a lease may finish.
"""

import msgspec

from mainstem.errors import (
    AlreadyClaimed,
    Fenced,
    InvalidOffset,
    InvalidSubscription,
    NoPendingWork,
    SubscriptionNotFound,
    SubscriptionPaused,
)
from mainstem.log.commands import Key, Sizeless, View
from mainstem.log.records import TopicId
from mainstem.streams.commands.append import append_messages
from mainstem.streams.rules import json_mode, lifecycle
from mainstem.streams.rules.content_types import is_json
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    Failure,
    Link,
    Subscription,
    find_subscription,
    has_pending,
    link_key,
    subscription_key,
)

replace = msgspec.structs.replace


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A stream that may have new data. `start` is where an implied link begins in the incarnation `topic`."""

    path: str
    topic: TopicId | None = None
    start: int | None = None


class LinkedStream(msgspec.Struct, frozen=True, gc=False):
    """One stream of a wake, as a worker receives it."""

    path: str
    link_type: str
    acked_offset: str
    tail_offset: str
    has_pending: bool = True


class WakeResult(msgspec.Struct, frozen=True, gc=False):
    """The current wake and its streams."""

    state: Subscription
    streams: tuple[LinkedStream, ...]
    up_to_date: tuple[str, ...]
    """The candidates that have nothing new."""


class WakeMessage(msgspec.Struct, frozen=True):
    """The message that a pull-wake subscription appends to its wake stream."""

    subscription_id: str
    stream: str
    generation: int
    ts: int
    type: str = "wake"


def _candidate_keys(subscription_id: str, nonce: str, candidates: tuple[Candidate, ...]) -> list[Key]:
    keys = [subscription_key(subscription_id)]
    for candidate in candidates:
        keys.append(stream_key(candidate.path))
        keys.append(link_key(nonce, candidate.path))
    return keys


def _find_pending(
    view: View, state: Subscription, candidates: tuple[Candidate, ...]
) -> tuple[list[LinkedStream], list[str]]:
    """Return the candidates with new data and the paths of those without. Store implied links of the former."""
    streams: list[LinkedStream] = []
    up_to_date: list[str] = []
    for candidate in candidates:
        key = link_key(state.nonce, candidate.path)
        link: Link | None = view.get(key)
        stream: StreamState | None = view.get(stream_key(candidate.path))
        if not has_pending(state, candidate.path, link, stream):
            up_to_date.append(candidate.path)
            continue
        assert stream is not None
        if link is None:
            if candidate.start is None or candidate.topic != stream.topic:
                continue  # the stream was created again in the meantime; it stays a candidate for the next wake
            link = Link(stream.read_seq, candidate.start, False)
            view.put(key, link)
        streams.append(LinkedStream(candidate.path, link.type, str(link.acked), str(stream.next_offset)))
    return streams, up_to_date


def _next_generation(view: View, state: Subscription, wake_id: str, streams: list[LinkedStream]) -> Subscription:
    return replace(
        state,
        generation=state.generation + 1,
        wake_id=wake_id,
        snapshot=tuple((stream.path, stream.tail_offset) for stream in streams),
        holder=None,
        lease_until_us=None,
        attempts=0,
        next_attempt_us=None,
        unacknowledged_since_us=view.now_us if state.unacknowledged_since_us is None else state.unacknowledged_since_us,
    )


def _lease_end(view: View, state: Subscription) -> int:
    return view.now_us + state.config.lease_ttl_ms * 1000


def make_idle(state: Subscription) -> Subscription:
    """Return the subscription without its wake, which fences the worker."""
    return replace(state, wake_id=None, snapshot=(), holder=None, lease_until_us=None, attempts=0, next_attempt_us=None)


class Wake(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Begin a wake if the subscription is idle and has new data. For pull-wake, also append the wake message. Return
    None if the subscription is not idle or is paused, and a result without streams if there is no new data."""

    id: str
    nonce: str
    wake_id: str
    candidates: tuple[Candidate, ...]
    wake_stream: str | None = None

    def needs(self) -> list[Key]:
        keys = _candidate_keys(self.id, self.nonce, self.candidates)
        if self.wake_stream is not None:
            keys.append(stream_key(self.wake_stream))
        return keys

    def apply(self, view: View) -> WakeResult | None:
        state: Subscription | None = view.get(subscription_key(self.id))
        if state is None or state.nonce != self.nonce or state.wake_id is not None or state.paused:
            return None
        streams, up_to_date = _find_pending(view, state, self.candidates)
        if not streams:
            if state.unacknowledged_since_us is not None:  # the data of an earlier wake was deleted
                view.put(subscription_key(self.id), replace(state, unacknowledged_since_us=None))
            return WakeResult(state, (), tuple(up_to_date))
        state = _next_generation(view, state, self.wake_id, streams)
        if self.wake_stream is None:
            state = replace(state, lease_until_us=_lease_end(view, state))
        elif self._write_wake(view, state, streams[0].path):
            state = replace(state, last_error=None)
        else:  # try again after a lease time, as if a worker had died
            failure = Failure(view.now_us, "the wake stream does not exist or is closed")
            state = replace(state, lease_until_us=_lease_end(view, state), last_error=failure)
        view.put(subscription_key(self.id), state)
        return WakeResult(state, tuple(streams), tuple(up_to_date))

    def _write_wake(self, view: View, state: Subscription, path: str) -> bool:
        assert self.wake_stream is not None
        key = stream_key(self.wake_stream)
        stream: StreamState | None = view.get(key)
        if stream is None or stream.soft_deleted or stream.closed or lifecycle.is_gone(stream, view.now_us, 0):
            return False
        message = WakeMessage(self.id, path, state.generation, view.now_us // 1000)
        data = msgspec.json.encode(message)
        if is_json(stream.content_type):
            data += b","
        stream = append_messages(view, stream, json_mode.Messages(data, 1), None)
        if stream.ttl_s is not None:
            stream = replace(stream, expires_at_us=lifecycle.window_end(stream.ttl_s, view.now_us))
        view.put(key, stream)
        return True


class Claim(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Give a pull-wake worker the subscription for a lease time."""

    id: str
    nonce: str
    worker: str
    wake_id: str
    candidates: tuple[Candidate, ...]

    def needs(self) -> list[Key]:
        return _candidate_keys(self.id, self.nonce, self.candidates)

    def apply(self, view: View) -> WakeResult:
        state = find_subscription(view, self.id, self.nonce)
        if state.config.type != "pull-wake":
            raise InvalidSubscription("only pull-wake subscriptions can be claimed; this one is a webhook subscription")
        if state.paused:
            raise SubscriptionPaused(f"an operator has paused the subscription {self.id!r}")
        if state.holder is not None and state.lease_until_us is not None and state.lease_until_us > view.now_us:
            raise AlreadyClaimed(state.holder, state.generation)
        streams, up_to_date = _find_pending(view, state, self.candidates)
        if not streams:
            raise NoPendingWork("the linked streams have no new data")
        if state.wake_id is None or state.holder is not None:  # fences a holder whose lease has expired
            state = _next_generation(view, state, self.wake_id, streams)
        state = replace(
            state,
            holder=self.worker,
            lease_until_us=_lease_end(view, state),
            snapshot=tuple((stream.path, stream.tail_offset) for stream in streams),
        )
        view.put(subscription_key(self.id), state)
        return WakeResult(state, tuple(streams), tuple(up_to_date))


class FencingToken(msgspec.Struct, frozen=True, gc=False):
    """The wake that a worker was given and the claims of its token, by which a worker is refused once its wake has
    ended."""

    nonce: str
    token_generation: int
    generation: int
    wake_id: str


def _find_fenced(view: View, subscription_id: str, fencing: FencingToken) -> Subscription:
    state: Subscription | None = view.get(subscription_key(subscription_id))
    if state is None:
        raise SubscriptionNotFound(f"the subscription {subscription_id!r} does not exist")
    if (state.nonce, state.generation, state.generation, state.wake_id) != (
        fencing.nonce,
        fencing.token_generation,
        fencing.generation,
        fencing.wake_id,
    ):
        raise Fenced("this wake has ended: its lease expired, or it was released or acknowledged as done")
    return state


class Acknowledge(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Move acknowledged offsets and extend the lease, or end the wake with `done`. Return whether another follows."""

    id: str
    fencing: FencingToken
    acks: tuple[tuple[str, Offset], ...]
    done: bool
    candidates: tuple[Candidate, ...] = ()
    of_snapshot: bool = False
    """Whether the acks come from the wake itself and not from a worker: links that were removed since are skipped."""

    def needs(self) -> list[Key]:
        named = tuple(Candidate(path) for path, _ in self.acks)
        return _candidate_keys(self.id, self.fencing.nonce, (*named, *self.candidates))

    def apply(self, view: View) -> bool:
        state = _find_fenced(view, self.id, self.fencing)
        for path, offset in self.acks:
            self._ack(view, path, offset)
        state = replace(state, last_error=None, unacknowledged_since_us=None if self.done else view.now_us)
        if not self.done:
            view.put(subscription_key(self.id), replace(state, lease_until_us=_lease_end(view, state)))
            return False
        view.put(subscription_key(self.id), make_idle(state))
        return any(
            has_pending(state, path, view.get(link_key(state.nonce, path)), view.get(stream_key(path)))
            for path in {*(path for path, _ in self.acks), *(candidate.path for candidate in self.candidates)}
        )

    def _ack(self, view: View, path: str, offset: Offset) -> None:
        key = link_key(self.fencing.nonce, path)
        link: Link | None = view.get(key)
        stream: StreamState | None = view.get(stream_key(path))
        if link is None:
            if self.of_snapshot:
                return
            raise InvalidOffset(f"{path!r} is not linked to this subscription")
        if offset > max(link.acked if stream is None else stream.next_offset, link.acked):
            raise InvalidOffset(f"{offset} is beyond the end of {path!r}")
        if offset > link.acked:
            view.put(key, replace(link, read_seq=offset.read_seq, position=offset.position))


class Release(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """End a wake without an acknowledgement."""

    id: str
    fencing: FencingToken

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        state = _find_fenced(view, self.id, self.fencing)
        view.put(subscription_key(self.id), make_idle(state))


class PostponeDelivery(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Schedule a retry of a wake whose webhook failed. The schedule and the reason are durable."""

    id: str
    wake_id: str
    next_attempt_us: int
    reason: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        state: Subscription | None = view.get(subscription_key(self.id))
        if state is None or state.wake_id != self.wake_id:
            return
        state = replace(
            state,
            attempts=state.attempts + 1,
            next_attempt_us=self.next_attempt_us,
            last_error=Failure(view.now_us, self.reason),
        )
        view.put(subscription_key(self.id), state)


class RetryDelivery(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Begin a new lease for a postponed webhook that is due. Return None if the wake has ended in the meantime, or the
    subscription is paused."""

    id: str
    wake_id: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> Subscription | None:
        state: Subscription | None = view.get(subscription_key(self.id))
        if state is None or state.wake_id != self.wake_id or state.next_attempt_us is None or state.paused:
            return None
        state = replace(state, next_attempt_us=None, lease_until_us=_lease_end(view, state))
        view.put(subscription_key(self.id), state)
        return state


class ConfirmDelivery(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Forget earlier failures, because the receiver has accepted the webhook."""

    id: str
    wake_id: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        state: Subscription | None = view.get(subscription_key(self.id))
        if state is None or state.wake_id != self.wake_id:
            return
        if state.attempts or state.last_error is not None:
            view.put(subscription_key(self.id), replace(state, attempts=0, last_error=None))


class ExpireLease(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Make the subscription idle if its lease has expired, which fences the worker. Return whether it had expired."""

    id: str
    wake_id: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> bool:
        state: Subscription | None = view.get(subscription_key(self.id))
        if (
            state is None
            or state.wake_id != self.wake_id
            or state.next_attempt_us is not None
            or state.lease_until_us is None
            or state.lease_until_us > view.now_us
        ):
            return False
        view.put(subscription_key(self.id), make_idle(state))
        return True
