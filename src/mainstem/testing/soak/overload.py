"""Far more than a server can store: it must refuse early, and recover as soon as the flood ends."""

import asyncio
import time
from statistics import median
from typing import NamedTuple

from mainstem.testing.torture.connections import Connection, Reply, Unanswered

CONNECTIONS = 800
BODY = b"x" * (1 << 20)
PATH = "/v1/stream/flood"
HEADERS = {"Content-Type": "text/plain"}
RETRY_S = 0.05
QUICK_S = 0.1
"""A small append that takes no longer than this is served as usual."""
RECOVERY_S_MAX = 30.0


class Overload(NamedTuple):
    stored: int
    refused: int
    unanswered: int
    stored_s: float
    """The usual time until an append was stored."""
    refused_s: float
    """The usual time until an append was refused."""
    recovered_s: float
    """From the end of the flood until a small append was as quick as always."""


async def overload(address: tuple[str, int], seconds: float, connections: int = CONNECTIONS) -> Overload:
    """Send large appends over many connections, each as soon as the last one is answered."""
    await _send(address, "PUT")
    times: dict[str, list[float]] = {"stored": [], "refused": [], "unanswered": []}
    async with asyncio.TaskGroup() as group:
        flood = [group.create_task(_pour(address, times)) for _ in range(connections)]
        await asyncio.sleep(seconds)
        for task in flood:
            task.cancel()
    ended_s = time.monotonic()
    await _wait_until_quick(address)
    recovered_s = time.monotonic() - ended_s
    return Overload(
        len(times["stored"]),
        len(times["refused"]),
        len(times["unanswered"]),
        median(times["stored"] or [0.0]),
        median(times["refused"] or [0.0]),
        recovered_s,
    )


async def _pour(address: tuple[str, int], times: dict[str, list[float]]) -> None:
    while True:
        began_s = time.monotonic()
        try:
            connection = await Connection.open(address)
            try:
                while True:
                    began_s = time.monotonic()
                    reply = await connection.request("POST", PATH, HEADERS, BODY)
                    outcome = "refused" if reply.status == 503 else "stored" if reply.status == 204 else "unanswered"
                    times[outcome].append(time.monotonic() - began_s)
            finally:
                connection.close()
        except Unanswered:
            times["unanswered"].append(time.monotonic() - began_s)
            await asyncio.sleep(RETRY_S)


async def _wait_until_quick(address: tuple[str, int]) -> None:
    """Return once a small append is stored as quickly as always."""
    async with asyncio.timeout(RECOVERY_S_MAX):
        while True:
            began_s = time.monotonic()
            try:
                reply = await _send(address, "POST", b"after the flood")
                if reply.status == 204 and time.monotonic() - began_s < QUICK_S:
                    return
            except Unanswered:
                pass  # try again
            await asyncio.sleep(RETRY_S)


async def _send(address: tuple[str, int], method: str, body: bytes = b"") -> Reply:
    connection = await Connection.open(address)
    try:
        return await connection.request(method, PATH, HEADERS, body)
    finally:
        connection.close()
