"""Waiting for something to become so, by what a client tells, without guessing how long it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainstem.client import ClientError
from mainstem.client.offline import Changes, OfflineClient, State

WAIT_S_MAX = 30
T = TypeVar("T")


async def until(client: OfflineClient, check: Callable[[], Awaitable[T | None]]) -> T:
    """What the check gives, once that is something; it is made again after every change."""
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
    """Why the client is offline, once it is so for a reason."""

    async def failed() -> ClientError | None:
        return client.status.error if client.status.state is State.OFFLINE else None

    return await until(client, failed)


async def until_events(client: OfflineClient, partition: str, number: int) -> list[int]:
    """The committed ids of a partition, once there are so many."""

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
