"""Errors of disks and object stores, in one sentence.

The texts of Arrow and delta-rs are not shown: they may hold a reply of the object store with an access key in it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from mainstem.errors import MainstemError, StorageFailed

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

NO_SPACE = "no space left on the disk: free some"

# The first pattern that occurs in the text of an error, in lower case and without underscores, decides. The texts hold
# AWS's codes, or what Arrow and delta-rs call them.
REASONS = (
    ((r"nosuchbucket", r"bucket '[^']*' not found"), "the bucket does not exist: create it"),
    (
        (r"invalidaccesskeyid", r"signaturedoesnotmatch", r"(expired|invalid)\w*token"),
        "the object store does not accept the credentials: check AWS_ACCESS_KEY_ID and the others on every machine",
    ),
    (
        (r"accessdenied", r"\b403\b", r"forbidden", r"lacked the necessary privileges", r"unauthenticated"),
        "access denied: check the credentials, and what their owner may do there",
    ),
    ((r"slowdown", r"serviceunavailable", r"\b503\b", r"\b429\b"), "the object store is too busy"),
    ((r"internalerror", r"internalfailure", r"\b50[024]\b"), "the object store reports an internal error"),
    (
        (r"networkconnection", r"timed? ?out", r"error sending request", r"connection (refused|reset|closed)"),
        "the object store does not answer: check AWS_ENDPOINT_URL, and that every machine can reach it",
    ),
    ((r"os error (27|28|122)\b", r"no space left"), NO_SPACE),
    ((r"os error 13\b", r"permission denied"), "permission denied"),
)


def describe_storage_error(error: Exception) -> str:
    """Return the reason in our own words."""
    number = getattr(error, "errno", None)
    if number in FULL:
        return NO_SPACE
    if number is not None:
        text = os.strerror(number)
        return text[:1].lower() + text[1:]
    return _find_reason(error) or "the request failed for an unknown reason"


def is_storage_error(error: Exception) -> bool:
    """Return whether an error of delta-rs that may have other causes, too, is one of a disk or an object store."""
    return _find_reason(error) is not None


def _find_reason(error: Exception) -> str | None:
    said = str(error).lower().replace("_", "")
    found = (reason for signs, reason in REASONS if any(re.search(sign, said) for sign in signs))
    return next(found, None)


@contextmanager
def explain_storage(location: str, verb: str = "write") -> Iterator[None]:
    """Raise `StorageFailed`, which names the location and the reason, for errors of a disk or an object store."""
    try:
        yield
    except MainstemError:
        raise
    except OSError as error:  # Arrow's errors of object stores are OSErrors too
        raise StorageFailed(f"cannot {verb} {location}: {describe_storage_error(error)}") from None
