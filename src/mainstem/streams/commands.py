"""Create, Append, Delete, Expire and Touch as Commands: pure decisions over the states of a stream."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mainstem.errors import (
    ContentTypeMismatch,
    SequenceRegression,
    StreamClosed,
    StreamExists,
    StreamNotFound,
)
from mainstem.log.commands import Key, View
from mainstem.log.records import Kind, TopicId
from mainstem.streams import lifecycle, producers
from mainstem.streams.content_types import media_type
from mainstem.streams.json_mode import NOTHING, Messages
from mainstem.streams.states import (
    Garbage,
    ProducerState,
    ProducerTuple,
    StreamState,
    garbage_key,
    producer_key,
    stream_key,
)

replace = msgspec.structs.replace


class Created(NamedTuple):
    state: StreamState
    new: bool


class Appended(NamedTuple):
    state: StreamState
    duplicate: bool
    producer: ProducerState | None


class CreateDescription(msgspec.Struct, frozen=True):
    """What the CREATE record holds, so that a reader of the log alone can name every topic."""

    path: str
    content_type: str
    read_seq: int


@dataclass(frozen=True, slots=True)
class Create:
    """PUT: make the stream, or confirm that it is there just so."""

    path: str
    content_type: str
    messages: Messages = NOTHING
    closed: bool = False
    ttl_s: int | None = None
    expires_at_us: int | None = None
    expires_at_text: str | None = None
    touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.messages.data)

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> Created:
        key = stream_key(self.path)
        old: StreamState | None = view.get(key)
        if not lifecycle.is_gone(old, view.now_us, self.touched_us):
            assert old is not None
            return Created(self._confirm(old), new=False)
        if old is not None and not old.deleted:
            _end(view, self.path, old)
        read_seq = 0 if old is None else old.read_seq + 1
        about = msgspec.json.encode(CreateDescription(self.path, self.content_type, read_seq))
        created = view.append(Kind.CREATE, None, 0, 0, data=about)
        state = StreamState(
            topic=TopicId(created),
            read_seq=read_seq,
            content_type=self.content_type,
            tail=0,
            created_at_us=view.now_us,
            ttl_s=self.ttl_s,
            expires_at_us=self.expires_at_us,
            expires_at_text=self.expires_at_text,
        )
        if self.ttl_s is not None:
            state = replace(state, expires_at_us=lifecycle.window_end(self.ttl_s, view.now_us))
        if self.messages.data:
            state = _write(view, state, self.messages, None)
        if self.closed:
            state = _close(view, state, None)
        view.put(key, state)
        return Created(state, new=True)

    def _confirm(self, old: StreamState) -> StreamState:
        asked = (media_type(self.content_type), self.ttl_s, self.expires_at_us if self.ttl_s is None else None)
        there = (media_type(old.content_type), old.ttl_s, old.expires_at_us if old.ttl_s is None else None)
        if asked != there:
            raise StreamExists("the stream exists with another content type, TTL or expiry")
        if self.closed != old.closed:
            raise StreamExists(f"the stream exists and is {'closed' if old.closed else 'open'}")
        return old


@dataclass(frozen=True, slots=True)
class Append:
    """POST: add messages, or close, or both at once. `messages` is None for a close alone."""

    path: str
    content_type: str | None
    messages: Messages | None
    closes: bool = False
    stream_seq: str | None = None
    producer: ProducerTuple | None = None
    touched_us: int = 0

    @property
    def size(self) -> int:
        return len(self.messages.data) if self.messages else 0

    def needs(self) -> list[Key]:
        if self.producer is None:
            return [stream_key(self.path)]
        return [stream_key(self.path), producer_key(self.path, self.producer.id)]

    def apply(self, view: View) -> Appended:
        key = stream_key(self.path)
        state: StreamState | None = view.get(key)
        if lifecycle.is_gone(state, view.now_us, self.touched_us):
            raise StreamNotFound(f"there is no stream at {self.path!r}")
        assert state is not None
        known = self._known_producer(view, state)
        if state.closed:
            return self._retry_of_close(state, known)
        self._check_content_type(state)
        if self.producer is not None and producers.is_duplicate(known, self.producer):
            return Appended(state, True, known)
        if self.stream_seq is not None:
            if state.last_seq is not None and self.stream_seq.encode() <= state.last_seq.encode():
                raise SequenceRegression(f"{self.stream_seq!r} does not come after {state.last_seq!r}")
            state = replace(state, last_seq=self.stream_seq)
        if self.messages is not None:
            state = _write(view, state, self.messages, self.producer)
        if self.closes:
            state = _close(view, state, self.producer)
        if state.ttl_s is not None:
            state = replace(state, expires_at_us=lifecycle.window_end(state.ttl_s, view.now_us))
        view.put(key, state)
        if self.producer is not None:
            known = ProducerState(state.topic, self.producer.epoch, self.producer.seq)
            view.put(producer_key(self.path, self.producer.id), known)
        return Appended(state, False, known)

    def _known_producer(self, view: View, state: StreamState) -> ProducerState | None:
        if self.producer is None:
            return None
        known: ProducerState | None = view.get(producer_key(self.path, self.producer.id))
        return known if known is not None and known.topic == state.topic else None

    def _check_content_type(self, state: StreamState) -> None:
        if self.messages is None or self.content_type == state.content_type:
            return
        assert self.content_type is not None
        if media_type(self.content_type) != media_type(state.content_type):
            raise ContentTypeMismatch(
                f"the stream holds {state.content_type}, this append is {self.content_type}",
                stream_content_type=state.content_type,
            )

    def _retry_of_close(self, state: StreamState, known: ProducerState | None) -> Appended:
        """On a closed stream only what closed it, or another plain close, is still right."""
        if self.producer is not None:
            if self.producer == state.closed_by:
                return Appended(state, True, known)
            if known is not None and self.producer.epoch < known.epoch:
                producers.is_duplicate(known, self.producer)  # raises: a fenced producer learns that first
        elif self.messages is None:
            return Appended(state, True, None)
        raise StreamClosed(
            "a closed stream takes no more data",
            headers={"Stream-Closed": "true", "Stream-Next-Offset": str(state.next_offset)},
        )


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE: the stream is gone at once; its data is erased later, in small steps."""

    path: str
    touched_us: int = 0
    size = 0

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> None:
        state: StreamState | None = view.get(stream_key(self.path))
        if lifecycle.is_gone(state, view.now_us, self.touched_us):
            raise StreamNotFound(f"there is no stream at {self.path!r}")
        assert state is not None
        _end(view, self.path, state)


@dataclass(frozen=True, slots=True)
class Expire:
    """End a stream whose time has come; leave it if it was touched meanwhile."""

    path: str
    touched_us: int = 0
    size = 0

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> bool:
        state: StreamState | None = view.get(stream_key(self.path))
        if state is None or state.deleted:
            return False
        if lifecycle.is_gone(state, view.now_us, self.touched_us):
            _end(view, self.path, state)
            return True
        if self.touched_us:
            Touch(self.path, self.touched_us).apply(view)
        return False


@dataclass(frozen=True, slots=True)
class Touch:
    """Make a sliding TTL's last read durable."""

    path: str
    touched_us: int
    size = 0

    def needs(self) -> list[Key]:
        return [stream_key(self.path)]

    def apply(self, view: View) -> None:
        key = stream_key(self.path)
        state: StreamState | None = view.get(key)
        if state is None or state.deleted or state.ttl_s is None:
            return
        end = lifecycle.expiry_us(state, self.touched_us)
        if end != state.expires_at_us:
            view.put(key, replace(state, expires_at_us=end))


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove what is left of a deleted stream once its data is erased: its producers and its garbage mark."""

    garbage: Garbage
    producer_ids: tuple[str, ...]
    last: bool
    size = 0

    def needs(self) -> list[Key]:
        return [*self._producers(), garbage_key(self.garbage.topic)]

    def _producers(self) -> list[Key]:
        return [producer_key(self.garbage.path, producer_id) for producer_id in self.producer_ids]

    def apply(self, view: View) -> None:
        for key in self._producers():
            known: ProducerState | None = view.get(key)
            if known is not None and known.topic == self.garbage.topic:
                view.put(key, None)
        if self.last:
            view.put(garbage_key(self.garbage.topic), None)


def _write(view: View, state: StreamState, messages: Messages, producer: ProducerTuple | None) -> StreamState:
    start, end = state.tail, state.tail + len(messages.data)
    source = None if producer is None else producer.id
    view.append(Kind.APPEND, state.topic, start, end, messages.number, messages.data, source)
    return replace(state, tail=end)


def _close(view: View, state: StreamState, producer: ProducerTuple | None) -> StreamState:
    view.append(Kind.CLOSE, state.topic, state.tail, state.tail)
    return replace(state, closed=True, closed_by=producer)


def _end(view: View, path: str, state: StreamState) -> None:
    """The path's tombstone keeps its readSeq, so that old offsets never read new data."""
    view.append(Kind.DELETE, state.topic, state.tail, state.tail)
    view.put(stream_key(path), replace(state, deleted=True, tail=0, closed=False, closed_by=None, last_seq=None))
    view.put(garbage_key(state.topic), Garbage(path, state.topic))
