"""The command behind POST: append messages to a stream, close it, or both."""

import msgspec

from mainstem.errors import ContentTypeMismatch, SequenceRegression, StreamClosed, TailMoved
from mainstem.log.commands import Key, View
from mainstem.log.records import Kind
from mainstem.streams.rules import lifecycle, producers
from mainstem.streams.rules.content_types import media_type
from mainstem.streams.rules.json_mode import Messages
from mainstem.streams.rules.offsets import Offset
from mainstem.streams.states import ProducerState, ProducerTuple, StreamState, producer_key, stream_key

replace = msgspec.structs.replace
APPEND = Kind.APPEND


class Appended(msgspec.Struct, frozen=True, gc=False):
    state: StreamState
    wrote: bool
    """False for a retry of a stored append, and for a close without data."""
    producer: ProducerState | None


class Append(msgspec.Struct, frozen=True, gc=False):
    """Append messages, close the stream, or both. `messages` is None for a close without data."""

    path: str
    content_type: str | None
    messages: Messages | None
    closes: bool = False
    stream_seq: str | None = None
    producer: ProducerTuple | None = None
    if_match: Offset | None = None
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
        state = lifecycle.check_alive(self.path, view.get(key), view.now_us, self.touched_us)
        producer, known = self.producer, None
        if producer is not None:
            own_key = producer_key(self.path, producer.id)
            known = view.get(own_key)
            if known is not None and known.topic != state.topic:
                known = None  # of an earlier stream at this path
        if state.closed:
            return self._retry_of_close(state, known)
        if self.content_type != state.content_type:
            self._check_content_type(state)
        if producer is not None and producers.is_duplicate(known, producer):
            return Appended(state, False, known)
        if self.if_match is not None and self.if_match != state.next_offset:
            raise TailMoved(
                f"the stream ends at {state.next_offset}, not at {self.if_match}",
                headers={"Stream-Next-Offset": str(state.next_offset)},
                next_offset=str(state.next_offset),
            )
        if self.stream_seq is not None:
            if state.last_seq is not None and self.stream_seq.encode() <= state.last_seq.encode():
                raise SequenceRegression(
                    f"Stream-Seq {self.stream_seq!r} does not sort after the last one, {state.last_seq!r}"
                )
            state = replace(state, last_seq=self.stream_seq)
        if self.messages is not None:
            state = append_messages(view, state, self.messages, producer)
        if self.closes:
            state = close_stream(view, state, producer)
        if state.ttl_s is not None:
            state = replace(state, expires_at_us=lifecycle.window_end(state.ttl_s, view.now_us))
        view.put(key, state)
        if producer is not None:
            known = ProducerState(state.topic, producer.epoch, producer.seq)
            view.put(own_key, known)
        return Appended(state, self.messages is not None, known)

    def _check_content_type(self, state: StreamState) -> None:
        if self.messages is None:
            return
        assert self.content_type is not None
        if media_type(self.content_type) != media_type(state.content_type):
            raise ContentTypeMismatch(
                f"the stream has the content type {state.content_type}, but the append has {self.content_type}; "
                f"send the header Content-Type: {state.content_type}",
                stream_content_type=state.content_type,
            )

    def _retry_of_close(self, state: StreamState, known: ProducerState | None) -> Appended:
        """Accept only a retry of the request that closed the stream, or a close without data and producer."""
        if self.producer is not None:
            if self.producer == state.closed_by:
                return Appended(state, False, known)
            if known is not None and self.producer.epoch < known.epoch:
                producers.is_duplicate(known, self.producer)  # raises StaleEpoch, which matters more to a producer
        elif self.messages is None:
            return Appended(state, False, None)
        raise StreamClosed(
            "the stream is closed, so nothing more can be appended",
            headers={"Stream-Closed": "true", "Stream-Next-Offset": str(state.next_offset)},
        )


def append_messages(view: View, state: StreamState, messages: Messages, producer: ProducerTuple | None) -> StreamState:
    data, number, start = messages.data, messages.number, state.tail
    end = start + len(data)
    source = None if producer is None else producer.id
    last_id = view.append(APPEND, state.topic, start, end, number, data, source)
    return replace(state, tail=end, messages=state.messages + number, last_id=last_id)


def close_stream(view: View, state: StreamState, producer: ProducerTuple | None) -> StreamState:
    view.append(Kind.CLOSE, state.topic, state.tail, state.tail)
    return replace(state, closed=True, closed_by=producer)
