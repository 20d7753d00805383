"""Waiting for a condition with the changes that a client reports, without guessing how long it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainstem.client import ClientError
from mainstem.client.offline import Changes, OfflineClient, State

WAIT_S_MAX = 30
T = TypeVar("T")


async def until(client: OfflineClient, check: Callable[[], Awaitable[T | None]]) -> T:
    """Repeat the check after every change until it returns something, and return that."""
    changes = client.changes()
    async with asyncio.timeout(WAIT_S_MAX):
        while not (found := await check()):
            await anext(changes)
        return found


async def until_state(client: OfflineClient, state: State) -> None:
    async def reached() -> bool:
        return client.status.state is state

    await until(client, reached)


async def until_offline(client: OfflineClient) -> ClientError:
    """Wait until the client is offline with an error, and return the error."""

    async def failed() -> ClientError | None:
        return client.status.error if client.status.state is State.OFFLINE else None

    return await until(client, failed)


async def until_events(client: OfflineClient, partition: str, number: int) -> list[int]:
    """Wait until a partition has this number of events, and return their committed ids."""

    async def reached() -> list[int]:
        found = await client.events(partition, drafts=False)
        return [event.committed_id or 0 for event in found] if len(found) >= number else []

    return await until(client, reached)


async def next_of(changes: Changes, kind: type[T]) -> T:
    async with asyncio.timeout(WAIT_S_MAX):
        async for change in changes:
            if isinstance(change, kind):
                return change
    raise AssertionError("the client was closed")
