"""Clients that know when their data must be gone: streams that expire, and streams that keep their newest part."""

import asyncio
import time
from collections.abc import Sequence

import msgspec

from mainstem.testing.history.recorder import Recorder
from mainstem.testing.history.violations import Violation
from mainstem.testing.torture.connections import Unanswered
from mainstem.testing.torture.nodes import Node
from mainstem.testing.torture.scope import EVERYTHING, Scope
from mainstem.testing.torture.workers import HttpWorker

NAMES = 10
"""How many paths a client uses in turn: every path that was ever used leaves a tombstone."""
MESSAGES = 100
CLOCK_S = 0.1
"""How far the clocks of a client and of the server may disagree."""


class LifetimeWorker(HttpWorker):
    """Owns its streams, so it knows what they hold."""

    through_proxy = 0.0

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self.violations: list[Violation] = []
        self.number = 0
        self.looks = 0
        """How often it compared what a stream holds with what it must hold."""

    def report(self, rule: str, detail: str) -> None:
        self.violations.append(Violation(rule, detail))


class Expiring(LifetimeWorker):
    """Creates a stream with a TTL, and reads it until it has expired: neither too early nor too late."""

    async def step(self) -> None:
        self.number += 1
        path = f"expiring/{self.name}/{self.number % NAMES}"
        ttl_s = self.chance.choice((1, 2, 4))
        text = self.make_message()
        began_s = time.monotonic()
        reply = await self.connection.request(
            "PUT", f"/v1/stream/{path}", {"Content-Type": "text/plain", "Stream-TTL": str(ttl_s)}, text.encode()
        )
        used_s = time.monotonic()
        if reply.refusal == "stream_exists":  # an earlier step was interrupted
            await self.connection.request("DELETE", f"/v1/stream/{path}")
            return
        while reply.status != 404:
            await asyncio.sleep(self.chance.uniform(0, 1.5 * ttl_s))
            asked_s = time.monotonic()
            reply = await self.connection.request("GET", f"/v1/stream/{path}?offset=-1")
            answered_s = time.monotonic()
            self.looks += 1
            if reply.refusal is not None:
                age_s = answered_s - began_s
                if age_s < ttl_s - CLOCK_S:
                    self.report("expired too early", f"{path} lived for {age_s:.3f} s, although its TTL is {ttl_s} s")
                return
            if reply.body != text.encode():
                self.report("wrong data", f"{path} holds {reply.body[:100]!r} instead of {text!r}")
            unused_s = asked_s - used_s
            if unused_s > ttl_s + CLOCK_S:
                self.report(
                    "expired too late", f"{path} was unused for {unused_s:.3f} s, although its TTL is {ttl_s} s"
                )
            used_s = answered_s


class Trimmed(LifetimeWorker):
    """Appends numbers to a stream that keeps only the newest ones, and reads what it holds."""

    def __init__(
        self, name: str, nodes: Sequence[Node], recorder: Recorder, seed: str, scope: Scope = EVERYTHING
    ) -> None:
        super().__init__(name, nodes, recorder, seed, scope)
        self._path = f"/v1/stream/trimmed/{name}"

    async def step(self) -> None:
        """Append the next number until that is acknowledged: the producer's number makes a retry harmless."""
        headers = {
            "Content-Type": "application/json",
            "Producer-Id": self.name,
            "Producer-Epoch": "0",
            "Producer-Seq": str(self.number),
        }
        reply = await self.connection.request("POST", self._path, headers, str(self.number).encode())
        if reply.refusal == "stream_not_found":
            headers = {"Content-Type": "application/json", "Stream-Retention": f"max-messages={MESSAGES}"}
            await self.connection.request("PUT", self._path, headers)
            return
        if reply.refusal is not None:
            raise Unanswered(reply.refusal)
        self.number += 1
        if self.chance.random() < 0.1:
            await self._look()

    async def _look(self) -> None:
        reply = await self.connection.request("GET", f"{self._path}?offset=-1")
        if reply.refusal is not None:
            raise Unanswered(reply.refusal)
        numbers = msgspec.json.decode(reply.body, type=list[int])
        self.looks += 1
        if numbers != list(range(numbers[0], self.number)) or numbers[0] > max(0, self.number - MESSAGES):
            self.report("wrong part trimmed", f"{self._path} holds {numbers} of {self.number}")
