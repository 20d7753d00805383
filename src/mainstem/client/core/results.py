"""The results of calls: facts about a stream, the result of an append, and batches of data with their offsets."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from mainstem.client.core.errors import UnreadableMessage
from mainstem.json_errors import explain_json_error
from mainstem.streams.rules.content_types import is_json

EMPTY_ARRAY = re.compile(rb"[ \t\r\n]*\[[ \t\r\n]*\][ \t\r\n]*")

split_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode
"""Returns the messages of an array, and checks their syntax, without decoding them."""


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Facts about a stream. A value that the reply does not contain is None."""

    path: str
    content_type: str
    next_offset: str
    """The end of the stream: the next append begins here."""
    closed: bool = False
    ttl_s: int | None = None
    expires_at: str | None = None
    retention: str | None = None
    earliest_offset: str | None = None
    created_at: str | None = None
    forked_from: str | None = None
    messages: int | None = None
    """In a list of streams: how many messages the stream holds. A fork does not count those that it shares."""
    size_bytes: int | None = None
    """In a list of streams: the size of those messages."""
    created: bool | None = None
    """After create or fork: whether the reply says that the stream is new. After a retry it may not be."""


@dataclass(frozen=True, kw_only=True)
class Appended:
    next_offset: str
    """The end of the stream when the server answered the append."""
    duplicate: bool = False
    """Whether an earlier attempt was already stored, so that nothing was stored again."""
    closed: bool = False
    producer_epoch: int | None = None
    producer_seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A piece of a stream's data. Read on from `offset`."""

    data: bytes
    """The data as the server stores it; for a JSON stream, an array of messages."""
    offset: str
    """The offset at which the data ends and the next batch begins."""
    content_type: str
    up_to_date: bool = False
    """Whether there was no data after it when the server sent it."""
    closed: bool = False
    """Whether the stream is closed and this batch is its end."""
    earliest_offset: str | None = None
    """Where the batch begins, if it was read from the beginning of a stream whose first data was trimmed."""
    cursor: str | None = field(default=None, repr=False)

    @cached_property
    def messages(self) -> list[Any]:
        """The messages of a JSON stream, decoded. Raises `UnreadableMessage` if Python cannot hold one of them."""
        self._require_json()
        try:
            messages: list[Any] = msgspec.json.decode(self.data) if self.data else []
        except (msgspec.MsgspecError, RecursionError) as error:
            reason = explain_json_error(error, "a message")
            raise UnreadableMessage(f"the batch that ends at {self.offset} cannot be decoded: {reason}") from error
        return messages

    @cached_property
    def raw_messages(self) -> list[bytes]:
        """The messages of a JSON stream as bytes, exactly as they were appended."""
        self._require_json()
        return [bytes(message) for message in split_messages(self.data)] if self.data else []

    @property
    def text(self) -> str:
        """The data as UTF-8 text. If a writer split a character across appends, join the `data` of batches first."""
        return self.data.decode("utf-8")

    @property
    def empty(self) -> bool:
        """Whether the batch has no data and only reports the offset."""
        return not self.data or (is_json(self.content_type) and EMPTY_ARRAY.fullmatch(self.data) is not None)

    def _require_json(self) -> None:
        if not is_json(self.content_type):
            raise TypeError(f"a stream of {self.content_type} has no messages: use data or text")
