"""A run over the whole HTTP API of real servers: all that they do is described, and all that is described happens."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_websocket

from mainstem import limits
from mainstem.server.descriptions.openapi import build_openapi
from mainstem.server.settings import Settings
from mainstem.testing.plugin import StartServer
from tests.descriptions.exchanges import Description, Recorder, check_all
from tests.support.fixtures import ConnectTo, OpenLog, Receive, StartThread
from tests.support.issuers import bearer, write_secret

SUBSCRIPTIONS = "/v1/stream/__ds/subscriptions"
TEXT = {"content-type": "text/plain"}
JSON = {"content-type": "application/json"}
CLOSE = {"stream-closed": "true"}
START = "0000000000000000_0000000000000000"
FOREIGN = {"origin": "https://elsewhere.example"}
ARROW = {"accept": "application/vnd.apache.arrow.stream"}
ROUND = {"job": "audit", "name": "a", "round": 1, "started_at": "2026-05-01T00:00:00Z", "duration_s": 1.5}
TWICE = [("last-event-id", "1"), ("last-event-id", "2")]

UNSEEN = {
    "503": "needs a store that fails or a server that stops; tests/crash has those",
}
"""Statuses that this run does not provoke, and why."""


class Servers(NamedTuple):
    """How a scenario starts servers, and what it does beside HTTP."""

    start: StartThread
    start_process: StartServer
    connect: ConnectTo
    open_log: OpenLog
    receive: Receive

    def record(self, **settings) -> Recorder:
        """Start a server without tokens, and return a recorder for it."""
        options = {"max_body_bytes": 8 * limits.MIB, "long_poll_ms": 100, "allow_local_webhooks": True}
        return Recorder(self.connect(self.start(**(options | settings))))


def test_real_traffic_is_described_and_everything_described_is_seen(
    monkeypatch, start_thread, start_server, connect_to, open_log, receive
):
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES_MAX", limits.KIB)
    monkeypatch.setattr(limits, "CONTROL_BODY_BYTES_MAX", 2 * limits.KIB)
    servers = Servers(start_thread, start_server, connect_to, open_log, receive)
    described, used, faults = set(), set(), []
    for scenario in SCENARIOS:
        recorder, document = scenario(servers)
        description = Description(document)
        faults += [f"{scenario.__name__}: {fault}" for fault in check_all(description, recorder.exchanges)]
        described |= description.list_uses()
        used |= description.used
    assert not faults, "\n".join(faults)
    unseen = sorted(f"{use.method} {use.path} {use.what}" for use in described - used if use.what not in UNSEEN)
    assert not unseen, "described, but never seen:\n" + "\n".join(unseen)


def test_the_excuses_are_needed():
    document = build_openapi(Settings(), guard_hosts=True)
    assert set(UNSEEN) <= {use.what for use in Description(document).list_uses()}


Run = tuple[Recorder, dict]
"""What a scenario did, and the document of the server that it did it with."""


def read_document(recorder: Recorder) -> dict:
    return recorder.client.get("/openapi.json").json()


BODIES: dict[str, dict[str, Any]] = {
    "createStream": {"content": b"x", "headers": TEXT},
    "appendToStream": {"content": b"x", "headers": TEXT},
    "createSubscription": {"json": {"type": "pull-wake", "wake_stream": "sweep/wakes", "pattern": "sweep/*"}},
    "linkStreams": {"json": {"streams": ["sweep/s"]}},
    "claimSubscription": {"json": {"worker": "w"}},
    "ackSubscription": {"json": {"wake_id": "w", "generation": 1}},
    "callbackSubscription": {"json": {"wake_id": "w", "generation": 1}},
    "releaseSubscription": {"json": {"wake_id": "w", "generation": 1}},
    "putStreamSnapshot": {"json": {"committed_id": 0, "offset": START, "state": {}}},
    "putPartitionSnapshot": {"json": {"committed_id": 0, "state": {}}},
    "reportRound": {"json": ROUND},
    "prune": {"json": {"floors": {"sweep": 0}}},
    "signUrl": {"json": {"stream": "sweep/s"}},
    "injectFault": {"json": {"path": "nothing"}},
}
QUERIES = {
    "followStreams": "?live=sse&stream=sweep/s",
    "measureLog": "?rows=1",
    "readLogIndex": "?of=streams",
    "findOffset": "?time=2026-01-31T12:00:00Z",
}


def fill_path(template: str, name: str) -> str:
    """Return a path of a template, in which a stream is `name/s` and everything else `name`."""
    path = template.replace("{path}", name + "/s").replace("{session}", "999999999")
    return path.replace("{id}", name).replace("{name}", name)


def sweep(recorder, document, query="", **extra):
    """Send one plain request to every operation; yields the operation and its reply."""
    for method, template, operation in Description(document).operations():
        if query and method == "OPTIONS":
            continue  # a preflight ignores the query
        id_ = operation.get("operationId", "")
        path = fill_path(template, "sweep")
        options = dict(BODIES.get(id_, {}))
        options["headers"] = [*options.get("headers", {}).items(), *extra.get("headers", [])]
        joined = QUERIES.get(id_, "") + ("&" if query and id_ in QUERIES else "?" if query else "") + query
        yield operation, recorder.request(method, path + joined, **options)


# Streams


def run_streams(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    plain, messages, closed = "/v1/stream/plain", "/v1/stream/messages", "/v1/stream/closed"
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "example.com"}

    ask("PUT", plain, 201, headers=TEXT | forwarded, content=b"hello")
    ask("PUT", plain, 200, headers=TEXT)
    ask("PUT", "/v1/stream/bytes", 201, content=bytes(range(256)))
    ask("PUT", messages, 201, headers=JSON, json=[{"n": 1}, {"n": 2}])
    ask("PUT", closed, 201, headers=TEXT | CLOSE, content=b"end")
    ask("PUT", closed, 200, headers=TEXT | CLOSE)
    ask("PUT", "/v1/stream/brief", 201, headers=TEXT | {"stream-ttl": "60"})
    ask("PUT", "/v1/stream/dated", 201, headers=TEXT | {"stream-expires-at": "2199-01-01T00:00:00Z"})
    ask("PUT", "/v1/stream/kept", 201, headers=JSON | {"stream-retention": "max-messages=2"})
    source = {"stream-forked-from": messages}
    ask("PUT", "/v1/stream/fork", 201, headers=source)
    part = {"stream-fork-offset": START, "stream-fork-sub-offset": "1"}
    ask("PUT", "/v1/stream/part", 201, headers=source | part)

    ask("PUT", plain, 409, headers=JSON)
    ask("PUT", "/v1/stream/a//b", 400, headers=TEXT)
    ask("PUT", "/v1/stream/s", 400, headers=TEXT | {"stream-ttl": "1", "stream-expires-at": "2199-01-01T00:00:00Z"})
    ask("PUT", "/v1/stream/s", 404, headers={"stream-forked-from": "/v1/stream/missing"})
    ask("PUT", "/v1/stream/s", 413, content=b"x" * (8 * limits.MIB + 1))
    ask("PUT", "/v1/stream/s", 409, headers=TEXT | source)

    # Appending
    ask("POST", plain, 204, headers=TEXT | {"stream-seq": "a"}, content=b" world")
    ask("POST", plain, 204, headers=TEXT | {"if-match": ask("HEAD", plain).headers["stream-next-offset"]}, content=b"!")
    ask("POST", messages, 204, json={"n": 3})
    producer = {"producer-id": "p", "producer-epoch": "1", "producer-seq": "0"}
    ask("POST", plain, 200, headers=TEXT | producer, content=b"once")
    ask("POST", plain, 204, headers=TEXT | producer, content=b"once")
    ask("PUT", "/v1/stream/ending", 201, headers=TEXT)
    ask("POST", "/v1/stream/ending", 200, headers=TEXT | producer | CLOSE, content=b"last")
    ask("POST", closed, 204, headers=CLOSE)
    ask("POST", plain, 400, headers=TEXT)
    ask("POST", plain, 400, content=b"x")
    ask("POST", plain, 400, headers=TEXT | {"if-match": "nonsense"}, content=b"x")
    ask("POST", plain, 400, headers=TEXT | producer | {"producer-epoch": "2", "producer-seq": "1"}, content=b"x")
    ask("POST", plain, 400, headers=[*TEXT.items(), *TEXT.items()], content=b"x")
    ask("POST", messages, 400, headers=JSON, content=b"[]")
    ask("POST", messages, 400, headers=JSON, content=b"{")
    ask("POST", plain, 403, headers=TEXT | producer | {"producer-epoch": "0"}, content=b"x")
    ask("POST", "/v1/stream/missing", 404, headers=TEXT, content=b"x")
    ask("POST", closed, 409, headers=TEXT, content=b"x")
    ask("POST", plain, 409, json={})
    ask("POST", plain, 409, headers=TEXT | producer | {"producer-seq": "5"}, content=b"x")
    ask("POST", plain, 409, headers=TEXT | {"stream-seq": "a"}, content=b"x")
    ask("POST", plain, 412, headers=TEXT | {"if-match": START}, content=b"x")
    ask("POST", plain, 413, headers=TEXT, content=b"x" * (8 * limits.MIB + 1))

    # Reading
    page = ask("GET", plain, 200)
    end = page.headers["stream-next-offset"]
    ask("GET", plain, 304, headers={"if-none-match": page.headers["etag"]})
    done = ask("GET", closed, 200)
    ask("GET", closed, 304, headers={"if-none-match": done.headers["etag"]})
    ask("GET", plain, 200, params={"offset": "now"})
    ask("GET", messages, 200, params={"tail": "1"})
    ask("GET", plain, 200, params={"offset": START, "live": "long-poll", "cursor": "7"})
    ask("GET", plain, 200, params={"live": "false"})
    ask("GET", plain, 204, params={"offset": end, "live": "long-poll"})
    ask("GET", closed, 204, params={"offset": done.headers["stream-next-offset"], "live": "long-poll"})
    ask("PUT", "/v1/stream/large", 201, headers=TEXT, content=b"x" * 10_000)
    ask("GET", "/v1/stream/large", 200, headers={"accept-encoding": "gzip"})
    ask("PUT", "/v1/stream/page", 201, headers={"content-type": "text/html"}, content=b"<p>")
    ask("GET", "/v1/stream/page", 200)
    live = {"offset": "-1", "live": "sse"}
    assert {event.name for event in recorder.follow(messages, 2, params=live)} == {"data", "control"}
    recorder.follow("/v1/stream/bytes", 2, params=live)
    recorder.follow(plain, 1, params=live, headers={"last-event-id": end})
    ask("GET", plain, 400, params={"offset": "nonsense"})
    ask("GET", plain, 400, params={"live": "sse"})
    ask("GET", "/v1/stream/missing", 404)

    # Describing and deleting
    for name in ("plain", "closed", "brief", "dated", "kept"):
        ask("HEAD", f"/v1/stream/{name}", 200)
    ask("HEAD", "/v1/stream/missing", 404)
    ask("HEAD", "/v1/stream/a%2F%2Fb", 400)
    ask("DELETE", "/v1/stream/brief", 204)
    ask("DELETE", "/v1/stream/brief", 404)
    ask("DELETE", "/v1/stream/a%2F%2Fb", 400)
    ask("DELETE", messages, 204)
    for method in ("GET", "HEAD", "DELETE"):
        ask(method, messages, 410)
    ask("POST", messages, 410, json={})
    ask("PUT", "/v1/stream/late", 409, headers={"stream-forked-from": messages})
    ask("OPTIONS", plain, 204)

    # What is no longer kept
    ask("PUT", "/v1/stream/trimmed", 201, headers=JSON, json=[1])
    middle = ask("POST", "/v1/stream/trimmed", 204, json=2).headers["stream-next-offset"]
    ask("POST", "/v1/stream/trimmed", 204, json=3)
    ask("POST", "/v1/prune", 202, json={"streams": {"trimmed": middle}})
    ask("GET", "/v1/stream/trimmed", 410, params={"offset": START})
    etag = ask("GET", "/v1/stream/trimmed", 200).headers["etag"]
    ask("GET", "/v1/stream/trimmed", 304, headers={"if-none-match": etag})
    ask("PUT", "/v1/stream/t2", 410, headers={"stream-forked-from": "/v1/stream/trimmed", "stream-fork-offset": START})

    # Lists
    listed = {"prefix": "p", "after": "a", "limit": "1"}
    ask("GET", "/v1/streams", 200, params=listed)
    ask("GET", "/v1/streams", 200, params={"search": "LAIN"})
    ask("GET", "/v1/streams", 200)
    ask("GET", "/v1/streams", 400, params={"limit": "0"})

    # Times
    found = "/v1/stream-offset/"
    ask("GET", found + "plain", 200, params={"time": "1990-01-01T00:00:00Z"})
    ask("GET", found + "plain", 200, params={"time": "2999-01-01T00:00:00Z"})
    ask("GET", found + "plain", 400, params={"time": "now"})
    ask("GET", found + "missing", 404, params={"time": "1990-01-01T00:00:00Z"})
    ask("GET", found + "messages", 410, params={"time": "1990-01-01T00:00:00Z"})

    # Sets
    members = {"live": "sse", "stream": ["plain", "closed"]}
    first = recorder.follow("/v1/stream-set", 2, params=members | {"offset": "-1"})
    recorder.follow("/v1/stream-set", 1, params={"live": "sse", "stream": ["plain", "large"], "resume": first[0].id})
    recorder.follow(
        "/v1/stream-set", 1, params={"live": "sse", "stream": "plain"}, headers={"last-event-id": first[0].id}
    )
    ask("GET", "/v1/stream-set", 400)
    ask("GET", "/v1/stream-set", 404, params={"live": "sse", "stream": "missing"})
    ask("GET", "/v1/stream-set", 410, params={"live": "sse", "stream": "messages"})
    return recorder, read_document(recorder)


def run_partitions_snapshots_and_pruning(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    log = servers.open_log(str(recorder.client.base_url).rstrip("/"))
    log.submit("room", [{"n": n} for n in range(3)])

    # Partitions
    room = "/v1/partition/room"
    page = ask("GET", room, 200)
    end = page.headers["stream-next-offset"]
    assert len(page.json()) == 3
    ask("GET", room, 304, headers={"if-none-match": page.headers["etag"]})
    ask("GET", room, 200, params={"offset": "now"})
    ask("GET", room, 200, params={"offset": "-1", "live": "long-poll", "cursor": "1"})
    ask("GET", room, 204, params={"offset": end, "live": "long-poll"})
    recorder.follow(room, 2, params={"offset": "-1", "live": "sse"})
    recorder.follow(room, 1, params={"offset": "-1", "live": "sse"}, headers={"last-event-id": end})
    ask("HEAD", room, 200, params={"offset": "-1"})
    beyond = "0000000000000000_0000000000099999"
    ask("GET", room, 400, params={"offset": beyond})
    ask("HEAD", room, 400, params={"offset": beyond})

    ask("GET", "/v1/partitions", 200, params={"prefix": "r", "after": "a", "limit": "1"})
    ask("GET", "/v1/partitions", 200)
    ask("GET", "/v1/partitions", 400, params={"limit": "0"})

    # Their snapshots
    snapshot = "/v1/snapshot/room"
    ask("GET", snapshot, 404)
    ask("HEAD", snapshot, 404)
    ask("PUT", snapshot, 204, json={"committed_id": 2, "state": {"n": [1]}})
    ask("GET", snapshot, 200)
    ask("HEAD", snapshot, 200)
    ask("PUT", snapshot, 400, json={"committed_id": 99_999, "state": {}})
    ask("PUT", snapshot, 413, json={"committed_id": 2, "state": "x" * 2000})
    ask("GET", "/v1/snapshot/%FF", 400)
    ask("HEAD", "/v1/snapshot/%FF", 400)

    # Snapshots of streams
    ask("PUT", "/v1/stream/s", 201, json=[1, 2])
    ask("PUT", "/v1/stream/text", 201, headers=TEXT)
    of_stream = "/v1/stream-snapshot/s"
    ask("GET", of_stream, 404)
    ask("HEAD", of_stream, 404)
    at = ask("HEAD", "/v1/stream/s", 200).headers["stream-next-offset"]
    ask("PUT", of_stream, 204, json={"committed_id": 1, "offset": at, "state": 3})
    ask("GET", of_stream, 200)
    ask("HEAD", of_stream, 200)
    body = {"committed_id": 1, "offset": START, "state": 3}
    ask("PUT", of_stream, 400, json=body | {"committed_id": 99_999})
    ask("PUT", of_stream, 413, json=body | {"state": "x" * 2000})
    ask("PUT", "/v1/stream-snapshot/missing", 404, json=body)
    ask("PUT", "/v1/stream-snapshot/text", 409, json=body)
    ask("PUT", "/v1/stream/of-s", 201, headers={"stream-forked-from": "/v1/stream/s"})
    ask("DELETE", "/v1/stream/s", 204)
    for method in ("GET", "HEAD", "PUT"):
        ask(method, of_stream, 410, **({"json": body} if method == "PUT" else {}))
    for method in ("GET", "HEAD"):
        ask(method, "/v1/stream-snapshot/a%2F%2Fb", 400)

    # Pruning
    ask("POST", "/v1/prune", 202, json={"floors": {"room": 2}})
    ask("GET", room, 410, params={"offset": START})
    ask("HEAD", room, 410, params={"offset": START})
    ask("POST", "/v1/prune", 400, json={})
    ask("POST", "/v1/prune", 404, json={"streams": {"missing": START}})
    ask("POST", "/v1/prune", 410, json={"streams": {"s": START}})
    ask("POST", "/v1/prune", 413, json={"floors": {"x" * 3000: 1}})
    return recorder, read_document(recorder)


def run_jobs(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    ask("GET", "/v1/jobs", 200)
    ask("POST", "/v1/jobs", 204, json=ROUND)
    facts = {"rows": 5, "bytes": 6, "position": 1, "lag": 1, "faults": 2, "error": "broken", "details": {"files": 3}}
    ask("POST", "/v1/jobs", 204, json=ROUND | {"name": "b"} | facts)
    ask("GET", "/v1/jobs", 200)
    ask("POST", "/v1/jobs", 400, json=ROUND | {"round": -1})
    ask("POST", "/v1/jobs", 413, json=ROUND | {"error": "x" * limits.JOB_REPORT_BYTES_MAX})
    ask("POST", "/v1/stream/_mainstem/jobs", 204, headers=CLOSE)
    ask("POST", "/v1/jobs", 409, json=ROUND | {"name": "c"})
    return recorder, read_document(recorder)


def run_callers_and_sessions(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    assert ask("GET", "/v1/whoami", 200).json()["admin"]
    for method, path in (("PUT", "/v1/cookie"), ("DELETE", "/v1/cookie"), ("POST", "/v1/signed-urls")):
        ask(method, path, 409)
    url = str(recorder.client.base_url).rstrip("/")
    with connect_websocket(url.replace("http", "ws") + "/v1/sync") as socket:
        (session,) = ask("GET", "/v1/sessions", 200, params={"after": "0", "limit": "1"}).json()["sessions"]
        ask("DELETE", f"/v1/sessions/{session['session']}", 204)
        with pytest.raises(ConnectionClosed, match="disconnected by an administrator"):
            socket.recv(timeout=10)
    ask("GET", "/v1/sessions", 400, params={"limit": "0"})
    ask("DELETE", "/v1/sessions/999999999", 404)
    return recorder, read_document(recorder)


def run_the_log(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    log = servers.open_log(str(recorder.client.base_url).rstrip("/"))
    ask("PUT", "/v1/stream/orders/1", 201, json=[1, 2, 3])
    ask("PUT", "/v1/stream/octets", 201, content=b"\xff")
    ask(
        "POST",
        "/v1/stream/octets",
        200,
        content=b"y",
        headers={
            "content-type": "application/octet-stream",
            "producer-id": "p",
            "producer-epoch": "0",
            "producer-seq": "0",
        },
    )
    log.submit("room", [{"n": n} for n in range(2)])

    ask("GET", "/v1/log", 200)
    ask("GET", "/v1/log", 200, headers=ARROW)
    ask("GET", "/v1/log", 200, params={"after": "0", "until": "2", "max_bytes": "1", "kind": "stream", "prefix": "o"})
    ask(
        "GET",
        "/v1/log",
        200,
        params={"stream": ["orders/*", "octets"], "since": "0", "before": str(limits.INTEGER_MAX)},
    )
    ask("GET", "/v1/log", 200, params={"partition": "room", "columns": "committed_id,data"})
    recorder.follow("/v1/log", 2, params={"live": "sse"})
    recorder.follow("/v1/log", 1, params={"live": "sse"}, headers={"last-event-id": "1"})
    ask("PUT", "/v1/stream/wide", 201, json=["x" * limits.MIB] * 6)
    wide = ask("GET", "/v1/log", 200, params={"position": "0", "columns": "position,data", "prefix": "wide"})
    assert "log-position" in wide.headers
    ask("GET", "/v1/log", 400, params={"unknown": "1"})
    ask("GET", "/v1/log", 406, headers={"accept": "text/html"})

    ask("GET", "/v1/log/head", 200)
    ask("GET", "/v1/log/head", 200, params={"counts": "true"})
    ask("GET", "/v1/log/head", 200, params={"kind": "stream", "prefix": "a", "stream": "a/**"})
    ask("GET", "/v1/log/head", 200, params={"partition": "a"})
    ask("GET", "/v1/log/head", 400, params={"counts": "2"})
    ask("GET", "/v1/log/bounds", 200, params={"after": "0", "until": "9", "rows": "2"})
    ask("GET", "/v1/log/bounds", 200, params={"bytes": "2"})
    ask("GET", "/v1/log/bounds", 400)
    ask("GET", "/v1/log/cuts", 200, params={"parts": "2", "stream": ["wide"], "max_rows": "2", "until": "9"})
    ask("GET", "/v1/log/cuts", 200, params={"after": "0", "min_bytes": "1", "max_bytes": "1000000", "prefix": "wide"})
    ask("GET", "/v1/log/cuts", 200, params={"partition": "room", "kind": "event"})
    ask("GET", "/v1/log/cuts", 400, params={"parts": "0"})
    ask("GET", "/v1/log/id", 200, params={"after": "1", "time": "2026-01-02T03:04:05Z"})
    ask("GET", "/v1/log/id", 200, params={"after": "1000000"})
    ask("GET", "/v1/log/id", 200, params={"stream": "wide", "offset": "0000000000000000_0000000000000000"})
    ask("GET", "/v1/log/id", 400, params={"stream": "wide"})
    ask("GET", "/v1/log/id", 404, params={"stream": "nothing", "offset": "0000000000000000_0000000000000000"})
    for of in ("events", "streams", "producers"):
        ask("GET", "/v1/log/index", 200, params={"of": of})
    ask("GET", "/v1/log/index", 200, params={"of": "streams", "limit": "1", "after": "a", "prefix": "w"})
    ask("GET", "/v1/log/index", 200, params={"of": "streams"}, headers=ARROW)
    ask("GET", "/v1/log/index", 400)
    ask("GET", "/v1/log/index", 406, params={"of": "streams"}, headers={"accept": "text/html"})
    ask("GET", "/v1/log/nothing", 404)

    for path in ("/openapi.json", "/asyncapi.json"):
        etag = ask("GET", path, 200, headers={"accept-encoding": "gzip"}).headers["etag"]
        for method in ("GET", "HEAD"):
            ask(method, path, 304, headers={"if-none-match": etag})
        ask("HEAD", path, 200)
        for method in ("GET", "HEAD"):
            ask(method, path, 400, headers=TWICE)
    ask("GET", "/healthz", 200)
    ask("GET", "/readyz", 200)
    for method in ("GET", "HEAD"):
        ask(method, "/metrics", 200)
        ask(method, "/metrics", 200, headers={"accept": "application/openmetrics-text"})
        ask(method, "/metrics", 400, headers=TWICE)
        ask(method, "/metrics", 403, headers={"x-forwarded-for": "203.0.113.9"})
    ask("GET", "/nothing", 404)
    return recorder, read_document(recorder)


def run_without_metrics(servers: Servers) -> Run:
    recorder = servers.record(metrics="off")
    for method in ("GET", "HEAD"):
        recorder.request(method, "/metrics", 404)
    return recorder, read_document(recorder)


def operate_subscriptions(ask: Callable[..., Any], claim: str) -> None:
    """Ask for what operators do; `claim` claims the subscription `pull`, which has pending work."""
    pull, hook = "/v1/subscriptions/pull", "/v1/subscriptions/hook"
    ask("GET", pull, 200)
    ask("GET", hook, 200)
    ask("GET", f"/v1/subscriptions/{'x' * 257}", 400)
    ask("GET", "/v1/subscriptions/%ff", 400)
    ask("GET", "/v1/subscriptions/nobody", 404)
    ask("POST", f"{pull}/pause", 204)
    ask("GET", pull, 200)
    ask("POST", claim, 409, json={"worker": "w"})
    ask("POST", f"{pull}/resume", 204)
    ask("POST", f"{pull}/redeliver", 204)
    ask("POST", f"{pull}/redeliver", 204, json={"stream": "jobs/1", "offset": START})
    ask("POST", f"{pull}/redeliver", 400, json={"stream": "jobs/1", "offset": "now"})
    for action in ("pause", "resume", "redeliver"):
        ask("POST", f"/v1/subscriptions/nobody/{action}", 404)
        ask("POST", f"/v1/subscriptions/%ff/{action}", 400)
        ask("POST", f"/v1/subscriptions/{'x' * 257}/{action}", 400)
        ask("POST", f"{pull}/{action}", 400, headers=TWICE)
        ask("POST", f"{pull}/{action}", 413, json={"stream": "x" * 3000, "offset": START})


def run_subscriptions(servers: Servers) -> Run:
    recorder = servers.record()
    ask = recorder.request
    pull, hook = f"{SUBSCRIPTIONS}/pull", f"{SUBSCRIPTIONS}/hook"
    forwarded = {"x-forwarded-proto": "https", "x-forwarded-host": "example.com"}
    config = {
        "type": "pull-wake",
        "pattern": "jobs/*",
        "wake_stream": "wakes",
        "lease_ttl_ms": 5000,
        "description": "d",
    }
    ask("PUT", pull, 201, json=config, headers=forwarded)
    ask("PUT", pull, 200, json=config)
    ask("PUT", pull, 409, json=config | {"pattern": "other/*"})
    ask("PUT", pull, 400, json={"type": "pull-wake"})
    ask("PUT", pull, 413, json=config | {"description": "x" * 3000})
    ask("POST", f"{pull}/claim", 409, json={"worker": "w"})

    ask("PUT", "/v1/stream/jobs/1", 201, headers=TEXT, content=b"job")
    ask("PUT", "/v1/stream/extra", 201, headers=TEXT, content=b"job")
    ask("POST", f"{pull}/streams", 204, json={"streams": ["extra"]})
    ask("GET", pull, 200)
    ask("POST", f"{pull}/streams", 400, json={})
    ask("POST", f"{pull}/streams", 413, json={"streams": ["x" * 3000]})
    ask("DELETE", f"{pull}/streams/extra", 204)
    ask("DELETE", f"{pull}/streams/a%2F%2Fb", 400)

    claim = ask("POST", f"{pull}/claim", 200, json={"worker": "w"}).json()
    ask("POST", f"{pull}/claim", 409, json={"worker": "v"})
    ask("POST", f"{pull}/claim", 400, json={})
    ask("POST", f"{pull}/claim", 413, json={"worker": "x" * 3000})
    wake = {"wake_id": claim["wake_id"], "generation": claim["generation"]}
    token = {"authorization": f"Bearer {claim['token']}"}
    done = [{"stream": stream["path"], "offset": stream["tail_offset"]} for stream in claim["streams"]]
    ask("POST", f"{pull}/ack", 200, json=wake | {"acks": done}, headers=token)
    ask("POST", f"{pull}/release", 204, json=wake, headers=token)
    for action in ("ack", "release", "callback"):
        url = f"{pull}/{action}"
        ask("POST", url, 400, json={}, headers=token)
        ask("POST", url, 401, json=wake)
        ask("POST", url, 413, json=wake | {"acks": [{"stream": "x" * 3000, "offset": START}]}, headers=token)
        if action != "callback":
            ask("POST", url, 409, json=wake, headers=token)

    receiver = servers.receive()
    ask("PUT", hook, 201, json={"type": "webhook", "streams": ["hooked"], "webhook": {"url": receiver.url}})
    ask("PUT", f"{SUBSCRIPTIONS}/bad", 400, json={"type": "webhook", "streams": ["a"], "webhook": {"url": "ftp://x"}})
    ask("PUT", "/v1/stream/hooked", 201, headers=TEXT, content=b"x")
    call = receiver.next().wake
    token = {"authorization": f"Bearer {call['callback_token']}"}
    wake = {"wake_id": call["wake_id"], "generation": call["generation"], "done": True}
    acks = [{"stream": stream["path"], "offset": stream["tail_offset"]} for stream in call["streams"]]
    ask("POST", f"{hook}/callback", 200, json=wake | {"acks": acks}, headers=token)
    ask("POST", f"{hook}/callback", 409, json=wake, headers=token)
    ask("GET", hook, 200)
    ask("GET", "/v1/subscriptions", 200, params={"prefix": "h", "after": "a", "limit": "1"})
    ask("GET", "/v1/subscriptions", 400, params={"limit": "0"})
    operate_subscriptions(ask, f"{pull}/claim")

    ask("GET", "/v1/stream/__ds/jwks.json", 200)
    ask("HEAD", "/v1/stream/__ds/jwks.json", 200)
    ask("POST", "/v1/stream/__ds/keys/rotate", 200)
    for method, url in (("GET", "jwks.json"), ("HEAD", "jwks.json"), ("POST", "keys/rotate")):
        ask(method, f"/v1/stream/__ds/{url}", 400, headers=TWICE)
    for method in ("GET", "DELETE"):
        ask(method, pull, 400, headers=TWICE)
    missing = f"{SUBSCRIPTIONS}/missing"
    ask("POST", f"{missing}/streams", 404, json={"streams": []})
    ask("DELETE", f"{missing}/streams/s", 404)
    ask("POST", f"{missing}/claim", 404, json={"worker": "w"})
    for url, name in ((pull, "ack"), (pull, "release"), (hook, "callback")):
        token = claim["token"] if url == pull else call["callback_token"]
        if name != "release":
            ask("DELETE", url, 204)
        ask("POST", f"{url}/{name}", 404, json=wake, headers={"authorization": f"Bearer {token}"})
        ask("GET", url, 404)
        ask("DELETE", url, 404)

    description = Description(read_document(recorder))
    operation = description.document["webhooks"]["wake"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert description.validate(call, schema) == []
    return recorder, read_document(recorder)


# What a server refuses everywhere


def run_every_path_answers_a_preflight_and_refuses_other_methods(servers: Servers) -> Run:
    recorder = servers.record()
    document = read_document(recorder)
    any_method = {"/healthz", "/readyz"}
    for template, item in document["paths"].items():
        path = fill_path(template, "n")
        if "options" in item:
            recorder.request("OPTIONS", path, 204)
        for method in {"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"} - {name.upper() for name in item}:
            reply = recorder.client.request(method, path)
            assert reply.status_code in ((200,) if template in any_method else (404, 405)), f"{method} {path}"
    return recorder, read_document(recorder)


def run_pages_of_other_sites_and_unknown_hosts_are_refused(servers: Servers) -> Run:
    recorder = servers.record()
    document = read_document(recorder)
    for operation, reply in sweep(recorder, document, headers=FOREIGN.items()):
        assert reply.status_code == 403 or "403" not in operation["responses"]
    for operation, reply in sweep(recorder, document, headers=[("host", "rebound.example")]):
        assert reply.status_code == 421, operation
    return recorder, read_document(recorder)


def run_tokens_are_asked_for(servers: Servers) -> Run:
    folder = Path(servers.start().data).parent
    secret = write_secret(folder / "secret")
    recorder = servers.record(jwt_secret_file=str(folder / "secret"))
    client, document = recorder.client, read_document(recorder)
    admin = bearer(secret.token(sub="a", exp=2**33, admin=True))
    client.put("/v1/stream/sweep/s", headers=TEXT | admin)
    assert client.put(f"{SUBSCRIPTIONS}/sweep", headers=admin, **BODIES["createSubscription"]).status_code == 201
    for operation, reply in sweep(recorder, document):
        if "401" in operation["responses"]:
            assert reply.status_code == 401, operation["operationId"]
    nobody = bearer(secret.token(sub="b", exp=2**33))
    for operation, reply in sweep(recorder, document, headers=nobody.items()):
        if "`forbidden`" in operation["responses"].get("403", {}).get("description", ""):
            assert reply.status_code == 403, operation["operationId"]
    cookie = {"cookie": admin["authorization"].replace("Bearer ", "mainstem="), "sec-fetch-site": "cross-site"}
    for operation, reply in sweep(recorder, document, headers=cookie.items()):
        if "`csrf`" in operation["responses"].get("403", {}).get("description", ""):
            assert reply.status_code == 403, operation["operationId"]
    for operation, reply in sweep(recorder, document, query="token=x", headers=admin.items()):
        assert reply.status_code == 400, operation
    return recorder, read_document(recorder)


def run_web_pages_use_cookies_and_signed_urls(servers: Servers) -> Run:
    folder = Path(servers.start().data).parent
    secret = write_secret(folder / "secret")
    recorder = servers.record(jwt_secret_file=str(folder / "secret"))
    ask, url = recorder.request, str(recorder.client.base_url)
    admin = bearer(secret.token(admin=True))
    proxied = {"x-forwarded-proto": "http", "x-forwarded-host": url.removeprefix("http://"), "origin": url}
    ask("PUT", "/v1/stream/s", 201, headers=TEXT | admin)
    for target, path in ({"stream": "s"}, "/v1/stream/s"), ({"partition": "p"}, "/v1/partition/p"):
        made = ask("POST", "/v1/signed-urls", 201, headers=admin | proxied, json=target | {"expires_in_s": 60}).json()
        for method in ("GET", "HEAD"):
            ask(method, made["url"], 200)
        ask("POST", "/v1/signed-urls", 201, headers=admin, json={"url": path})
    ask("POST", "/v1/signed-urls", 400, headers=admin, json={"url": "/v1/log"})
    ask("POST", "/v1/signed-urls", 413, headers=JSON | admin, content=b"x" * (3 * limits.KIB))
    ask("PUT", "/v1/cookie", 204, headers=admin | proxied)
    ask("DELETE", "/v1/cookie", 204, headers=proxied)
    return recorder, read_document(recorder)


def run_a_rate_is_limited(servers: Servers) -> Run:
    recorder = servers.record(max_requests_per_second=1)
    document = build_openapi(Settings(max_requests_per_second=1), guard_hosts=True)
    for operation, reply in sweep(recorder, document):
        if "429" in operation["responses"] and reply.status_code != 429:
            method, url = reply.request.method, str(reply.request.url)
            recorder.request(method, url, 429, content=reply.request.content, headers=reply.request.headers)
    return recorder, document


def run_the_share_of_a_client_is_limited(servers: Servers) -> Run:
    server = servers.start(max_live_readers_per_client=1, max_subscriptions_per_client=1)
    recorder, other = Recorder(servers.connect(server)), servers.connect(server)
    recorder.request("PUT", "/v1/stream/s", 201, headers=TEXT)
    live = {"live": "sse", "offset": "-1"}
    with other.stream("GET", "/v1/stream/s", params=live) as held:
        assert held.status_code == 200
        recorder.request("GET", "/v1/stream/s", 429, params=live)
        recorder.request("GET", "/v1/stream-set", 429, params={"live": "sse", "stream": "s"})
        recorder.request("GET", "/v1/partition/p", 429, params=live)
        recorder.request("GET", "/v1/log", 429, params={"live": "sse"})
    config = {"type": "pull-wake", "pattern": "*", "wake_stream": "w"}
    recorder.request("PUT", f"{SUBSCRIPTIONS}/a", 201, json=config)
    recorder.request("PUT", f"{SUBSCRIPTIONS}/b", 429, json=config)
    return recorder, read_document(recorder)


def run_faults_are_injected(servers: Servers) -> Run:
    recorder = Recorder(servers.connect(servers.start_process("--test-endpoints", "--store", "memory")))
    ask, path = recorder.request, "/_test/inject-error"
    fault = {"path": "s", "method": "GET", "count": 2, "status": 503, "retryAfter": 1, "delayMs": 1, "jitterMs": 1}
    more = {"probability": 0.5, "dropConnection": False, "dropReply": False, "dropAfterBytes": 1, "corruptBody": False}
    sse = {"truncateBodyBytes": 1, "injectSseEvent": {"eventType": "data", "data": "x"}}
    ask("POST", path, 204, json=fault | more | sse)
    ask("POST", path, 400, json={"unknown": 1})
    ask("POST", path, 413, content=b"x" * (limits.MIB + 1), headers=JSON)
    for method in ("POST", "DELETE"):
        ask(method, path, 403, headers=FOREIGN)
        ask(method, path, 421, headers={"host": "rebound.example"})
    ask("DELETE", path, 204)
    return recorder, read_document(recorder)


SCENARIOS: tuple[Callable[[Servers], Run], ...] = (
    run_streams,
    run_partitions_snapshots_and_pruning,
    run_jobs,
    run_callers_and_sessions,
    run_the_log,
    run_without_metrics,
    run_subscriptions,
    run_every_path_answers_a_preflight_and_refuses_other_methods,
    run_pages_of_other_sites_and_unknown_hosts_are_refused,
    run_tokens_are_asked_for,
    run_web_pages_use_cookies_and_signed_urls,
    run_a_rate_is_limited,
    run_the_share_of_a_client_is_limited,
    run_faults_are_injected,
)
