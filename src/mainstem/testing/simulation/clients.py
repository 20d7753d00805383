"""What all clients have in common: they live longer than the server, and record what they ask and learn."""

import asyncio
from random import Random
from typing import ClassVar

import msgspec

from mainstem.testing.history.recorder import Recorder
from mainstem.testing.simulation.network import ConnectionLost, Network, Response

WITHOUT_BODY = {404: "stream_not_found", 410: "stream_gone"}
"""The codes of errors by their status, for replies to HEAD."""
UNCERTAIN = frozenset(["store_failed", "error"])
"""The codes of errors after which a write may have taken effect, or may yet."""


class OutcomeUnknown(Exception):
    """The server does not know either whether the call took effect."""


class Problem(msgspec.Struct):
    code: str = "error"


class Client:
    """Acts again and again as long as a server lives, and continues with the next one."""

    actions_max: ClassVar[int] = 100
    """How often it acts in one life at most."""

    def __init__(self, name: str, random: Random, recorder: Recorder) -> None:
        self.name = name
        self.random = random
        self.recorder = recorder

    async def run(self, network: Network, actions: int, pause_s: float) -> None:
        """Act so many times, with pauses of about so many seconds."""
        for _ in range(min(actions, self.actions_max)):
            await asyncio.sleep(pause_s * self.random.expovariate(1))
            try:
                await self.act(network)
            except (ConnectionLost, OutcomeUnknown):
                continue

    async def act(self, network: Network) -> None:
        """Do one thing. Raises an error if its outcome is unknown."""
        raise NotImplementedError

    async def settle(self, network: Network) -> None:
        """Find out what is uncertain. Nothing fails any more."""
        return


def read_refusal(response: Response) -> str | None:
    """Return the code of an error; None if the response is a success. Raises an error if the outcome is unknown."""
    if response.status < 400:
        return None
    if not response.body:
        return WITHOUT_BODY.get(response.status, f"status {response.status}")
    code = msgspec.json.decode(response.body, type=Problem).code
    if code in UNCERTAIN:
        raise OutcomeUnknown
    return code


def repeat(name: str, size: int) -> str:
    """Return a name, and then the name again and again in so many characters, so that no part equals another text."""
    return name + (f".{name}" * (size // len(name) + 1))[:size]
