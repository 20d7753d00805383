"""Reading a state: batches of a stream become changes of a view. Offsets and transactions are noted on the way."""

from collections.abc import Callable
from typing import Any

import msgspec

from mainstem import limits
from mainstem.client.core.errors import InvalidResponse
from mainstem.client.core.protocol import BEGINNING
from mainstem.client.core.results import Batch
from mainstem.client.state.errors import InvalidMessage
from mainstem.client.state.messages import Change, Control, Malformed, parse_message
from mainstem.client.state.view import Decoded, RowChanged, View
from mainstem.json_errors import explain_json_error
from mainstem.streams.rules.content_types import is_json

OnInvalid = Callable[[InvalidMessage], object]


class _Body(msgspec.Struct):
    value: msgspec.Raw = msgspec.Raw()


_read_value = msgspec.json.Decoder(_Body).decode


class StateReader:
    """Applies the batches of one stream to a view. A batch with an invalid message changes nothing if that is raised.

    `start` is the offset at which the first batch begins. `on_invalid` is called with each invalid message, which is
    then skipped. Without it, `apply` raises the error.
    """

    def __init__(self, path: str, view: View, on_invalid: OnInvalid | None = None, *, start: str = BEGINNING) -> None:
        self.view = view
        self.offset: str | None = None
        """The offset up to which the view holds the stream."""
        self.synced = False
        """Whether the view has reached the end of the stream since it was opened or reset."""
        self.closed = False
        self.skipped: InvalidMessage | None = None
        """The last invalid message that was skipped since the last reset."""
        self.has_base = False
        """Whether the view holds what the messages build on: it began with the stream, a reset or a whole snapshot."""
        self._start = start
        self._in_snapshot = False
        self._path = path
        self._on_invalid = on_invalid
        self._txids: dict[str, None] = {}

    def apply(self, batch: Batch) -> list[RowChanged | Control]:
        """Apply a batch, and return what changed."""
        if not is_json(batch.content_type):
            raise InvalidResponse(
                f"state {self._path}: the stream has the content type {batch.content_type}",
                hint="A state needs a stream of application/json.",
            )
        messages = [] if batch.empty else self._decode(batch)
        changes = self.view.apply(messages)
        if self.offset is None:
            self.has_base = self._start == BEGINNING and batch.earliest_offset is None
        for decoded in messages:
            self._note(decoded)
        self.offset = batch.offset
        self.synced = self.synced or batch.up_to_date or batch.closed
        self.closed = batch.closed
        return changes

    def has_seen(self, txid: str) -> bool:
        """Return whether a change with this txid was applied. Only the most recent txids are kept."""
        return txid in self._txids

    def _note(self, decoded: Decoded) -> None:
        message = decoded.message
        if isinstance(message, Control):
            self._note_control(message)
        elif message.txid is not None:
            self._txids.pop(message.txid, None)  # it becomes the most recent one
            self._txids[message.txid] = None
            if len(self._txids) > limits.CLIENT_STATE_TXIDS_MAX:
                del self._txids[next(iter(self._txids))]

    def _note_control(self, control: Control) -> None:
        if control.kind == "snapshot-start":
            self._in_snapshot = True
        elif control.kind == "reset":
            self.synced, self.has_base = False, True
        elif self._in_snapshot:
            self._in_snapshot, self.has_base = False, True

    def _decode(self, batch: Batch) -> list[Decoded]:
        decoded = []
        messages = batch.raw_messages
        for index, raw in enumerate(messages):
            try:
                parsed = parse_message(_decode_json(raw))
                has_value = isinstance(parsed, Change) and parsed.operation != "delete"
                value_json = bytes(_read_value(raw).value) if has_value else b""
                decoded.append(self.view.decode(parsed, value_json))
                if isinstance(parsed, Control) and parsed.kind == "reset":
                    self.skipped = None
            except Malformed as fault:
                error = self._describe(batch, index, len(messages), str(fault))
                if self._on_invalid is None:
                    raise error from fault
                self._on_invalid(error)
                self.skipped = error
        return decoded

    def _describe(self, batch: Batch, index: int, count: int, reason: str) -> InvalidMessage:
        where = f"message {index + 1} of the {count} that end at offset {batch.offset}"
        return InvalidMessage(
            f"state {self._path}: {where} is invalid: {reason}", reason=reason, offset=batch.offset, index=index
        )


def _decode_json(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Malformed(explain_json_error(error, "it")) from error
