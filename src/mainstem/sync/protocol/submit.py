"""From a submit request to items: the shape of the whole request first, then each draft for itself."""

import re
from typing import Final

import msgspec

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import SyncBadRequest, ValidationFailed
from mainstem.sync.commands import Item
from mainstem.sync.protocol.canonical import decode_event, hash_content
from mainstem.sync.protocol.messages import EventPayload
from mainstem.sync.protocol.partitions import normalise
from mainstem.sync.validation.validators import FieldError

# RFC 9562, with or without hyphens: versions whose ids a stranger cannot guess, if they are made as they should be.
# Those of a clock and a network card (1, 2, 6), and MD5 (3), are not among them.
UUID: Final = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[4578][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)


def check_shape(events: list[EventPayload]) -> None:
    """Any failure is one bad_request for the whole request, and nothing is processed."""
    if not 1 <= len(events) <= limits.SYNC_BATCH_ITEMS_MAX:
        raise SyncBadRequest(f"a request holds 1 to {limits.SYNC_BATCH_ITEMS_MAX} events")
    seen: set[str] = set()
    for draft in events:
        if not draft.id or len(draft.id.encode("utf-8", "surrogatepass")) > limits.EVENT_ID_BYTES_MAX:
            raise SyncBadRequest(f"an id is 1 to {limits.EVENT_ID_BYTES_MAX} bytes")
        if draft.id in seen:
            raise SyncBadRequest(f"the id {draft.id!r} stands twice in one request")
        seen.add(draft.id)
        if bytes(draft.event)[:1] != b"{":
            raise SyncBadRequest("event must be an object")
        _check_legacy(draft)


def _check_legacy(draft: EventPayload) -> None:
    """Seed 003: the singular `partition` alone is refused on the wire, and must not disagree with `partitions`."""
    if draft.partitions is None:
        raise SyncBadRequest("partitions is missing")
    if draft.partition is not None:
        try:
            same = normalise([draft.partition]) == normalise(draft.partitions)
        except ValidationFailed:
            same = False
        if not same:
            raise SyncBadRequest("partition and partitions disagree")


def judge_all(
    events: list[EventPayload], identity: Identity, mark: str | None, *, decoded: bool = False, uuids: bool = False
) -> tuple[Item, ...]:
    """Each draft by itself, as far as the log is not needed for it. `decoded` keeps the values for a validator."""
    return tuple(judge(draft, identity, mark, decoded=decoded, uuids=uuids) for draft in events)


def judge(
    draft: EventPayload, identity: Identity, mark: str | None, *, decoded: bool = False, uuids: bool = False
) -> Item:
    """One draft: its id, partitions, then authorisation for all of them, then its canonical content.

    With `uuids` only ids count that cannot be guessed: an id is taken for all partitions, so whoever guesses those of
    others could learn that they are taken, or take them first.
    """
    assert draft.partitions is not None
    try:
        if mark is not None:
            _check_mark(draft, mark)
        if uuids and not UUID.fullmatch(draft.id):
            raise ValidationFailed("this server takes only ids that are UUIDs of version 4, 5, 7 or 8", "id")
        partitions = normalise(draft.partitions)
        for name in partitions:
            if not identity.may_use(name):
                error = FieldError("partitions", f"{name!r} is not allowed")
                return Item(draft.id, refusal="forbidden", errors=(error,))
        event = bytes(draft.event)
        value = decode_event(event)
        digest = hash_content(partitions, value)
        return Item(draft.id, partitions, event, digest, value=value if decoded else None)
    except ValidationFailed as fault:
        return Item(draft.id, refusal="validation_failed", errors=(FieldError(fault.field, fault.detail),))


def _check_mark(draft: EventPayload, mark: str) -> None:
    """Where half of a surrogate pair stood, the draft has no canonical form."""
    if mark in draft.id:
        raise ValidationFailed("an id has half of a surrogate pair", "id")
    check_names(draft.partitions or [], mark)
    if b"\\u%x" % ord(mark) in bytes(draft.event):
        raise ValidationFailed("a string has half of a surrogate pair", "event")


def check_names(names: list[str], mark: str | None) -> None:
    if mark is not None and any(mark in name for name in names):
        raise ValidationFailed("a name has half of a surrogate pair", "partitions")


def as_dict(error: FieldError) -> dict[str, str]:
    return msgspec.structs.asdict(error)
