"""Ids of requests: they connect a reply with the lines of logs and with traces.

A client may choose one with `X-Request-Id`. Otherwise the server makes one where it is needed: for errors, and for all
requests if there is an access log.
"""

import re
import secrets
from itertools import count
from typing import Final

from mainstem import limits

PLAIN: Final = re.compile(rb"[A-Za-z0-9._~:/+=@-]+")
_prefix: Final = secrets.token_hex(6)
_numbers: Final = count(1)


def accept_request_id(value: bytes | None) -> bytes:
    """Return the id that a client has sent, or nothing if it is missing, too long, or could confuse a log."""
    if value is None or len(value) > limits.REQUEST_ID_BYTES_MAX or PLAIN.fullmatch(value) is None:
        return b""
    return value


def make_request_id() -> str:
    """Return an id that no other request has, on this server or another one."""
    return f"{_prefix}-{next(_numbers):010x}"
