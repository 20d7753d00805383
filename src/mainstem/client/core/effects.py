"""What an operation of the streams client asks to be done, so that one implementation serves asyncio and threads.

An operation is a generator: it yields effects (send a request, wait, call a function of the caller's) and is sent their
results. Each of the two clients performs these few effects in its own way; everything else is shared.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from mainstem.client.core.protocol import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send a request and take in its whole reply: a Response, or NoResponse is thrown in."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request and take in the head of its reply, as a Response without a body if it is a success.

    It stays open until its end, or until something else is asked for than to receive.
    """

    request: Request


@dataclass(frozen=True)
class Receive:
    """Take the next piece of what was opened: bytes, none at its end; NoResponse is thrown in when it breaks."""


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Invoke:
    """Call something of the caller's, for a token or a header."""

    function: Callable[[], Any]


Effect = Send | Open | Receive | Wait | Invoke
Operation = Generator[Effect, Any, T]


class NoResponse(Exception):
    """A request got no reply. `sent` is False when the server cannot have seen the request."""

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.timed_out = timed_out
