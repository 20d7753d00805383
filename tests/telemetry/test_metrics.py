"""GET /metrics of a real server: who may read it, and whether its numbers are true."""

import logging
import re
import subprocess
import sys

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families

from mainstem import create_app
from mainstem.testing.server import ServerProcess
from tests.support.plain_http import connect, exchange, head, receive
from tests.support.waits import eventually

JSON = {"content-type": "application/json"}


def scrape(client: httpx2.Client) -> dict[tuple[str, ...], float]:
    """Return the values of all samples by name and sorted label values."""
    reply = client.get("/metrics")
    assert reply.status_code == 200
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def requests_total(route: str, method: str, status: int, code: str = "") -> tuple[str, ...]:
    labels = (f"code={code}", f"method={method}", f"route={route}", f"status={status}")
    return "mainstem_http_requests_total", *labels


@pytest.fixture
def own_server(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture
def own_client(own_server):
    with httpx2.Client(base_url=own_server.url, trust_env=False) as client:
        yield client


def test_the_numbers_are_those_of_what_clients_did(own_client):
    client = own_client
    client.put("/v1/stream/secret-name", headers=JSON)
    for number in range(5):
        client.post("/v1/stream/secret-name", headers=JSON, content=b'"%d"' % number)
    client.get("/v1/stream/secret-name")
    client.get("/v1/stream/missing")
    client.post("/v1/stream/secret-name", headers={"content-type": "text/plain"}, content=b"x")
    found = scrape(client)
    stream = "/v1/stream/{path}"
    assert found[requests_total(stream, "PUT", 201)] == 1
    assert found[requests_total(stream, "POST", 204)] == 5
    assert found[requests_total(stream, "GET", 200)] == 1
    assert found[requests_total(stream, "GET", 404, "stream_not_found")] == 1
    assert found[requests_total(stream, "POST", 409, "content_type_mismatch")] == 1
    assert found["mainstem_http_request_duration_seconds_count", "method=POST", f"route={stream}"] == 6
    assert found["mainstem_log_head",] == 6
    assert found["mainstem_log_records_total", "kind=append"] == 5
    assert found["mainstem_log_rejected_commands_total", "code=content_type_mismatch"] == 1
    assert found["mainstem_log_commits_total",] == found["mainstem_store_sync_duration_seconds_count",] >= 6
    assert found["mainstem_store_bytes", "part=database"] > 0
    assert found["mainstem_store_disk_free_bytes",] > 0
    assert found["process_resident_memory_bytes",] > 10_000_000
    assert "secret-name" not in client.get("/metrics").text


def test_live_readers_and_connections_are_counted_while_they_are_there(own_server, own_client):
    own_client.put("/v1/stream/s", headers=JSON)
    sse, poll = connect(own_server.address), connect(own_server.address)
    with sse, poll:
        sse.sendall(head(b"GET", b"/v1/stream/s?offset=now&live=sse"))
        poll.sendall(head(b"GET", b"/v1/stream/s?offset=now&live=long-poll"))
        eventually(lambda: scrape(own_client).get(("mainstem_live_readers", "kind=sse")) == 1)
        eventually(lambda: scrape(own_client).get(("mainstem_live_readers", "kind=long-poll")) == 1)
        assert scrape(own_client)["mainstem_http_connections", "kind=http"] == 3
        own_client.post("/v1/stream/s", headers=JSON, content=b"1")
        assert receive(poll).body == b"[1]"
        found = scrape(own_client)
        assert found["mainstem_live_readers", "kind=long-poll"] == 0
        assert found["mainstem_live_frames_total", "kind=long-poll"] == 1
        eventually(lambda: scrape(own_client)["mainstem_live_frames_total", "kind=sse"] >= 1)
    eventually(lambda: scrape(own_client)["mainstem_live_readers", "kind=sse"] == 0)
    route = "/v1/stream/{path}?live=sse"
    eventually(lambda: scrape(own_client).get(requests_total(route, "GET", 200)) == 1)


def test_malformed_requests_are_counted_too(own_server, own_client):
    assert exchange(own_server.address, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").status == 400
    assert scrape(own_client)[requests_total("invalid", "invalid", 400, "repeated_header")] == 1


def test_handshakes_of_websockets_are_counted(own_server, own_client):
    handshake = head(
        b"GET", b"/v1/sync", b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    )  # fmt: skip
    with connect(own_server.address) as connection:
        connection.sendall(handshake)
        assert b" 101 " in connection.recv(1000)
        found = scrape(own_client)
        assert found[requests_total("/v1/sync", "GET", 101)] == 1
        assert found["mainstem_sync_sessions",] == 1
        assert found["mainstem_http_connections", "kind=websocket"] == 1


def test_open_metrics_is_served_to_those_who_prefer_it(own_client):
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
    reply = own_client.get("/metrics", headers={"accept": accept})
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(parse_open_metrics(reply.text))) > 50
    assert own_client.head("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_labels_stay_bounded_whatever_clients_ask_for(own_client):
    for number in range(300):
        own_client.get(f"/v1/stream/{number}?live=x{number}")
        own_client.get(f"/nothing/{number}")
    text = own_client.get("/metrics").text
    assert len(re.findall(r"^mainstem_http_requests_total\{", text, re.MULTILINE)) < 10


def test_metrics_can_be_turned_off(tmp_path):
    with ServerProcess(tmp_path / "data", "--metrics", "off") as server:
        reply = exchange(server.address, head(b"GET", b"/metrics", b"Connection: close"))
        assert (reply.status, reply.problem["code"]) == (404, "not_found")


def test_a_caller_from_elsewhere_is_refused_unless_metrics_are_on(tmp_path):
    """A trusted proxy on this machine names the client."""
    request = head(b"GET", b"/metrics", b"X-Forwarded-For: 203.0.113.9", b"Connection: close")
    with ServerProcess(tmp_path / "data") as server:
        reply = exchange(server.address, request)
        assert (reply.status, reply.problem["code"]) == (403, "local_only")
    with ServerProcess(tmp_path / "data", "--metrics", "on") as server:
        assert exchange(server.address, request).status == 200


def test_a_page_of_another_site_may_not_read_metrics(own_server):
    request = head(b"GET", b"/metrics", b"Origin: https://evil.example", b"Connection: close")
    reply = exchange(own_server.address, request)
    assert (reply.status, reply.problem["code"]) == (403, "origin_not_allowed")


async def test_warnings_and_errors_of_the_log_are_counted(tmp_path):
    app = create_app(data=str(tmp_path / "data"))
    async with app.lifespan():
        logging.getLogger("mainstem.anything").error("a fault")
        logging.getLogger("mainstem.anything").info("no fault")
        assert app.metrics.log_lines.of("error").value == 1
    logging.getLogger("mainstem.anything").error("after the end")
    assert app.metrics.log_lines.of("error").value == 1


EMBEDDING = """
import asyncio, contextlib, logging
from mainstem import create_app

async def main():
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(create_app(store="memory").lifespan())
        logging.getLogger("mainstem.anything").error("a fault")
        logging.basicConfig(format="%(levelname)s %(message)s")
        logging.getLogger("mainstem.anything").error("another one")
    logging.getLogger("mainstem.anything").error("after the end")

asyncio.run(main())
"""


def test_an_app_in_a_program_that_does_not_configure_logging_prints_errors_once():
    program = subprocess.run([sys.executable, "-c", EMBEDDING], capture_output=True, text=True, timeout=60, check=True)
    assert program.stderr.splitlines() == ["a fault", "ERROR another one", "ERROR after the end"]


async def test_an_embedded_app_has_metrics_too(tmp_path):
    app = create_app(data=str(tmp_path / "data"))
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 5))
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://app") as client:
        assert (await client.put("/v1/stream/a", headers=JSON)).status_code == 201
        missing = await client.get("/v1/stream/b", headers={"x-request-id": "mine"})
        assert missing.headers["x-request-id"] == missing.json()["request_id"] == "mine"
        text = (await client.get("/metrics")).text
    assert re.search(r'requests_total\{route="/v1/stream/\{path\}",method="PUT",status="201",code=""\} 1\n', text)
    assert re.search(r'status="404",code="stream_not_found"\} 1\n', text)
