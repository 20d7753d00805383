"""The server's index next to the log, page by page: event ids, streams and producers."""

import json
from collections.abc import Iterator

import httpx2
import pyarrow as pa
import pytest
from websockets.sync.client import connect

from mainstem.sync.protocol.canonical import content_hash
from mainstem.testing.server import ServerProcess

ARROW = {"accept": "application/vnd.apache.arrow.stream"}
JSON = {"content-type": "application/json"}


@pytest.fixture(params=["sqlite", "memory"], scope="module")
def http(request, tmp_path_factory) -> Iterator[httpx2.Client]:
    data = tmp_path_factory.mktemp("index")
    with (
        ServerProcess(data, "--store", request.param) as server,
        httpx2.Client(base_url=server.url, timeout=30, trust_env=False) as http,
    ):
        for path in ("a", "b ü/c", "gone"):
            http.put(f"/v1/stream/{path}", headers=JSON).raise_for_status()
        for seq in range(3):
            about = {"producer-id": "p&q", "producer-epoch": "4", "producer-seq": str(seq), **JSON}
            http.post("/v1/stream/a", headers=about, content=b"[1,22]").raise_for_status()
        http.put("/v1/stream/fork", headers={"stream-forked-from": "/v1/stream/a"}).raise_for_status()
        http.delete("/v1/stream/gone").raise_for_status()
        submit(server.url, {f"id {n} +&ü": {"n": n} for n in range(5)})
        yield http


def submit(url: str, events: dict[str, dict]) -> None:
    with connect(url.replace("http", "ws") + "/v1/sync") as socket:
        for type_, payload in [
            ("connect", {"client_id": "c"}),
            (
                "submit_events",
                {"events": [{"id": id_, "partitions": ["p"], "event": e} for id_, e in events.items()]},
            ),
        ]:
            socket.send(json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0"}))
            assert json.loads(socket.recv(timeout=10))["type"] != "error"


def read_all(http: httpx2.Client, of: str, limit: int) -> list[dict]:
    rows, after = [], ""
    while True:
        response = http.get(f"/v1/log/index?of={of}&limit={limit}&after={after}")
        assert response.status_code == 200, response.text
        page = [json.loads(line) for line in response.text.splitlines()]
        assert len(page) == int(response.headers["log-rows"]) <= limit
        rows += page
        if "log-next" not in response.headers:
            return rows
        after = response.headers["log-next"]


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_events_have_the_digest_of_their_content(http, limit):
    rows = read_all(http, "events", limit)
    assert [row["id"] for row in rows] == [f"id {n} +&ü" for n in range(5)]
    assert [row["digest"] for row in rows] == [content_hash(("p",), b'{"n":%d}' % number).hex() for number in range(5)]
    ids = [row["committed_id"] for row in rows]
    assert ids == sorted(ids)


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_streams_report_where_their_own_data_is(http, limit):
    rows = {row["path"]: row for row in read_all(http, "streams", limit)}
    assert list(rows) == ["a", "b ü/c", "fork", "gone"]
    assert (rows["a"]["begins"], rows["a"]["tail"], rows["a"]["messages"]) == (0, 15, 6)
    assert (rows["fork"]["begins"], rows["fork"]["tail"], rows["fork"]["messages"]) == (15, 15, 0)
    assert [path for path, row in rows.items() if row["deleted"]] == ["gone"]
    assert {path: row["forks"] for path, row in rows.items() if row["forks"]} == {"a": 1}
    assert [row["earliest"] for row in rows.values()] == [0, 0, 0, 0]


def test_a_prefix_selects_names(http):
    response = http.get("/v1/log/index", params={"of": "streams", "prefix": "b ü"})
    assert [json.loads(line)["path"] for line in response.text.splitlines()] == ["b ü/c"]


def test_producers_are_listed_with_the_path_of_their_stream(http):
    (row,) = read_all(http, "producers", 10)
    topic = next(row["topic"] for row in read_all(http, "streams", 10) if row["path"] == "a")
    assert row == {"path": "a", "id": "p&q", "topic": topic, "epoch": 4, "last_seq": 2}


@pytest.mark.parametrize("of", ["events", "streams", "producers"])
def test_arrow_and_ndjson_have_the_same_rows(http, of):
    response = http.get("/v1/log/index", params={"of": of}, headers=ARROW)
    assert response.headers["content-type"] == ARROW["accept"]
    assert pa.ipc.open_stream(response.content).read_all().to_pylist() == read_all(http, of, 1000)


@pytest.mark.parametrize(
    "query", ["", "of=cats", "of=events&limit=0", "of=events&limit=10001", "of=events&limit=x", "of=events&suffix=a"]
)
def test_an_invalid_query_is_refused(http, query):
    response = http.get(f"/v1/log/index?{query}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_query")


def test_the_index_is_read_only(http):
    assert http.post("/v1/log/index?of=events").status_code == 405
