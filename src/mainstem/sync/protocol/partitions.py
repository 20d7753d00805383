"""Partition names: normalised to NFC, compared byte for byte, kept as a sorted set (seed 003).

They are not trimmed, and their case is kept. Sorting strings by code points gives the same order as sorting their UTF-8
bytes, so names are not encoded for it.
"""

import unicodedata
from collections.abc import Sequence
from typing import Final

from mainstem import limits
from mainstem.errors import ValidationFailed

NAME_BYTES_MAX: Final = limits.PARTITION_NAME_BYTES_MAX
PARTITIONS_MAX: Final = limits.EVENT_PARTITIONS_MAX
FILTER_PARTITIONS_MAX: Final = limits.FILTER_PARTITIONS_MAX

# A composed character decomposes into at most four, so a longer name cannot fit into NAME_BYTES_MAX bytes. It is
# refused before it is normalised, because the cost of that grows with the square of a run of combining marks.
NAME_CHARS_MAX: Final = 4 * NAME_BYTES_MAX


def normalise(names: Sequence[str]) -> tuple[str, ...]:
    """Return the partitions of an event as they are stored, hashed and authorised. Raise `ValidationFailed` if there
    are too few or too many, or if a name is invalid."""
    partitions = _as_set(names)
    if not partitions:
        raise ValidationFailed("an event must have at least one partition", field="partitions")
    if len(partitions) > PARTITIONS_MAX:
        raise ValidationFailed(f"an event can have at most {PARTITIONS_MAX} partitions", field="partitions")
    return partitions


def normalise_filter(names: Sequence[str]) -> tuple[str, ...]:
    """Normalise the partitions of a sync request. The rules for names are the same, but the list may be empty and have
    up to `FILTER_PARTITIONS_MAX` names, since a reader may follow more partitions than one event can have."""
    partitions = _as_set(names)
    if len(partitions) > FILTER_PARTITIONS_MAX:
        raise ValidationFailed(f"a sync can name at most {FILTER_PARTITIONS_MAX} partitions", field="partitions")
    return partitions


def _as_set(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) == 1:
        return (_normalise_name(names[0]),)
    return tuple(sorted({_normalise_name(name) for name in names}))


def _normalise_name(name: str) -> str:
    if name.isascii():  # NFC already, and a character is a byte
        size = len(name)
    else:
        if len(name) > NAME_CHARS_MAX:
            raise _too_long()
        name = unicodedata.normalize("NFC", name)
        size = _utf8_size(name)
    if not size:
        raise ValidationFailed("a partition name must not be empty", field="partitions")
    if size > NAME_BYTES_MAX:
        raise _too_long()
    return name


def _utf8_size(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        raise ValidationFailed("a partition name has a lone surrogate", field="partitions") from None


def _too_long() -> ValidationFailed:
    return ValidationFailed(f"a partition name can have at most {NAME_BYTES_MAX} bytes of UTF-8", field="partitions")
