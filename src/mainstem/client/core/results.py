"""What calls give back: facts about a stream, the receipt of an append, and batches of data with their offsets."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from mainstem.streams.rules.content_types import is_json

EMPTY_ARRAY = re.compile(rb"[ \t\r\n]*\[[ \t\r\n]*\][ \t\r\n]*")

_raw = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Facts about a stream. What a reply does not say is None."""

    path: str
    content_type: str
    next_offset: str
    """Where the stream ends: what is appended next begins here."""
    closed: bool = False
    ttl_s: int | None = None
    expires_at: str | None = None
    retention: str | None = None
    earliest_offset: str | None = None
    created_at: str | None = None
    forked_from: str | None = None
    messages: int | None = None
    """In a list of streams: the messages that it holds. A fork does not count those that it shares."""
    size_bytes: int | None = None
    """In a list of streams: the size of those messages."""
    created: bool | None = None
    """After create or fork: whether the server made it just now. A retry may find what the call itself made."""


@dataclass(frozen=True, kw_only=True)
class Appended:
    next_offset: str
    """Where the stream ended when the append was answered."""
    duplicate: bool = False
    """It was stored before, by an earlier attempt, and was not stored again."""
    closed: bool = False
    producer_epoch: int | None = None
    producer_seq: int | None = None


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some data of a stream, in order. Read on from `offset`."""

    data: bytes
    """As the server stores it; of a JSON stream, an array of messages."""
    offset: str
    """Where the data ends, and the next batch begins."""
    content_type: str
    up_to_date: bool = False
    """Nothing lay behind it when it was sent."""
    closed: bool = False
    """It is the last one: the stream is closed, and ends here."""
    cursor: str | None = field(default=None, repr=False)

    @cached_property
    def messages(self) -> list[Any]:
        """The messages of a JSON stream, decoded."""
        self._require_json()
        messages: list[Any] = msgspec.json.decode(self.data) if self.data else []
        return messages

    @cached_property
    def raw_messages(self) -> list[bytes]:
        """The messages of a JSON stream, each byte for byte as it was appended."""
        self._require_json()
        return [bytes(message) for message in _raw.decode(self.data)] if self.data else []

    @property
    def text(self) -> str:
        """The data as UTF-8 text. A writer may have cut a character in two: then `data` has to be joined first."""
        return self.data.decode("utf-8")

    @property
    def empty(self) -> bool:
        """Whether it only tells how far the stream goes."""
        return not self.data or (is_json(self.content_type) and EMPTY_ARRAY.fullmatch(self.data) is not None)

    def _require_json(self) -> None:
        if not is_json(self.content_type):
            raise TypeError(f"a stream of {self.content_type} has no messages: use data or text")
