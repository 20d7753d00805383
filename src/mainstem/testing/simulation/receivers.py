"""Receivers of webhooks in memory: they accept wakes, fail, answer too late, or acknowledge by a call of their own."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from mainstem.streams.rules.offsets import Offset
from mainstem.streams.subscriptions.webhook_client import NO_HEADERS, WebhookClient, WebhookFailed, WebhookResponse
from mainstem.testing.simulation.network import ConnectionLost, Network

SUBSCRIPTION = "everything"
URL = "http://localhost:9999/hook"
ACCEPTED = WebhookResponse(200, b"{}")
DONE = WebhookResponse(200, b'{"done":true}')


class Receivers(WebhookClient):
    """Takes the place of the client that calls webhooks."""

    def __init__(self, random: Random) -> None:
        self.allow_local = True
        self.network: Network | None = None
        self.failures = 0.3
        """The share of the calls that do not succeed."""
        self._random = random
        self._tasks: set[asyncio.Task[None]] = set()

    def disconnect(self) -> None:
        """Forget the server."""
        self.network = None
        self._tasks.clear()

    async def call(
        self, url: str, body: bytes, signature: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> WebhookResponse:
        assert self.network is not None
        await asyncio.sleep(self.network.draw_delay_s())
        choice = self._random.random()
        if choice < self.failures / 2:
            raise WebhookFailed("the receiver has a bad day")
        wake: dict[str, Any] = msgspec.json.decode(body)
        if self._random.random() < 0.5:
            if choice < self.failures:
                raise WebhookFailed("the response was lost")
            return DONE
        task = asyncio.create_task(self._acknowledge(wake))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if choice < self.failures:
            raise WebhookFailed("the response was lost")
        return ACCEPTED

    async def _acknowledge(self, wake: dict[str, Any]) -> None:
        """Acknowledge what a wake announces. If that fails, the lease expires, and another wake follows."""
        assert self.network is not None
        await asyncio.sleep(self.network.draw_delay_s())
        acks = [{"stream": stream["path"], "offset": stream["tail_offset"]} for stream in wake["streams"]]
        request = {"wake_id": wake["wake_id"], "generation": wake["generation"], "acks": acks, "done": True}
        try:
            await self.network.request(
                "POST",
                f"/v1/stream/__ds/subscriptions/{SUBSCRIPTION}/callback",
                {"content-type": "application/json", "authorization": f"Bearer {wake['callback_token']}"},
                msgspec.json.encode(request),
            )
        except ConnectionLost:
            return


async def subscribe(network: Network) -> bool:
    """Create the subscription; return whether the server has confirmed that it exists."""
    request = {"type": "webhook", "pattern": "**", "webhook": {"url": URL}, "lease_ttl_ms": 1_000}
    response = await network.request(
        "PUT",
        f"/v1/stream/__ds/subscriptions/{SUBSCRIPTION}",
        {"content-type": "application/json"},
        msgspec.json.encode(request),
    )
    return response.status in (200, 201)


async def find_unacknowledged(network: Network) -> list[str]:
    """Return the streams with data that no worker has acknowledged."""
    response = await network.request("GET", f"/v1/stream/__ds/subscriptions/{SUBSCRIPTION}")
    listed = msgspec.json.decode(response.body)["streams"]
    missing: list[str] = []
    for link in listed:
        head = await network.request("HEAD", f"/v1/stream/{link['path']}")
        if head.status in (404, 410):  # it was deleted, but its link stays
            continue
        end = Offset.parse(head.headers["stream-next-offset"])
        if end.position and end != Offset.parse(link["acked_offset"]):  # an empty stream has nothing to acknowledge
            missing.append(link["path"])
    return missing
