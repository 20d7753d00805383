"""Connections to a server: the streams client, set up for a command."""

from typing import TYPE_CHECKING

from mainstem import limits
from mainstem.cli.addresses import Address

if TYPE_CHECKING:
    from mainstem.client import Streams


def connect(address: Address, *, patient: bool = False) -> "Streams":
    """A client that gives up soon, so that a server that is not there is told at once.

    A patient one waits for a server that restarts: it is for what goes on after a first answer.
    """
    from mainstem.client import Retries, Streams

    attempts = limits.CLIENT_ATTEMPTS if patient else limits.CLI_ATTEMPTS
    retries = Retries(attempts_max=attempts)
    return Streams(address.url, prefix=address.stream_prefix, token=address.token, retries=retries)
