"""Documents on object stores of which the first writer wins.

Arrow cannot write an object only if there is none yet, but delta-rs can: that is how it commits. So a claim is the
first commit of an empty Delta table, and the document is the description of the table.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstem.errors import MissingSpark
from mainstem.pipeline.filesystems import delta_options
from mainstem.pipeline.storage_errors import explain_storage

SCHEMA = pa.schema([("claim", pa.string())])


def read_claim(uri: str) -> str | None:
    """Return the document at `uri`, or None if nobody has written one."""
    deltalake = _import_deltalake()
    try:
        with explain_storage(uri, "read"):
            found: str = deltalake.DeltaTable(uri, storage_options=delta_options(uri)).metadata().description
    except deltalake.exceptions.TableNotFoundError:
        return None
    except deltalake.exceptions.DeltaError as error:
        with explain_storage(uri, "read"):
            raise OSError(str(error)) from None
    return found


def make_claim(uri: str, document: str) -> str:
    """Write the document unless there is one, and return the one that counts."""
    deltalake = _import_deltalake()
    refusal: Exception | None = None
    try:
        with explain_storage(uri):
            deltalake.DeltaTable.create(
                uri, SCHEMA, mode="error", description=document, storage_options=delta_options(uri)
            )
    except deltalake.exceptions.DeltaError as error:  # usually another driver was first
        refusal = error
    found = read_claim(uri)
    if found is None:
        with explain_storage(uri):
            raise OSError(str(refusal))
    return found


def _import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise MissingSpark("the package deltalake is not installed") from None
    return deltalake
