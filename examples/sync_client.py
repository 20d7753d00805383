"""Two clients in one partition: one submits events, the other catches up and then receives them live.

    .venv/bin/python examples/sync_client.py ws://127.0.0.1:4437/v1/sync shopping [TOKEN]

This prints each event of the partition, as the reader receives it. Every run adds three. An event keeps its id when it
is sent again, so a retry after a lost reply stores nothing twice.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect

Json = dict[str, Any]
ITEMS = ("milk", "bread", "tea")


class SyncFailed(Exception):
    """The server answered with an error."""


class Client:
    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, type_: str, payload: Json) -> None:
        await self.socket.send(json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0"}))

    async def receive(self, type_: str) -> Json:
        """Return the payload of the next message, which must be of this type."""
        message = json.loads(await self.socket.recv())
        if message["type"] != type_:
            raise SyncFailed(f"expected {type_}, got {message}")
        payload: Json = message["payload"]
        return payload

    async def sign_in(self, client_id: str, token: str) -> None:
        await self.send("connect", {"client_id": client_id, "token": token})
        await self.receive("connected")

    async def submit(self, drafts: list[Json]) -> list[Json]:
        await self.send("submit_events", {"events": drafts})
        results: list[Json] = (await self.receive("submit_events_result"))["results"]
        return results

    async def follow(self, partition: str, cursor: int = 0) -> AsyncIterator[Json | None]:
        """Yield every event after the cursor, in order; None marks the point between old events and new ones."""
        request: Json = {"partitions": [partition], "subscription_partitions": [partition]}
        more = True
        while more:
            await self.send("sync", {**request, "since_committed_id": cursor})
            page = await self.receive("sync_response")
            for event in page["events"]:
                yield event
            cursor, more = page["next_since_committed_id"], page["has_more"]
        yield None
        while True:
            yield await self.receive("event_broadcast")


async def run(url: str, partition: str, token: str) -> None:
    drafts: list[Json] = [{"id": str(uuid4()), "partitions": [partition], "event": {"buy": item}} for item in ITEMS]
    waiting = {draft["id"] for draft in drafts}
    async with connect(url) as writing, connect(url) as reading:
        writer, reader = Client(writing), Client(reading)
        await writer.sign_in("example", token)
        await reader.sign_in("example", token)
        async for event in reader.follow(partition):
            if event is None:  # the reader is up to date: from here on it receives what the writer submits
                results = await writer.submit(drafts)
                assert await writer.submit(drafts) == results  # a retry gets the same reply, and stores nothing
                if any(result["status"] != "committed" for result in results):
                    raise SyncFailed(f"the server did not commit all events: {results}")
                continue
            print(event["committed_id"], json.dumps(event["event"]), flush=True)
            waiting.discard(event["id"])
            if not waiting:
                return


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: sync_client.py URL PARTITION [TOKEN]")
    try:
        asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else ""))
    except SyncFailed as error:
        sys.exit(str(error))
