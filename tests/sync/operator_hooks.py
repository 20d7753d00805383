"""Validation hooks such as an operator would write; tests name them in `sync_hook`."""

from mainstem.sync.validation.validators import FieldError

refused: set[str] = set()
"""Names that the hook rejects; tests change them, since a hook may decide differently later."""


def check_name(event, earlier):
    if event["name"] in refused:
        return [FieldError("event.name", "is not wanted")]
    if any(event["name"] == other["name"] for other in earlier):
        return [FieldError("event.name", "stands in this batch already")]
    return []


def explode(event, earlier):
    if event.get("bomb"):
        raise RuntimeError("the secret of the operator")
    return []
