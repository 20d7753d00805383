"""Appends of the largest size, on every store: each is stored once, and read back page by page and event by event."""

import os

import pytest

from mainstem import limits
from mainstem.log.store import SqliteStore
from mainstem.server.settings import Settings
from mainstem.testing.server_thread import ServerThread
from tests.support.event_streams import open_events

URL = "/v1/stream/large"
BYTES = {"content-type": "application/octet-stream"}
JSON = {"content-type": "application/json"}


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def large(request, start_thread, connect_to):
    store = request.getfixturevalue("postgres_url") if request.param == "postgresql" else request.param
    return connect_to(start_thread(store=store))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_largest_body_is_stored_and_read_back(large):
    body = os.urandom(limits.MIB) * (limits.BODY_BYTES_MAX // limits.MIB)
    assert large.put(URL, headers=BYTES).status_code == 201
    appended = large.post(URL, headers=BYTES, content=body)
    assert appended.status_code == 204, appended.text
    offset, found = "-1", []
    while True:
        page = large.get(URL, params={"offset": offset})
        found.append(page.content)
        offset = page.headers["stream-next-offset"]
        if "stream-up-to-date" in page.headers:
            break
    assert b"".join(found) == body
    assert large.post(URL, headers=BYTES, content=body + b"x").status_code == 413
    assert large.head(URL).headers["stream-next-offset"] == appended.headers["stream-next-offset"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_largest_json_body_is_one_page_and_one_event(large):
    size = limits.JSON_MESSAGE_BYTES_MAX
    body = b"[" + b",".join([b'"%b"' % (b"x" * (size - 8))] * (limits.BODY_BYTES_MAX // size)) + b"]"
    assert large.put(URL, headers=JSON, content=body).status_code == 201
    assert large.get(URL).content == body
    wanted = len(b"event: data\ndata:") + len(body)
    received = bytearray()  # a parser that scans each line again for each part would take minutes
    with large.stream("GET", URL, params={"offset": "-1", "live": "sse"}) as response:
        for piece in response.iter_raw():
            received += piece
            if len(received) > wanted and b"upToDate" in received[wanted:]:
                break
    assert received[:wanted] == b"event: data\ndata:" + body


class CountingStore(SqliteStore):
    reads = 0

    async def read(self, *args):
        self.reads += 1
        return await super().read(*args)


def test_a_large_append_is_fetched_from_the_store_once_for_all_its_parts(tmp_path, connect_to):
    store = CountingStore(tmp_path / "data")
    body = os.urandom(4 * limits.MIB)
    with ServerThread(Settings(port=0, page_bytes=limits.SSE_EVENT_BYTES), store=store) as server:
        client = connect_to(server)
        client.put(URL, headers=BYTES)
        client.post(URL, headers=BYTES, content=body)
        offset, found = "-1", b""
        while len(found) < len(body):
            page = client.get(URL, params={"offset": offset})
            found += page.content
            offset = page.headers["stream-next-offset"]
        assert (found, store.reads) == (body, 1)
        sizes = []
        with open_events(client, URL, params={"offset": "-1", "live": "sse"}) as events:
            for event in events:
                if event.name == "data":
                    sizes.append(len(event.data))
                elif event.json.get("upToDate"):
                    break
        assert len(sizes) == len(body) // limits.SSE_EVENT_BYTES
        assert store.reads <= 3  # one to check that the offset can be read
