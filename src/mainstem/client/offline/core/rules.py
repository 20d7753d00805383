"""Rules that every store keeps: who may add a draft, and what an event means for the copy."""

from collections.abc import Iterable, Mapping

from mainstem import limits
from mainstem.client.offline.core.errors import IdInUse, QueueFull, RejectionsFull
from mainstem.client.offline.core.records import Committed, Draft, Rejection
from mainstem.client.sync_protocol.errors import SyncClientError
from mainstem.errors import ValidationFailed
from mainstem.sync.protocol.canonical import content_hash

Found = Draft | Committed | Rejection


def check_capacity(drafts: int, drafts_bytes: int, rejections: int, draft: Draft) -> SyncClientError | None:
    """Every queue has an end. A caller that meets it keeps its event, and is told what to wait for."""
    if drafts >= limits.OFFLINE_DRAFTS_MAX:
        return QueueFull(f"{drafts} drafts wait for a connection already, which is the most")
    if drafts_bytes + len(draft.event) > limits.OFFLINE_DRAFTS_BYTES_MAX:
        return QueueFull(f"drafts of {drafts_bytes} bytes wait for a connection already")
    if rejections >= limits.OFFLINE_REJECTIONS_MAX:
        return RejectionsFull(f"{rejections} rejected drafts were never dismissed")
    return None


def resolve_known(draft: Draft, known: Found) -> Found | IdInUse:
    """A draft with an id that is known: the same again, or something else."""
    if is_same(draft, known):
        return known
    return IdInUse(f"the id {draft.id!r} stands for other content", "id")


def is_same(draft: Draft, known: Found) -> bool:
    if isinstance(known, Draft):
        return known.digest == draft.digest
    try:
        return content_hash(known.partitions, known.event) == draft.digest
    except ValidationFailed:
        return False


def visible_partitions(event: Committed, followed: Iterable[str], covered: Mapping[str, int]) -> list[str]:
    """The partitions in which an event is shown: those that are followed, and whose snapshot does not include it."""
    wanted = set(followed)
    return [name for name in event.partitions if name in wanted and event.committed_id > covered.get(name, 0)]
