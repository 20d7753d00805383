"""The effects that operations of the streams client yield, so that asyncio and blocking code share one implementation.

An operation is a generator. It yields effects (send a request, wait, call a function of the application) and receives
their results. Each of the two clients performs these few effects in its own way; they share everything else.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from mainstem.client.core.protocol import Request

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send a request and receive the whole reply as a Response. Without a reply, NoResponse is thrown in."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send a request and receive the head of the reply; if it is a success, as a Response without a body.

    The reply stays open until its end, or until the operation yields anything but Receive.
    """

    request: Request


@dataclass(frozen=True)
class Receive:
    """Receive the next bytes of the open reply, and none at its end. If it breaks off, NoResponse is thrown in."""


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Invoke:
    """Call a function of the application that returns a token, a header or a query parameter."""

    function: Callable[[], Any]


Effect = Send | Open | Receive | Wait | Invoke
Operation = Generator[Effect, Any, T]


class NoResponse(Exception):
    """A request got no reply. `sent` is False if the server cannot have seen the request.

    `is_final` says that a retry would fail in the same way: with a certificate that is not trusted, for example.
    """

    def __init__(self, reason: str, *, sent: bool, timed_out: bool = False, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.timed_out = timed_out
        self.is_final = is_final
