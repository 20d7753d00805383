"""Connections to a server: the streams client, set up for a command."""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.cli.addresses import Address
from mainstem.client.core.retries import Retries
from mainstem.escaping import escape_text

if TYPE_CHECKING:
    from mainstem.client import Streams

logging.getLogger("mainstem.client").addHandler(logging.NullHandler())  # a command reports retries in its own words


class RetryNotice:
    """Says on standard error that a command retries, once a server has been away for CLI_RETRY_NOTICE_S."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since_s = 0.0
        self._given = False

    def note_failure(self, failures: int, wait_s: float) -> None:
        """Count a failed attempt; the next one follows in `wait_s`. The first failure begins a new wait."""
        now_s = time.monotonic()
        if failures == 1:
            self._since_s, self._given = now_s, False
        if not self._given and now_s + wait_s - self._since_s > limits.CLI_RETRY_NOTICE_S:
            self._given = True
            text = f"mainstem: waiting for {self._url}; retrying (Ctrl-C stops)"
            print(escape_text(text), file=sys.stderr, flush=True)


@dataclass(frozen=True)
class NoticedRetries(Retries):
    """Retries that report a server that stays away."""

    notice: RetryNotice | None = field(default=None, compare=False)

    def delay(self, failures: int, chance: Callable[[], float]) -> float:
        wait_s = super().delay(failures, chance)
        if self.notice is not None:
            self.notice.note_failure(failures, wait_s)
        return wait_s


def make_retries(address: Address, attempts: int | None = limits.CLIENT_ATTEMPTS) -> NoticedRetries:
    return NoticedRetries(attempts_max=attempts, notice=RetryNotice(address.url))


def connect(address: Address, *, patient: bool = False) -> "Streams":
    """Return a client that gives up soon, so that a command reports an unreachable server at once.

    A patient client waits for a server that restarts. Use it after a first reply.
    """
    from mainstem.client import Streams

    attempts = limits.CLIENT_ATTEMPTS if patient else limits.CLI_ATTEMPTS
    retries = make_retries(address, attempts)
    return Streams(address.url, prefix=address.stream_prefix, token=address.token, retries=retries)
