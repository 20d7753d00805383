import asyncio

import pytest

from mainstem.client import BadArgument, NotFound, StreamClosed
from mainstem.server import create_app

JSON = "application/json"


async def test_the_client_of_an_embedded_app_does_what_a_client_over_http_does():
    log = create_app(store="memory", public="none")
    async with log.lifespan():
        streams = log.client()
        assert (await streams.create("a/b", JSON, ttl_s=60)).created
        assert (await streams.append_json("a/b", {"n": 1}, 2)).next_offset.endswith("_0000000000000010")
        assert await streams.read_json("a/b") == [{"n": 1}, 2]
        assert [info.path async for info in streams.list()] == ["a/b"]
        assert (await streams.head("a/b")).ttl_s == 60
        await streams.close("a/b")
        with pytest.raises(StreamClosed):
            await streams.append_json("a/b", 3)
        with pytest.raises(NotFound):
            await streams.append_json("missing", 3)
        await streams.delete("a/b")


async def test_it_follows_live_and_can_leave_at_any_time():
    log = create_app(store="memory")
    async with log.lifespan():
        streams = log.client()
        await streams.create("live", "text/plain")
        following = streams.follow("live")
        await streams.append("live", "one")
        assert (await anext(following)).data == b"one"
        await following.aclose()
        received = []

        async def follow():
            async for batch in streams.follow("live"):
                received.append(batch.data)

        task = asyncio.create_task(follow())
        for number in range(100):
            await streams.append("live", f" {number}")
        await streams.close("live")
        await task
        assert b"".join(received) == b"one" + b"".join(b" %d" % number for number in range(100))


async def test_a_body_that_is_larger_than_the_limit_is_refused():
    log = create_app(store="memory", max_body_bytes=100)
    async with log.lifespan():
        streams = log.client()
        await streams.create("small", "text/plain")
        with pytest.raises(Exception, match="body_too_large"):
            await streams.append("small", "x" * 101)
        assert await streams.read_text("small") == ""


async def test_the_client_says_that_the_lifespan_does_not_run():
    log = create_app(store="memory")
    with pytest.raises(BadArgument, match="run the lifespan"):
        await log.client().create("a", JSON)
    async with log.lifespan():
        await log.client().create("a", JSON)
    with pytest.raises(BadArgument, match="run the lifespan"):
        await log.client().append_json("a", 1)


async def test_there_is_one_client_per_app():
    log = create_app(store="memory")
    assert log.client() is log.client()
