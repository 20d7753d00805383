"""The official Python client, PyPI `durable-streams`, unchanged, against a real server."""

import threading
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
from durable_streams import (
    AsyncDurableStream,
    DurableStream,
    SeqConflictError,
    StreamExistsError,
    StreamNotFoundError,
    astream,
    stream,
)


@pytest.fixture
def url(server, path) -> str:
    return f"{server.url}/v1/stream/{path}"


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """The client's own transport, without the proxy settings of the environment."""
    with httpx.Client(trust_env=False, timeout=30) as http:
        yield http


def test_a_stream_is_created_once_and_found_again(url, http):
    with pytest.raises(StreamNotFoundError):
        DurableStream.connect(url, client=http)
    made = DurableStream.create(url, content_type="text/plain", ttl_seconds=3600, client=http)
    DurableStream.create(url, content_type="text/plain", ttl_seconds=3600, client=http)
    with pytest.raises(StreamExistsError):
        DurableStream.create(url, content_type="application/json", client=http)
    assert DurableStream.connect(url, client=http).content_type == "text/plain"
    head = made.head()
    assert (head.exists, head.content_type) == (True, "text/plain")
    assert head.offset == "0000000000000000_0000000000000000"
    made.delete()
    with pytest.raises(StreamNotFoundError):
        made.head()


def test_appended_json_is_read_back_in_order(url, http):
    handle = DurableStream.create(url, content_type="application/json", client=http)
    for number in range(5):
        handle.append({"number": number, "text": "grüße"})
    with handle.stream(live=False) as response:
        assert response.read_json() == [{"number": number, "text": "grüße"} for number in range(5)]


def test_appends_from_many_threads_are_batched_and_none_is_lost(url, http):
    handle = DurableStream.create(url, content_type="application/json", client=http, batching=True)
    threads = [threading.Thread(target=handle.append, args=({"n": number},)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with stream(url, live=False, client=http) as response:
        assert sorted(item["n"] for item in response.iter_json()) == list(range(40))


def test_bytes_and_text_are_read_back_unchanged(url, http):
    data = bytes(range(256)) * 10
    handle = DurableStream.create(url, content_type="application/octet-stream", client=http)
    result = handle.append(data)
    with handle.stream(live=False) as response:
        assert response.read_bytes() == data
    with stream(url, offset=result.next_offset, live=False, client=http) as response:
        assert response.read_bytes() == b""


def test_a_sequence_that_goes_back_is_a_conflict_for_the_client(url, http):
    handle = DurableStream.create(url, content_type="text/plain", client=http, batching=False)
    handle.append("one", seq="2")
    with pytest.raises(SeqConflictError):
        handle.append("two", seq="1")
    with handle.stream(live=False) as response:
        assert response.read_text() == "one"


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_follower_gets_existing_and_new_data(url, http, live):
    handle = DurableStream.create(url, content_type="application/json", client=http)
    handle.append("before")
    with stream(url, offset="-1", live=live, client=http) as response:
        items = response.iter_json()
        found = [next(items)]
        for word in ("during", "after"):
            handle.append(word)
            found.append(next(items))
    assert found == ["before", "during", "after"]


def test_a_follower_of_text_gets_unchanged_lines(url, http):
    handle = DurableStream.create(url, content_type="text/plain", client=http)
    handle.append("one\ntwo\n")
    with stream(url, offset="-1", live="sse", client=http) as response:
        texts = response.iter_text()
        found = next(texts)
        handle.append("\n three")
        while len(found) < 15:
            found += next(texts)
    assert found == "one\ntwo\n\n three"


def test_a_follower_resumes_where_it_stopped(url, http):
    handle = DurableStream.create(url, content_type="application/json", client=http)
    handle.append(1)
    with stream(url, live=False, client=http) as response:
        assert response.read_json() == [1]
        offset = response.offset
    handle.append(2)
    with stream(url, offset=offset, live="long-poll", client=http) as response:
        assert next(response.iter_json()) == 2


async def test_the_asynchronous_client_works_the_same_way(url):
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        handle = await AsyncDurableStream.create(url, content_type="application/json", client=http)
        await handle.append({"number": 1})
        for live in ("sse", "long-poll"):
            async with astream(url, offset="-1", live=live, client=http) as response:
                items = response.iter_json()
                assert await anext(items) == {"number": 1}
                assert isinstance(items, AsyncGenerator)
                await items.aclose()
        await handle.delete()
