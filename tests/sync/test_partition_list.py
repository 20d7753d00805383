"""`GET /v1/partitions?prefix=&after=&limit=`: partitions in the order of their names, in pages."""

import asyncio
from urllib.parse import quote

import httpx2
import pytest

from mainstem import limits
from mainstem.testing.server_thread import ServerThread
from tests.support.sync_peers import Peers, draft
from tests.support.waits import eventually

HOSTILE = [
    "<script>alert(1)</script>",
    "a\0b",
    "a\tb\n",
    "../../etc/passwd",
    "%2e%2e",
    "a'; DROP TABLE tags; --",
    "a%",
    "a_b",
    "\u202egnp.exe",
    "é",
    "\uffff",
    "\U0001f600",
    "\x1b[31mred",
    "x" * limits.PARTITION_NAME_BYTES_MAX,
]


def commit(server: ServerThread, *drafts: dict) -> list[int]:
    async def main() -> list[int]:
        async with Peers(server.address) as peers:
            return await (await peers.join()).commit(*drafts)

    return asyncio.run(main())


def read_all(client: httpx2.Client, limit: int, **params: str) -> list[dict]:
    """Return the partitions of all pages, checking that every page but the last is full."""
    found: list[dict] = []
    after = ""
    while True:
        reply = client.get("/v1/partitions", params={**params, "limit": limit, "after": after})
        assert reply.status_code == 200, reply.text
        page = reply.json()
        found += page["partitions"]
        if page["next"] is None:
            return found
        assert len(page["partitions"]) == limit
        after = page["next"]
        assert after == found[-1]["partition"]


def names(partitions: list[dict]) -> list[str]:
    return [partition["partition"] for partition in partitions]


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def server(request, start_thread):
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else request.param
    return start_thread(store=store)


@pytest.fixture
def client(server, connect_to):
    return connect_to(server)


def test_without_events_the_list_is_empty(client):
    reply = client.get("/v1/partitions")
    assert reply.json() == {"partitions": [], "next": None}
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"


def test_a_partition_is_listed_with_its_end_floor_and_snapshot(server, client):
    first, second, third = commit(server, draft("a"), draft(["a", "b"]), draft("c"))
    assert client.put("/v1/snapshot/b", json={"committed_id": second, "state": {}}).status_code == 204
    assert client.post("/v1/prune", json={"floors": {"a": first}}).status_code == 202
    assert client.get("/v1/partitions").json() == {
        "partitions": [
            {"partition": "a", "last_committed_id": second, "floor": first, "snapshot_committed_id": None},
            {"partition": "b", "last_committed_id": second, "floor": 0, "snapshot_committed_id": second},
            {"partition": "c", "last_committed_id": third, "floor": 0, "snapshot_committed_id": None},
        ],
        "next": None,
    }


def test_a_partition_whose_events_are_all_pruned_is_still_listed(server, client):
    ids = commit(server, draft("gone"), draft("gone"), draft("kept"))
    client.put("/v1/snapshot/gone", json={"committed_id": ids[1], "state": 1})
    assert client.post("/v1/prune", json={"floors": {"gone": ids[1]}}).status_code == 202
    log = client.get("/v1/log/head")
    eventually(lambda: client.get("/v1/log/head").json()["lowest"] > ids[1], f"the events are erased: {log.text}")
    assert client.get("/v1/partitions").json()["partitions"] == [
        {"partition": "gone", "last_committed_id": ids[1], "floor": ids[1], "snapshot_committed_id": ids[1]},
        {"partition": "kept", "last_committed_id": ids[2], "floor": 0, "snapshot_committed_id": None},
    ]


def test_pages_of_any_size_show_every_partition_once_and_in_order(server, client):
    commit(server, *[draft(name) for name in HOSTILE], *[draft(name) for name in reversed(HOSTILE)])
    client.put("/v1/snapshot/a-state-alone", json={"committed_id": 1, "state": 1})
    expected = sorted([*HOSTILE, "a-state-alone"])
    for limit in (1, 2, 3, 7, 14, 15, 16, 1000):
        assert names(read_all(client, limit)) == expected
    for name in HOSTILE:
        assert client.get(f"/v1/partition/{quote(name, safe='')}").json()[0]["partitions"] == [name]
        assert name in names(read_all(client, 2, prefix=name))
    assert names(read_all(client, 1, prefix="a")) == [name for name in expected if name.startswith("a")]


def test_after_need_not_name_a_partition(server, client):
    commit(server, draft("a"), draft("c"))
    assert names(client.get("/v1/partitions", params={"after": "b"}).json()["partitions"]) == ["c"]
    assert names(client.get("/v1/partitions", params={"after": "\U0010ffff"}).json()["partitions"]) == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=", "limit=1&limit=2", "prefix=a&prefix=b", "after=a&after=b"]
)
def test_invalid_parameters_get_400(sync_server, connect_to, query):
    refused = connect_to(sync_server).get("/v1/partitions?" + query)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_query")


def test_the_list_is_read_only(sync_server, connect_to):
    client = connect_to(sync_server)
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, "/v1/partitions").status_code == 404
