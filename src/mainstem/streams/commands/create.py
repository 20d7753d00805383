"""The command that creates a stream, and the functions that it shares with Fork."""

from typing import NamedTuple

import msgspec

from mainstem.errors import StreamExists
from mainstem.log.commands import Key, View
from mainstem.log.records import Kind, TopicId
from mainstem.streams.commands.append import append_messages, close_stream
from mainstem.streams.commands.delete import end_stream
from mainstem.streams.rules import lifecycle
from mainstem.streams.rules.content_types import media_type
from mainstem.streams.rules.json_mode import NOTHING, Messages
from mainstem.streams.states import Retention, RetentionCheck, StreamState, retention_key, stream_key


class Created(NamedTuple):
    state: StreamState
    new: bool


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """The lifetime that a PUT requests: a sliding TTL, an absolute expiry, or neither."""

    ttl_s: int | None = None
    expires_at_us: int | None = None
    expires_at_text: str | None = None


class CreateDescription(msgspec.Struct, frozen=True):
    """The data of a CREATE record. It lets a reader of the log find the path of every topic."""

    path: str
    content_type: str
    read_seq: int


class Create(msgspec.Struct, frozen=True, gc=False):
    """Create a stream, or confirm that it already exists with the same configuration."""

    path: str
    content_type: str
    messages: Messages = NOTHING
    closed: bool = False
    lifetime: Lifetime = Lifetime()
    retention: Retention | None = None
    touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.messages.data)

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> Created:
        old: StreamState | None = view.get(stream_key(self.path))
        if old is not None and not lifecycle.is_gone(old, view.now_us, self.touched_us):
            check_path_free(old, view.now_us, self.touched_us)
            if old.origin is not None:
                raise StreamExists(f"the stream at {self.path!r} already exists as a fork")
            if old.retention != self.retention:
                raise StreamExists(f"the stream at {self.path!r} already exists with a different Stream-Retention")
            check_same(self.path, old, self.content_type, self.lifetime, self.closed)
            return Created(old, new=False)
        state = begin_stream(view, self.path, self.content_type, self.lifetime)
        if self.retention is not None:
            state = msgspec.structs.replace(state, retention=self.retention)
            view.put(retention_key(self.path), RetentionCheck(state.topic, view.now_us))
        return Created(write_initial(view, self.path, state, self.messages, self.closed), new=True)


def begin_stream(
    view: View, path: str, content_type: str, lifetime: Lifetime, *, read_seq_min: int = 0, position: int = 0
) -> StreamState:
    """Begin a new incarnation at a path, after deleting an expired stream that is still there."""
    old: StreamState | None = view.get(stream_key(path))
    if old is not None and not old.deleted:
        end_stream(view, path, old)
    read_seq = read_seq_min if old is None else max(read_seq_min, old.read_seq + 1)
    about = msgspec.json.encode(CreateDescription(path, content_type, read_seq))
    created = view.append(Kind.CREATE, None, position, position, data=about)
    ttl_s = lifetime.ttl_s
    return StreamState(
        topic=TopicId(created),
        read_seq=read_seq,
        content_type=content_type,
        tail=position,
        created_at_us=view.now_us,
        ttl_s=ttl_s,
        expires_at_us=lifetime.expires_at_us if ttl_s is None else lifecycle.window_end(ttl_s, view.now_us),
        expires_at_text=lifetime.expires_at_text,
    )


def write_initial(view: View, path: str, state: StreamState, messages: Messages, closed: bool) -> StreamState:
    """Append the first messages and close the stream, if the PUT asks for it. Return the resulting state."""
    if messages.data:
        state = append_messages(view, state, messages, None)
    if closed:
        state = close_stream(view, state, None)
    view.put(stream_key(path), state)
    return state


def check_path_free(old: StreamState, now_us: int, touched_us: int) -> None:
    if lifecycle.is_soft_deleted(old, now_us, touched_us):
        raise StreamExists("the path cannot be reused until the last fork of its deleted stream is deleted")


def check_same(path: str, old: StreamState, content_type: str | None, lifetime: Lifetime | None, closed: bool) -> None:
    """Raise `StreamExists` if a stream differs from the one that a repeated PUT requests. None matches anything."""
    if content_type is not None and media_type(content_type) != media_type(old.content_type):
        raise StreamExists(f"the stream at {path!r} already exists with the content type {old.content_type}")
    if lifetime is not None:
        expires_at_us = old.expires_at_us if old.ttl_s is None else None
        if (lifetime.ttl_s, lifetime.expires_at_us) != (old.ttl_s, expires_at_us):
            raise StreamExists(f"the stream at {path!r} already exists with a different TTL or expiry")
    if closed != old.closed:
        raise StreamExists(f"the stream at {path!r} already exists and is {'closed' if old.closed else 'open'}")
