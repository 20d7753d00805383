"""Partitions over HTTP: they follow the rules of streams, and an offset is a committed id."""

import asyncio
import json
import unicodedata
from urllib.parse import quote

import httpx2
import pytest

from tests.support.sync_peers import Peer, Peers, draft, ids_of


def offset(committed_id: int) -> str:
    return f"{0:016d}_{committed_id:016d}"


@pytest.fixture
def http(sync_server, connect_to) -> httpx2.Client:
    return connect_to(sync_server)


async def commit(server, *drafts: dict) -> list[int]:
    async with Peers(server.address) as peers:
        return await (await peers.join()).commit(*drafts)


async def test_a_read_returns_the_rows_of_a_sync_page(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        peer = await peers.join()
        ids = await peer.commit(draft(room, {"n": 1}), draft([room, "x"], {"n": 2}))
        page = await peer.sync([room])
    reply = http.get(f"/v1/partition/{room}")
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == page["events"]
    assert reply.headers["stream-next-offset"] == offset(ids[-1])
    assert reply.headers["stream-up-to-date"] == "true"


async def test_an_offset_is_an_exclusive_committed_id(sync_server, http, room):
    ids = await commit(sync_server, *[draft(room) for _ in range(3)])
    for number, committed in enumerate(ids):
        reply = http.get(f"/v1/partition/{room}", params={"offset": offset(committed)})
        assert ids_of(reply.json()) == ids[number + 1 :]
        assert reply.headers["stream-next-offset"] == offset(ids[-1])


async def test_an_unused_partition_is_empty(http, room):
    reply = http.get(f"/v1/partition/{room}")
    assert (reply.status_code, reply.json()) == (200, [])
    assert reply.headers["stream-next-offset"] == offset(0)
    assert reply.headers["stream-up-to-date"] == "true"


async def test_head_returns_the_end_without_a_body(sync_server, http, room):
    ids = await commit(sync_server, draft(room), draft(room))
    reply = http.head(f"/v1/partition/{room}")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["stream-next-offset"] == offset(ids[-1])
    assert reply.headers["content-type"] == "application/json"


async def test_offset_now_skips_history(sync_server, http, room):
    ids = await commit(sync_server, draft(room))
    reply = http.get(f"/v1/partition/{room}", params={"offset": "now"})
    assert reply.json() == []
    assert reply.headers["stream-next-offset"] == offset(ids[-1])
    assert "etag" not in reply.headers


async def test_pages_follow_each_other_until_up_to_date(start_thread, connect_to, room):
    server = start_thread(store="memory", page_bytes=2_000)
    ids = await commit(server, *[draft(room, {"pad": "x" * 500}) for _ in range(20)])
    http, seen, at, pages = connect_to(server), [], "-1", 0
    while True:
        reply = http.get(f"/v1/partition/{room}", params={"offset": at})
        seen += ids_of(reply.json())
        at = reply.headers["stream-next-offset"]
        pages += 1
        if reply.headers.get("stream-up-to-date") == "true":
            break
    assert seen == ids
    assert pages > 3


@pytest.mark.parametrize("bad", ["7", "", "abc", "0_0", offset(10**15), f"{1:016d}_{0:016d}", "-2"])
async def test_an_offset_that_this_server_never_gave_returns_400(http, room, bad):
    reply = http.get(f"/v1/partition/{room}", params={"offset": bad})
    assert reply.status_code == 400
    assert reply.json()["code"] == "invalid_offset"


async def test_an_etag_returns_304_until_something_is_committed(sync_server, http, room):
    await commit(sync_server, draft(room))
    first = http.get(f"/v1/partition/{room}")
    tag = {"if-none-match": first.headers["etag"]}
    same = http.get(f"/v1/partition/{room}", headers=tag)
    assert (same.status_code, same.content) == (304, b"")
    await commit(sync_server, draft(room))
    changed = http.get(f"/v1/partition/{room}", headers=tag)
    assert changed.status_code == 200
    assert changed.headers["etag"] != first.headers["etag"]
    assert len(changed.json()) == 2


async def test_a_long_poll_returns_existing_events_at_once(sync_server, http, room):
    ids = await commit(sync_server, draft(room))
    reply = http.get(f"/v1/partition/{room}", params={"offset": "-1", "live": "long-poll"})
    assert ids_of(reply.json()) == ids
    assert reply.headers["stream-cursor"]


async def test_a_long_poll_waits_for_a_commit_and_ignores_other_partitions(sync_server, room, other_room):
    async with (
        Peers(sync_server.address) as peers,
        httpx2.AsyncClient(base_url=sync_server.url, timeout=30, trust_env=False) as http,
    ):
        peer = await peers.join()
        waiting = asyncio.create_task(http.get(f"/v1/partition/{room}", params={"offset": "now", "live": "long-poll"}))
        committed: list[int] = []
        while not waiting.done():  # the request may arrive after the first of them
            await peer.commit(draft(other_room))
            if len(committed) < 200:
                committed += await peer.commit(draft(room))
        seen = ids_of((await waiting).json())
        assert seen
        assert seen == committed[committed.index(seen[0]) :][: len(seen)]


async def test_a_long_poll_without_new_events_ends_with_204(start_thread, connect_to, room):
    server = start_thread(store="memory", long_poll_ms=20)
    [committed] = await commit(server, draft(room))
    reply = connect_to(server).get(f"/v1/partition/{room}", params={"offset": offset(committed), "live": "long-poll"})
    assert (reply.status_code, reply.content) == (204, b"")
    assert reply.headers["stream-next-offset"] == offset(committed)
    assert reply.headers["stream-up-to-date"] == "true"


async def read_events(lines, number: int) -> tuple[list[dict], dict]:
    """Return this many rows of an SSE response, and the control event after them."""
    rows: list[dict] = []
    name, data = "", ""
    async for line in lines:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:]
        elif not line:
            if name == "data":
                rows += json.loads(data)
            elif name == "control" and len(rows) >= number:
                return rows, json.loads(data)
            name, data = "", ""
    raise AssertionError("the response ended early")


async def test_sse_gives_history_and_then_every_commit_once(sync_server, room):
    async with (
        Peers(sync_server.address) as peers,
        httpx2.AsyncClient(base_url=sync_server.url, timeout=30, trust_env=False) as http,
    ):
        peer = await peers.join()
        ids = await peer.commit(draft(room), draft(room))
        async with http.stream("GET", f"/v1/partition/{room}", params={"offset": "-1", "live": "sse"}) as response:
            assert response.headers["content-type"] == "text/event-stream"
            lines = response.aiter_lines()
            rows, control = await read_events(lines, 2)
            assert ids_of(rows) == ids
            assert control["streamNextOffset"] == offset(ids[-1])
            assert control["upToDate"] is True
            for _ in range(3):
                more = await peer.commit(draft(room), draft("elsewhere"))
                rows, control = await read_events(lines, 1)
                assert ids_of(rows) == more[:1]
                assert control["streamNextOffset"] == offset(more[0])


async def test_names_in_urls_are_decoded_and_normalised(sync_server, http, room):
    name = f"{room}/é ☃?#%"
    ids = await commit(sync_server, draft(name))
    for form in ("NFC", "NFD"):
        reply = http.get(f"/v1/partition/{quote(unicodedata.normalize(form, name), safe='')}")
        assert ids_of(reply.json()) == ids


@pytest.mark.parametrize("name", ["", "x" * 129, "%FF"])
async def test_an_invalid_name_returns_400(http, name):
    assert http.get(f"/v1/partition/{name}").status_code == 400
    assert http.put(f"/v1/snapshot/{name}", json={"committed_id": 0, "state": {}}).status_code == 400


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
async def test_partitions_are_written_only_with_the_sync_protocol(http, room, method):
    assert http.request(method, f"/v1/partition/{room}").status_code == 405


async def test_http_and_sync_readers_see_the_same_order(sync_server, http, room):
    async with Peers(sync_server.address) as peers:
        writers = [await peers.join() for _ in range(3)]

        async def write(writer: Peer) -> None:
            for _ in range(20):
                await writer.commit(draft(room))

        await asyncio.gather(*[write(writer) for writer in writers])
        page = await writers[0].sync([room], limit=1000)
    assert http.get(f"/v1/partition/{room}").json() == page["events"]
    assert len(page["events"]) == 60
