"""The drafts of a submit request: the shape of the whole request is checked first, then each draft becomes an item for
the log."""

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

# RFC 9562, with or without hyphens: only the versions whose ids a stranger cannot guess if they are generated properly.
# Versions 1, 2 and 6 come from a clock and a network card, and version 3 from MD5, so they are excluded.
UUID: Final = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[4578][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)


def check_shape(drafts: list[EventPayload]) -> None:
    """Raise `SyncBadRequest` for the whole request if any draft is malformed; then no draft is processed."""
    if not 1 <= len(drafts) <= limits.SYNC_BATCH_ITEMS_MAX:
        raise SyncBadRequest(
            f"a request must have 1 to {limits.SYNC_BATCH_ITEMS_MAX} events; this one has {len(drafts)}"
        )
    seen: set[str] = set()
    for draft in drafts:
        if not draft.id or len(draft.id.encode("utf-8", "surrogatepass")) > limits.EVENT_ID_BYTES_MAX:
            raise SyncBadRequest(f"the id of an event must be 1 to {limits.EVENT_ID_BYTES_MAX} bytes of UTF-8")
        if draft.id in seen:
            raise SyncBadRequest(f"the id {draft.id!r} occurs twice in the request")
        seen.add(draft.id)
        if bytes(draft.event)[:1] != b"{":
            raise SyncBadRequest(f"the event with id {draft.id!r} must be an object")
        _check_legacy(draft)


def _check_legacy(draft: EventPayload) -> None:
    """Refuse the singular `partition` on its own, or if it disagrees with `partitions` (seed 003)."""
    if draft.partitions is None:
        raise SyncBadRequest(f"partitions is missing from the event with id {draft.id!r}")
    if draft.partition is not None:
        try:
            same = normalise([draft.partition]) == normalise(draft.partitions)
        except ValidationFailed:
            same = False
        if not same:
            raise SyncBadRequest(
                f"partition and partitions of the event with id {draft.id!r} differ; send only partitions"
            )


def prepare_items(
    drafts: list[EventPayload],
    identity: Identity,
    placeholder: str | None,
    *,
    keep_values: bool = False,
    uuids_only: bool = False,
) -> tuple[Item, ...]:
    """Check each draft on its own, without the log. `keep_values` keeps the decoded events for a validator.

    With `uuids_only`, only ids that cannot be guessed are accepted. Ids are shared by all partitions, so a client that
    guesses the ids of others could find out whether they are in use, or use them first.
    """
    return tuple([_prepare(draft, identity, placeholder, keep_values, uuids_only) for draft in drafts])


def _prepare(
    draft: EventPayload, identity: Identity, placeholder: str | None, keep_value: bool, uuids_only: bool
) -> Item:
    """Check the id, the partitions, the authorisation for all of them, and then the canonical content."""
    assert draft.partitions is not None
    try:
        if placeholder is not None:
            _check_surrogates(draft, placeholder)
        if uuids_only and not UUID.fullmatch(draft.id):
            raise ValidationFailed("this server accepts only UUIDs of version 4, 5, 7 or 8 as ids", "id")
        partitions = normalise(draft.partitions)
        for name in partitions:
            if not identity.may_use(name):
                error = FieldError("partitions", f"the token does not allow the partition {name!r}")
                return Item(draft.id, refusal="forbidden", errors=(error,))
        event = bytes(draft.event)
        value = decode_event(event)
        digest = decoded_content_hash(partitions, value)
        return Item(draft.id, partitions, event, digest, value=value if keep_value else None)
    except ValidationFailed as failure:
        return Item(draft.id, refusal="validation_failed", errors=(FieldError(failure.field, failure.detail),))


def _check_surrogates(draft: EventPayload, placeholder: str) -> None:
    """Raise `ValidationFailed` for a lone surrogate, which has no canonical form."""
    if placeholder in draft.id:
        raise ValidationFailed("the id has a lone surrogate", "id")
    check_names(draft.partitions or [], placeholder)
    if b"\\u%x" % ord(placeholder) in bytes(draft.event):
        raise ValidationFailed("a string in the event has a lone surrogate", "event")


def check_names(names: list[str], placeholder: str | None) -> None:
    if placeholder is not None and any(placeholder in name for name in names):
        raise ValidationFailed("a partition name has a lone surrogate", "partitions")
