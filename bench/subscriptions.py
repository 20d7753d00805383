"""Many pull-wake subscriptions with the same glob, each woken once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import msgspec

from bench.load_jobs import Figures, Subscribe
from bench.payloads import CONTENT_TYPES, make_body
from bench.sockets import BlockingConnection
from bench.wire import UnexpectedReply, build_request, check_status, require_header
from bench.writers import create_streams, drain

WAKE_STREAM = "wake/all"
ROOT = "__ds/subscriptions/"
LOOK_GAP_S = 0.1
SETTLE_S = 1.0


class WakeMessage(msgspec.Struct):
    subscription_id: str


def build_subscriptions(job: Subscribe) -> Iterator[bytes]:
    body = msgspec.json.encode({"type": "pull-wake", "pattern": job.pattern, "wake_stream": WAKE_STREAM})
    headers = {"Content-Type": CONTENT_TYPES["json"]}
    for name in name_subscriptions(job):
        yield build_request("PUT", ROOT + name, headers=headers, body=body)


def name_subscriptions(job: Subscribe) -> Iterator[str]:
    return (f"bench-{index:05d}" for index in range(job.subscriptions))


async def run_subscribe(job: Subscribe) -> Figures:
    await create_streams(job.port, [WAKE_STREAM], CONTENT_TYPES["json"])
    started = time.perf_counter()
    await drain(job.port, build_subscriptions(job), b"201")
    create_s = time.perf_counter() - started
    started = time.perf_counter()
    await create_streams(job.port, [job.stream], CONTENT_TYPES["bytes"], make_body("bytes", 1))
    with BlockingConnection(job.port) as connection:
        await wait_for_wakes(connection, set(name_subscriptions(job)))
    return {"create_s": create_s, "wake_s": time.perf_counter() - started - SETTLE_S}


async def wait_for_wakes(connection: BlockingConnection, missing: set[str]) -> None:
    """Wait until each subscription is woken, and check that none is woken twice: none of them is claimed."""
    offset = "-1"
    while missing:
        offset, woken = read_wakes(connection, offset)
        for name in woken:
            if name not in missing:
                raise UnexpectedReply(f"{name} was woken twice, or is not a subscription of this job")
            missing.remove(name)
        if not woken:
            await asyncio.sleep(LOOK_GAP_S)
    await asyncio.sleep(SETTLE_S)
    _, woken = read_wakes(connection, offset)
    if woken:
        raise UnexpectedReply(f"{len(woken)} subscriptions were woken twice")


def read_wakes(connection: BlockingConnection, offset: str) -> tuple[str, list[str]]:
    page = bytearray()
    head, _ = connection.fetch(build_request("GET", WAKE_STREAM, query=f"?offset={offset}"), page)
    check_status(head, bytes(page[:200]), b"200")
    wakes = msgspec.json.decode(page, type=list[WakeMessage])
    return require_header(head, "Stream-Next-Offset"), [wake.subscription_id for wake in wakes]
