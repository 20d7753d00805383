"""The commands of operators: pause, resume and redeliver. They are extensions of the public protocol.

A pause does not end the current wake: a worker that holds the lease may acknowledge. After that, or when the lease
expires, the subscription stays idle until it is resumed.
"""

import msgspec

from mainstem.errors import InvalidOffset, InvalidSubscription
from mainstem.log.commands import Key, Sizeless, View
from mainstem.log.records import TopicId
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import StreamState, stream_key
from mainstem.streams.subscriptions.core.model import (
    Link,
    Subscription,
    find_subscription,
    link_key,
    matches_pattern,
    subscription_key,
)
from mainstem.streams.subscriptions.core.wakes import make_idle

replace = msgspec.structs.replace


class Pause(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Send no wakes until the subscription is resumed. A repeated pause changes nothing."""

    id: str
    nonce: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        state = find_subscription(view, self.id, self.nonce)
        if not state.paused:
            view.put(subscription_key(self.id), replace(state, paused=True))


class Resume(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """Send wakes again. A postponed webhook keeps the time of its next attempt."""

    id: str
    nonce: str

    def needs(self) -> list[Key]:
        return [subscription_key(self.id)]

    def apply(self, view: View) -> None:
        state = find_subscription(view, self.id, self.nonce)
        if not state.paused:
            return
        if state.config.type == "pull-wake" and state.holder is None:
            # Workers that saw the message of this wake could not claim it, and may not try again without another.
            state = make_idle(state)
        view.put(subscription_key(self.id), replace(state, paused=False))


class CursorMove(msgspec.Struct, frozen=True, gc=False):
    """Where a stream is to be delivered from again."""

    path: str
    offset: Offset | None
    """None is the beginning of what the stream keeps."""
    implied: tuple[TopicId, int] | None = None
    """If the link is only implied: the incarnation of the stream, and the position at which the link begins."""


class Redeliver(msgspec.Struct, Sizeless, frozen=True, gc=False):
    """End the current wake with its lease and its retries, so that everything that was not acknowledged is delivered
    again at once, or after the pause. With `move`, first move the acknowledged offset of one stream back."""

    id: str
    nonce: str
    move: CursorMove | None = None

    def needs(self) -> list[Key]:
        keys = [subscription_key(self.id)]
        if self.move is not None:
            keys += [stream_key(self.move.path), link_key(self.nonce, self.move.path)]
        return keys

    def apply(self, view: View) -> None:
        state = find_subscription(view, self.id, self.nonce)
        if self.move is not None:
            _move_back(view, state, self.move)
        view.put(subscription_key(self.id), make_idle(state))


def _move_back(view: View, state: Subscription, move: CursorMove) -> None:
    key = link_key(state.nonce, move.path)
    link: Link | None = view.get(key)
    stream: StreamState | None = view.get(stream_key(move.path))
    if link is None and (not matches_pattern(state, move.path) or move.path == state.config.wake_stream):
        raise InvalidSubscription(f"{move.path!r} is not linked to this subscription")
    if stream is None or stream.deleted or stream.soft_deleted:
        raise InvalidOffset(f"the stream {move.path!r} does not exist, so nothing of it can be delivered again")
    if link is None:
        if move.implied is None or move.implied[0] != stream.topic:
            raise InvalidOffset(f"the stream {move.path!r} was created a moment ago; all of it will be delivered")
        link = Link(stream.read_seq, move.implied[1], False)
    offset = min(stream.earliest_offset, link.acked) if move.offset is None else move.offset
    if offset > link.acked:
        raise InvalidOffset(
            f"{offset} is after {link.acked}, up to which {move.path!r} was acknowledged; only a move back is possible"
        )
    if move.offset is not None and offset < stream.earliest_offset:
        raise InvalidOffset(
            f"the data at {offset} is no longer kept; {move.path!r} now begins at {stream.earliest_offset}"
        )
    view.put(key, replace(link, read_seq=offset.read_seq, position=offset.position))
