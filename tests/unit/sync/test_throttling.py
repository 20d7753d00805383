"""Throttling: a client that sends too fast waits its turn, and no longer than necessary."""

import asyncio

import pytest

from mainstem import limits
from mainstem.sync.throttling import DraftQuota, TokenBucket


def test_a_burst_of_one_second_of_messages_passes_and_the_next_ones_wait():
    bucket = TokenBucket(10.0)
    assert all(bucket.take(10.0) == 0 for _ in range(limits.SYNC_MESSAGES_S_MAX))
    delay_s = bucket.take(10.0)
    assert 0 < delay_s < 0.1
    assert bucket.take(10.0 + delay_s) == 0


def test_a_clock_that_stops_or_goes_back_adds_no_tokens():
    bucket = TokenBucket(10.0)
    for _ in range(limits.SYNC_MESSAGES_S_MAX):
        bucket.take(10.0)
    assert bucket.take(9.0) > 0
    assert bucket.take(9.0) > 0


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def quota(monkeypatch):
    monkeypatch.setattr(limits, "SYNC_DRAFTS_MAX", 10)
    return DraftQuota()


async def test_a_request_that_fits_does_not_wait(quota):
    await quota.acquire("ann", 6)
    await quota.acquire("ann", 4)
    await quota.acquire("bob", 10)


async def test_turns_are_in_order_even_for_a_small_request_that_would_fit(quota):
    await quota.acquire("ann", 8)
    done: list[int] = []

    async def take(number):
        await quota.acquire("ann", number)
        done.append(number)

    tasks = [asyncio.create_task(take(number)) for number in (5, 2, 9)]
    await settle()
    assert done == []
    quota.release("ann", 8)
    await settle()
    assert done == [5, 2]
    quota.release("ann", 7)
    await asyncio.gather(*tasks)
    assert done == [5, 2, 9]


async def test_a_request_that_never_fits_is_admitted_alone(quota):
    await quota.acquire("ann", 1)
    waiting = asyncio.create_task(quota.acquire("ann", 50))
    await settle()
    assert not waiting.done()
    quota.release("ann", 1)
    await waiting


async def test_a_connection_that_ends_while_it_waits_does_not_block_others(quota):
    await quota.acquire("ann", 5)
    gone = asyncio.create_task(quota.acquire("ann", 10))
    last = asyncio.create_task(quota.acquire("ann", 5))
    await settle()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await last


async def test_a_connection_that_ends_just_as_its_turn_comes_passes_the_turn_on(quota):
    await quota.acquire("ann", 10)
    gone = asyncio.create_task(quota.acquire("ann", 10))
    last = asyncio.create_task(quota.acquire("ann", 10))
    await settle()
    quota.release("ann", 10)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await last
