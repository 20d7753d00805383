"""Sends drafts to the server, in the order of their clock, with one request in flight.

With two requests in flight, the server could refuse the first for its rate and commit the second before it. A draft has
no state "sent": a draft without a result is sent again on the next connection, and the server recognises its id.
"""

from collections.abc import Callable, Sequence

import msgspec

from mainstem import limits
from mainstem.client.offline.core.effects import Effects, Load, Pause, Report, Save, Send
from mainstem.client.offline.core.records import Commit, Draft, Refusal, StoreUpdate
from mainstem.client.sync_protocol.errors import ProtocolFault, ServerRefused
from mainstem.client.sync_protocol.messages import (
    SUBMIT_OVERHEAD_BYTES,
    Envelope,
    FieldFault,
    ServerLimits,
    SubmitResults,
    encode_draft,
    encode_submit,
)


class SubmitQueue:
    """The drafts of one connection that wait for a result."""

    def __init__(self, next_id: Callable[[], str]) -> None:
        self._next_id = next_id
        self._limits: ServerLimits | None = None
        self._items_max = 1
        self._batch: tuple[Draft, ...] = ()
        self._batch_id = ""
        self._is_loading = False
        self._is_paused = False

    def begin(self, server: ServerLimits) -> Effects:
        """Start to send, within the limits that the server announced."""
        self._limits = server
        self._items_max = self._batch_items()
        return self.load()

    def _batch_items(self) -> int:
        assert self._limits is not None
        return max(1, min(limits.SYNC_BATCH_ITEMS_MAX, self._limits.batch_items_max, self._limits.drafts_max))

    def load(self) -> Effects:
        if self._limits is None or self._batch or self._is_loading or self._is_paused:
            return []
        self._is_loading = True
        return [Load(self._items_max, self._limits.message_bytes_max - SUBMIT_OVERHEAD_BYTES)]

    def offer(self, drafts: Sequence[Draft]) -> Effects:
        assert self._limits is not None
        self._is_loading = False
        items: list[msgspec.Raw] = []
        size = SUBMIT_OVERHEAD_BYTES
        for draft in drafts:
            item = encode_draft(draft.id, draft.partitions, draft.event)
            size += len(item) + 1
            if size > self._limits.message_bytes_max:
                break
            items.append(msgspec.Raw(item))
        if drafts and not items:
            fault = FieldFault(
                "event", f"the server accepts messages of at most {self._limits.message_bytes_max} bytes"
            )
            return [Save(StoreUpdate(refusals=(Refusal(drafts[0].id, "too_large", (fault,)),))), *self.load()]
        self._batch = tuple(drafts[: len(items)])
        if not items:
            return []
        self._batch_id = self._next_id()
        return [Send(encode_submit(items, self._batch_id))]

    def awaits(self, msg_id: str | int | None) -> bool:
        return bool(self._batch) and msg_id == self._batch_id

    def settle(self, envelope: Envelope, reply: SubmitResults) -> StoreUpdate:
        """Return what the results change in the store."""
        batch, self._batch = self._batch, ()
        if not batch or envelope.msg_id not in (self._batch_id, None):
            raise ProtocolFault("the server sent results for a request that the client did not make")
        if [result.id for result in reply.results] != [draft.id for draft in batch]:
            raise ProtocolFault("the results do not match the drafts that the client sent")
        commits: list[Commit] = []
        refusals: list[Refusal] = []
        for result in reply.results:
            if result.status == "committed" and result.committed_id:
                commits.append(Commit(result.id, result.committed_id, result.status_updated_at or ""))
            elif result.status == "rejected":
                refusals.append(Refusal(result.id, result.reason or "rejected", result.errors))
            else:
                raise ProtocolFault(f"the result of the draft {result.id} is neither committed nor rejected")
        return StoreUpdate(commits=tuple(commits), refusals=tuple(refusals))

    def refuse(self, error: ServerRefused) -> Effects:
        """Handle a refusal of the whole request: the server has processed none of its drafts."""
        batch, self._batch = self._batch, ()
        if error.code == "rate_limited":
            self._is_paused = True
            return [Report(error), Pause(pause_s(error))]
        if len(batch) > 1:
            self._items_max = 1  # to find out which draft it is
            return self.load()
        self._items_max = self._batch_items()
        refusal = Refusal(batch[0].id, error.code, (FieldFault("", error.detail),))
        return [Save(StoreUpdate(refusals=(refusal,))), *self.load()]

    def resume(self) -> Effects:
        self._is_paused = False
        return self.load()


def pause_s(error: ServerRefused) -> float:
    """Return how long to wait after an error of the server, within our own limits."""
    asked_s = 1.0 if error.retry_after_s is None else error.retry_after_s
    return min(max(asked_s, 0.05), limits.OFFLINE_REFUSED_S)
