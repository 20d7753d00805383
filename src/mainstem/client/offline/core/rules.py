"""Rules that every store follows: when it accepts a draft, and in which partitions it shows an event."""

from collections.abc import Iterable, Mapping

from mainstem import limits
from mainstem.client.offline.core.errors import IdInUse, QueueFull, RejectionsFull
from mainstem.client.offline.core.records import Committed, Draft, RejectedDraft
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.canonical import content_hash

Found = Draft | Committed | RejectedDraft


def check_capacity(drafts: int, drafts_bytes: int, rejections: int, draft: Draft) -> SyncClientError | None:
    """Return the error if a limit of the store leaves no space for the draft."""
    if drafts >= limits.OFFLINE_DRAFTS_MAX:
        return QueueFull(f"{drafts} drafts are waiting to be sent, which is the limit")
    if drafts_bytes + len(draft.event) > limits.OFFLINE_DRAFTS_BYTES_MAX:
        return QueueFull(
            f"drafts of {drafts_bytes} bytes are waiting to be sent; the limit is {limits.OFFLINE_DRAFTS_BYTES_MAX}"
        )
    if rejections >= limits.OFFLINE_REJECTIONS_MAX:
        return RejectionsFull(f"{rejections} rejections have not been dismissed, which is the limit")
    return None


def replaces_rejection(draft: Draft, known: Found | None) -> bool:
    """Return whether the draft replaces a rejected one: the id of a rejected draft is free for new content."""
    return isinstance(known, RejectedDraft) and not is_same(draft, known)


def resolve_known(draft: Draft, known: Found) -> Found | IdInUse:
    """Return what the store has under the draft's id if it has the same content; otherwise the error."""
    if is_same(draft, known):
        return known
    return IdInUse(f"the id {draft.id!r} is already used for an event with other content", "id")


def is_same(draft: Draft, known: Found) -> bool:
    if isinstance(known, Draft):
        return known.digest == draft.digest
    try:
        return content_hash(known.partitions, known.event) == draft.digest
    except ValidationFailed:
        return False


def visible_partitions(event: Committed, followed: Iterable[str], covered: Mapping[str, int]) -> list[str]:
    """Return the partitions that show an event: those that are followed and whose snapshot does not include it."""
    wanted = set(followed)
    return [name for name in event.partitions if name in wanted and event.committed_id > covered.get(name, 0)]
