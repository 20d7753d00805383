"""The log over HTTP: every message of both protocols, in one order, page by page."""

import itertools
import json
import os
import signal
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from websockets.sync.client import connect

from mainstem.testing.server import ServerProcess
from tests.support.waits import eventually

ARROW = {"accept": "application/vnd.apache.arrow.stream"}
JSON = {"content-type": "application/json"}


class Log:
    """A server and its log."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx2.Client(base_url=url, timeout=30, trust_env=False)

    def close(self) -> None:
        self.http.close()

    def write(self, path: str, body: bytes, content_type: str = "application/json", **headers: str) -> None:
        about = {"content-type": content_type, **headers}
        self.http.put(f"/v1/stream/{path}", headers={"content-type": content_type}).raise_for_status()
        self.http.post(f"/v1/stream/{path}", headers=about, content=body).raise_for_status()

    def submit(self, partitions: list[str], *events: dict, client: str = "c") -> None:
        with connect(self.url.replace("http", "ws") + "/v1/sync") as socket:
            self._say(socket, "connect", {"client_id": client})
            drafts = [{"id": f"{client}-{e['n']}", "partitions": partitions, "event": e} for e in events]
            results = self._say(socket, "submit_events", {"events": drafts})["payload"]["results"]
            assert [result["status"] for result in results] == ["committed"] * len(events)

    @staticmethod
    def _say(socket, type_: str, payload: dict) -> dict:
        socket.send(json.dumps({"type": type_, "payload": payload, "protocol_version": "1.0", "msg_id": "m"}))
        return json.loads(socket.recv(timeout=10))

    def get(self, **query: Any) -> httpx2.Response:
        response = self.http.get("/v1/log", params=query)
        assert response.status_code == 200, response.text
        return response

    def rows(self, **query: Any) -> list[dict]:
        return [json.loads(line) for line in self.get(**query).text.splitlines()]

    def data(self, **query: Any) -> list[str]:
        return [row["data"] for row in self.rows(**query)]

    def table(self, **query: Any) -> pa.Table:
        response = self.http.get("/v1/log", params=query, headers=ARROW)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == ARROW["accept"]
        return pa.ipc.open_stream(response.content).read_all()


@pytest.fixture
def follow() -> Iterator[Callable[[str], Log]]:
    """Open logs, and close them at the end of the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(closing(Log(url)))


@pytest.fixture(params=["sqlite", "memory"])
def log(request, start_server, follow) -> Log:
    """An empty log of this test only."""
    return follow(start_server("--store", request.param).url)


@pytest.fixture(params=["sqlite", "memory"], scope="module")
def mixed(request, tmp_path_factory) -> Iterator[Log]:
    """A log that all tests read, with a few messages of both protocols."""
    data = tmp_path_factory.mktemp("log")
    with ServerProcess(data, "--store", request.param) as server, closing(Log(server.url)) as log:
        about = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
        log.write("orders/eu", b'[{"n": 1.0}, {"n":2}]', **about)
        log.write("notes", "grüß\n".encode(), "text/plain")
        log.write("blob", b"\xff\x00", "application/octet-stream")
        log.submit(["room-1", "room-2"], {"n": 7, "big": 12345678901234567890})
        log.write("orders/us", b'{"n":3}')
        yield log


def test_both_protocols_are_one_table(mixed):
    rows = mixed.rows()
    assert [row["kind"] for row in rows] == ["stream"] * 4 + ["event", "stream"]
    assert [row["committed_id"] for row in rows] == sorted(row["committed_id"] for row in rows)
    first, second, note, blob, event, last = rows
    assert (first["position"], second["position"]) == (0, 1)
    assert first["committed_id"] == second["committed_id"]
    assert first["data"] == '{"n": 1.0}'  # the exact bytes
    assert second["data"] == '{"n":2}'
    assert (first["stream"], first["producer_id"], first["content_type"]) == ("orders/eu", "p", "application/json")
    assert note["data"] == "grüß\n"
    assert b64decode(blob["data_base64"]) == b"\xff\x00"
    assert event["data"] == '{"n":7,"big":12345678901234567890}'.replace(":", ": ").replace(",", ", ")
    assert (event["id"], event["client_id"], event["partitions"]) == ("c-7", "c", ["room-1", "room-2"])
    assert (event["stream"], event["offset"], event["producer_id"]) == (None, None, None)
    assert (last["stream"], last["partitions"], last["client_id"]) == ("orders/us", None, None)


def test_an_offset_is_where_the_message_begins_in_its_stream(mixed):
    for row in mixed.rows(prefix="orders/"):
        page = mixed.http.get(f"/v1/stream/{row['stream']}", params={"offset": row["offset"]}).text
        assert page.startswith("[" + row["data"])


def test_arrow_and_ndjson_have_the_same_rows(mixed):
    table = mixed.table()
    assert table.schema.field("committed_at").type == pa.timestamp("us", tz="UTC")
    assert [field.nullable for field in table.schema][:3] == [False, False, False]
    for row, line in zip(table.to_pylist(), mixed.rows(), strict=True):
        assert row["committed_at"].isoformat().replace("+00:00", "Z") == line.pop("committed_at")
        data = row.pop("data")
        assert data == (line.pop("data").encode() if "data" in line else b64decode(line.pop("data_base64")))
        del row["committed_at"]
        assert row == line


def test_arrow_without_rows_has_its_schema(log):
    assert log.table().num_rows == 0
    assert log.table().schema.names[0] == "committed_id"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"kind": "stream"}, 5),
        ({"kind": "event"}, 1),
        ({"prefix": "orders/"}, 3),
        ({"prefix": "orders/e"}, 2),
        ({"prefix": "no"}, 1),
        ({"stream": "orders/*"}, 3),
        ({"stream": ["notes", "orders/us"]}, 2),
        ({"stream": "**", "prefix": "orders/"}, 3),
        ({"stream": "orders/**", "prefix": "notes"}, 0),
        ({"stream": "nothing/here"}, 0),
        ({"partition": "room-2"}, 1),
        ({"partition": ["room-1", "room-2"]}, 1),
        ({"partition": "room-3"}, 0),
        ({"since": 0}, 6),
        ({"before": 0}, 0),
        ({"since": 4_000_000_000_000_000}, 0),
    ],
)
def test_filters_select_the_rows(mixed, query, found):
    assert len(mixed.rows(**query)) == found
    assert mixed.table(**query).num_rows == found
    assert mixed.get(**query).headers["log-up-to-date"] == "true"


def test_only_the_requested_columns_are_returned(mixed):
    assert set(mixed.rows(columns="data,committed_id")[0]) == {"committed_id", "data"}
    assert mixed.table(columns="data,committed_id").schema.names == ["committed_id", "data"]


def test_pages_hold_every_row_once(log):
    for number in range(20):
        log.write(f"s{number % 3}", json.dumps([{"n": number, "k": k} for k in range(number % 4 + 1)]).encode())
    everything = log.rows()
    for size in (1, 300, 5_000):
        found, after = [], 0
        while True:
            page = log.get(after=after, max_bytes=size)
            found += [json.loads(line) for line in page.text.splitlines()]
            assert int(page.headers["log-next"]) > after
            after = int(page.headers["log-next"])
            if page.headers.get("log-up-to-date"):
                break
        assert found == everything
        assert after == int(page.headers["log-head"])


def test_a_range_of_ids_selects_the_rows(mixed):
    ids = sorted({row["committed_id"] for row in mixed.rows()})
    assert {row["committed_id"] for row in mixed.rows(after=ids[0], until=ids[2])} == {ids[1], ids[2]}
    page = mixed.get(after=ids[0], until=ids[2])
    assert page.headers["log-next"] == str(ids[2])
    assert page.headers["log-up-to-date"] == "true"
    assert mixed.get(after=10**9).headers["log-next"] == str(10**9)


def test_head_reports_the_bounds_of_the_log(mixed):
    about = mixed.http.get("/v1/log/head").json()
    assert (about["head"], about["lowest"], about["pruned"]) == (mixed.rows()[-1]["committed_id"], 1, 0)
    assert about["now"] >= mixed.rows()[-1]["committed_at"]
    counted = mixed.http.get("/v1/log/head", params={"counts": "true"}).json()
    assert (counted["appends"], counted["events"], counted["rows"]) == (4, 1, 6)
    ids = [row["committed_id"] for row in mixed.rows()]
    for rows, until in [(1, ids[1]), (2, ids[1]), (3, ids[2]), (100, about["head"])]:
        bounds = mixed.http.get("/v1/log/bounds", params={"rows": rows}).json()
        assert bounds["until"] == until
        assert bounds["rows"] == len([number for number in ids if number <= until])
    assert mixed.http.get("/v1/log/bounds", params={"after": ids[0], "bytes": 1}).json()["until"] == ids[2]


@pytest.mark.parametrize(
    "query",
    ["after=x", "after=-1", "kind=all", "what=1", "after=1&after=2", "columns=secret", "live=long-poll",
     "stream=a&partition=b", "kind=event&prefix=a", "partition=", "stream=", "since=1.5"],
)  # fmt: skip
def test_invalid_queries_are_refused(mixed, query):
    response = mixed.http.get(f"/v1/log?{query}")
    assert (response.status_code, response.json()["code"]) in [(400, "invalid_query"), (400, "bad_request")]


@pytest.mark.parametrize("query", ["", "rows=0", "bytes=x", "rows=1&what=2"])
def test_invalid_bounds_are_refused(mixed, query):
    assert mixed.http.get(f"/v1/log/bounds?{query}").status_code == 400


def test_other_formats_and_methods_are_refused(mixed):
    response = mixed.http.get("/v1/log", headers={"accept": "text/html"})
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")
    assert mixed.http.post("/v1/log").status_code == 405
    assert mixed.http.get("/v1/log/nothing").status_code == 404


# Tailing


def read_events(lines: Iterator[str], number: int) -> list[tuple[str, list[str]]]:
    """Return the next events of an SSE response: their names, and their data lines."""
    events: list[tuple[str, list[str]]] = []
    name, data = "", []
    for line in lines:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:])
        elif not line and name:
            events.append((name, data))
            name, data = "", []
            if len(events) == number:
                break
    return events


def test_a_tail_gets_existing_and_new_rows(log, follow):
    log.write("orders/eu", b'[{"n":1},{"n":2}]')
    log.write("notes", b"3")
    with log.http.stream("GET", "/v1/log", params={"live": "sse", "prefix": "orders/"}) as response:
        lines = response.iter_lines()
        (first, rows), (second, control) = read_events(lines, 2)
        assert (first, second) == ("data", "control")
        assert [json.loads(row)["data"] for row in rows] == ['{"n":1}', '{"n":2}']
        assert json.loads(control[0])["upToDate"] is True
        follow(log.url).write("orders/eu", b'{"n":4}')
        events = read_events(lines, 2)
        assert [json.loads(row)["data"] for name, rows in events if name == "data" for row in rows] == ['{"n":4}']
    place = json.loads(control[0])["next"]
    headers = {"last-event-id": str(place)}
    with log.http.stream("GET", "/v1/log", params={"live": "sse", "until": place + 9}, headers=headers) as response:
        (_, rows), _ = read_events(response.iter_lines(), 2)
    assert [json.loads(row)["data"] for row in rows] == ['{"n":4}']


# Retention


def test_rows_that_retention_erased_are_reported(log):
    log.submit(["room"], *({"n": number} for number in range(5)))
    ids = [row["committed_id"] for row in log.rows()]
    log.http.post("/v1/prune", json={"floors": {"room": ids[2]}}).raise_for_status()
    eventually(lambda: len(log.rows()) == 2)
    assert log.http.get("/v1/log/head").json()["pruned"] == ids[2]


def test_a_deleted_stream_is_not_reported_as_a_loss(log):
    log.write("gone", b"1")
    log.http.delete("/v1/stream/gone").raise_for_status()
    assert log.http.get("/v1/log/head").json()["pruned"] == 0


# The process that encodes the pages


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def test_an_exporter_that_dies_is_replaced(start_server, follow):
    server = start_server()
    log = follow(server.url)
    log.write("s", b"[1,2,3]")
    assert log.data() == ["1", "2", "3"]
    (worker,) = children(server.pid)
    os.kill(worker, signal.SIGKILL)
    response = log.http.get("/v1/log")
    assert response.status_code in (200, 503)  # the server may have noticed before the request
    assert log.data() == ["1", "2", "3"]


def test_an_exporter_ends_with_its_server(start_server, follow):
    server = start_server()
    follow(server.url).rows()
    (worker,) = children(server.pid)
    server.kill()
    status = Path(f"/proc/{worker}/status")
    eventually(lambda: not status.exists() or "State:\tZ" in status.read_text())


def test_the_log_survives_a_kill(start_server, follow):
    server = start_server()
    follow(server.url).write("s", b"[1,2,3]")
    before = follow(server.url).rows()
    server.kill()
    server.restart()
    assert follow(server.url).rows() == before


# Dividing a range, and looking up ids


def read_part(log: Log, begin: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    rows = [(row["committed_id"], row["position"]) for row in log.rows(position=0, columns="committed_id,position")]
    return [(id_, position) for id_, position in rows if begin <= (id_ - 1, position) < end]


def test_cuts_divide_a_range_by_bytes_and_a_large_record_by_messages(log):
    for number in range(20):
        log.write("small", json.dumps({"n": number}).encode())
    log.write("large", json.dumps([{"n": number, "text": "x" * 100} for number in range(400)]).encode())
    reply = log.http.get("/v1/log/cuts", params={"parts": 4}).json()
    assert (reply["rows"], reply["exact"]) == (420, True)
    ends = [(0, 0), *((cut["after"], cut["position"]) for cut in reply["cuts"]), (10**6, 0)]
    sizes = [len(read_part(log, begin, end)) for begin, end in itertools.pairwise(ends)]
    assert len(sizes) == 4
    assert sum(sizes) == 420
    assert max(sizes) < 140
    of_one = log.http.get("/v1/log/cuts", params={"parts": 2, "stream": "small"}).json()
    assert of_one["rows"] == 20
    assert [cut["position"] for cut in of_one["cuts"]] == [0]
    assert log.http.get("/v1/log/cuts", params={"parts": 4, "min_bytes": 10**6}).json()["cuts"] == []
    exactly = log.http.get("/v1/log/cuts", params={"max_rows": 50}).json()["cuts"]
    ends = [(0, 0), *((cut["after"], cut["position"]) for cut in exactly), (10**6, 0)]
    assert [len(read_part(log, *pair)) for pair in itertools.pairwise(ends)] == [50] * 8 + [20]


@pytest.mark.parametrize(
    "query", ["parts=0", "parts=10001", "max_rows=0", "max_bytes=0", "what=1", "after=x", "since=1"]
)
def test_invalid_cuts_are_refused(mixed, query):
    assert mixed.http.get(f"/v1/log/cuts?{query}").status_code == 400


def test_an_id_is_found_by_time_and_by_offset(mixed):
    rows = mixed.rows()
    head = mixed.http.get("/v1/log/head").json()["head"]

    def find(**query: Any) -> dict[str, Any]:
        return mixed.http.get("/v1/log/id", params=query).raise_for_status().json()

    for row in rows:
        found = find(time=row["committed_at"], after=row["committed_id"] - 1)
        assert (found["committed_id"], found["committed_at"]) == (row["committed_id"], row["committed_at"])
        assert 0 <= found["age_s"] < 600
        if row["stream"]:
            assert find(stream=row["stream"], offset=row["offset"])["committed_id"] == row["committed_id"]
    assert find(time="2000-01-01T00:00:00Z")["committed_id"] == 1
    assert find(time="2100-01-01T00:00:00Z") == {"committed_id": head + 1, "committed_at": None, "age_s": None}
    assert find(after=head)["committed_id"] == head + 1
    end = mixed.http.head("/v1/stream/notes").headers["stream-next-offset"]
    assert find(stream="notes", offset=end)["committed_id"] == head + 1
    for query, status in [
        ({"time": "yesterday"}, 400),
        ({"stream": "notes"}, 400),
        ({"stream": "notes", "offset": "now"}, 400),
        ({"stream": "notes", "offset": "0000000000000009_0000000000000000"}, 400),
        ({"stream": "nothing", "offset": end}, 404),
    ]:
        assert mixed.http.get("/v1/log/id", params=query).status_code == status
