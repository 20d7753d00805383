"""Group commit of drafts: drafts that are submitted at the same time share one transaction of the store."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from mainstem import limits
from mainstem.client.core.strict_json import NotJson, encode_json
from mainstem.client.offline.core.errors import ClientClosed, InvalidDraft
from mainstem.client.offline.core.records import Draft
from mainstem.client.offline.stores.contract import Found
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.client.sync_protocol.messages import SUBMIT_OVERHEAD_BYTES, encode_draft
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.canonical import content_hash
from mainstem.sync.protocol.partitions import normalise

Keep = Callable[[Sequence[Draft]], Awaitable[list[Found | SyncClientError]]]


def encode_event(event: Any) -> bytes:
    if not isinstance(event, dict):
        raise InvalidDraft(f"the event must be a dict, not {type(event).__name__}", "event")
    try:
        return encode_json(event)
    except NotJson as error:
        raise InvalidDraft(f"the event cannot be written as JSON: {error}", "event") from None


def make_draft(id_: str, partitions: Sequence[str], event: bytes) -> Draft:
    """Return a draft, or raise `InvalidDraft` if no server would accept it. The store assigns its clock."""
    if not id_ or len(id_.encode("utf-8", "surrogatepass")) > limits.EVENT_ID_BYTES_MAX:
        raise InvalidDraft(f"the id must be 1 to {limits.EVENT_ID_BYTES_MAX} bytes long", "id")
    try:
        names = normalise(partitions)
        draft = Draft(0, id_, names, event, content_hash(names, event))
        size = len(encode_draft(id_, names, event)) + SUBMIT_OVERHEAD_BYTES + 1
    except ValidationFailed as fault:
        raise InvalidDraft(fault.detail, fault.field) from None
    except (TypeError, AttributeError):
        raise InvalidDraft("partitions must be a sequence of str", "partitions") from None
    except (UnicodeEncodeError, msgspec.MsgspecError):
        raise InvalidDraft("the id is not valid Unicode text", "id") from None
    if size > limits.SYNC_MESSAGE_BYTES_MAX:
        raise InvalidDraft(f"the event takes {size} bytes; the limit is {limits.SYNC_MESSAGE_BYTES_MAX}", "event")
    return draft


class Submissions:
    """Collects drafts for the store. More than OFFLINE_WAITING_MAX callers have to wait, which bounds the memory."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._slots = asyncio.Semaphore(limits.OFFLINE_WAITING_MAX)
        self._waiting: list[tuple[Draft, asyncio.Future[Found]]] = []
        self._keeping: asyncio.Task[None] | None = None
        self._is_over = False

    async def add(self, draft: Draft) -> Found:
        async with self._slots:
            if self._is_over:
                raise ClientClosed("the client was closed before it stored the draft")
            outcome: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
            self._waiting.append((draft, outcome))
            if self._keeping is None or self._keeping.done():
                self._keeping = asyncio.create_task(self._keep_waiting())
            return await outcome

    async def finish(self) -> None:
        """Accept no more drafts, and wait until all accepted ones are stored."""
        self._is_over = True
        if self._keeping is not None:
            await asyncio.wait([self._keeping])

    async def _keep_waiting(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting, []
            try:
                found = await self._keep([draft for draft, _ in taken])
            except Exception as error:  # noqa: BLE001 - every caller of the batch gets it
                for _, outcome in taken:
                    if not outcome.done():
                        outcome.set_exception(error)
                continue
            for (_, outcome), result in zip(taken, found, strict=True):
                if outcome.done():
                    continue  # the caller was cancelled; the draft is stored all the same
                if isinstance(result, SyncClientError):
                    outcome.set_exception(result)
                else:
                    outcome.set_result(result)
