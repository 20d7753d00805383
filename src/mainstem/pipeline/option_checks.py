"""Checks options that the server would refuse as well, but only after Spark has started."""

from collections.abc import Sequence

from mainstem.errors import BadOption, BadRequest, ValidationFailed
from mainstem.globs import check_glob
from mainstem.sync.protocol.partitions import normalise


def check_globs(option: str, patterns: Sequence[str]) -> None:
    """Raise `BadOption`, which names the option, for an invalid pattern."""
    for pattern in patterns:
        try:
            check_glob(pattern)
        except BadRequest as error:
            raise BadOption(f"{option}: {pattern!r}: {error.detail}") from None


def check_partitions(option: str, names: Sequence[str]) -> None:
    """Raise `BadOption` for invalid partition names. An empty list is allowed."""
    try:
        if names:
            normalise(names)
    except ValidationFailed as error:
        raise BadOption(f"{option}: {error.detail}") from None
