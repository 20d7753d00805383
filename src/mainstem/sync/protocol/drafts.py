"""The drafts of a submit request: the shape of all of them first, then an item for the log from each by itself."""

import re
from typing import Final

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import SyncBadRequest, ValidationFailed
from mainstem.sync.commands import Item
from mainstem.sync.protocol.canonical import decode_event, decoded_content_hash
from mainstem.sync.protocol.messages import EventPayload
from mainstem.sync.protocol.partitions import normalise
from mainstem.sync.validation.validators import FieldError

# RFC 9562, with or without hyphens: versions whose ids a stranger cannot guess, if they are made as they should be.
# Those of a clock and a network card (1, 2, 6), and MD5 (3), are not among them.
UUID: Final = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[4578][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)


def check_shape(drafts: list[EventPayload]) -> None:
    """Any failure is one bad_request for the whole request, and nothing is processed."""
    if not 1 <= len(drafts) <= limits.SYNC_BATCH_ITEMS_MAX:
        raise SyncBadRequest(f"a request holds 1 to {limits.SYNC_BATCH_ITEMS_MAX} events")
    seen: set[str] = set()
    for draft in drafts:
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


def prepare_items(
    drafts: list[EventPayload],
    identity: Identity,
    placeholder: str | None,
    *,
    keep_values: bool = False,
    uuids_only: bool = False,
) -> tuple[Item, ...]:
    """Each draft by itself, as far as the log is not needed for it. `keep_values` keeps decoded events for a validator.

    With `uuids_only` an id must be one that cannot be guessed: an id is taken for all partitions, so whoever guesses
    those of others could learn that they are taken, or take them first.
    """
    return tuple(_prepare(draft, identity, placeholder, keep_values, uuids_only) for draft in drafts)


def _prepare(
    draft: EventPayload, identity: Identity, placeholder: str | None, keep_value: bool, uuids_only: bool
) -> Item:
    """Checks the id, the partitions, the authorisation for all of them, and then the canonical content."""
    assert draft.partitions is not None
    try:
        if placeholder is not None:
            _check_surrogates(draft, placeholder)
        if uuids_only and not UUID.fullmatch(draft.id):
            raise ValidationFailed("this server takes only ids that are UUIDs of version 4, 5, 7 or 8", "id")
        partitions = normalise(draft.partitions)
        for name in partitions:
            if not identity.may_use(name):
                error = FieldError("partitions", f"{name!r} is not allowed")
                return Item(draft.id, refusal="forbidden", errors=(error,))
        event = bytes(draft.event)
        value = decode_event(event)
        digest = decoded_content_hash(partitions, value)
        return Item(draft.id, partitions, event, digest, value=value if keep_value else None)
    except ValidationFailed as failure:
        return Item(draft.id, refusal="validation_failed", errors=(FieldError(failure.field, failure.detail),))


def _check_surrogates(draft: EventPayload, placeholder: str) -> None:
    """A draft with a lone surrogate has no canonical form."""
    if placeholder in draft.id:
        raise ValidationFailed("an id has half of a surrogate pair", "id")
    check_names(draft.partitions or [], placeholder)
    if b"\\u%x" % ord(placeholder) in bytes(draft.event):
        raise ValidationFailed("a string has half of a surrogate pair", "event")


def check_names(names: list[str], placeholder: str | None) -> None:
    if placeholder is not None and any(placeholder in name for name in names):
        raise ValidationFailed("a name has half of a surrogate pair", "partitions")
