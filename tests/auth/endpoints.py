"""Every endpoint and the rights that it needs: each is called on its own stream, which an admin has prepared."""

from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2

ROOT = "/v1/stream/"
SUBSCRIPTIONS = ROOT + "__ds/subscriptions/"
TEXT = {"content-type": "text/plain"}
SNAPSHOT = {"committed_id": 0, "state": {}}
ROUND = {"job": "audit", "name": "a", "round": 1, "started_at": "2026-05-01T00:00:00Z", "duration_s": 1.0}
START = "0000000000000000_0000000000000000"
STREAM_SNAPSHOT = "/v1/stream-snapshot/{path}"

Prepare = Callable[[httpx2.Client, str], None]


class Endpoint(NamedTuple):
    name: str
    method: str
    url: str
    needs: frozenset[str]
    """read, write, partition, admin; empty if any valid token is enough."""
    prepare: Prepare = lambda admin, path: None
    options: Callable[[str], dict[str, Any]] = lambda path: {}

    def call(self, client: httpx2.Client, path: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        options = self.options(path)
        merged = {**options.pop("headers", {}), **(headers or {})}
        url = self.url.format(path=path, id=path.replace("/", "-"))
        return client.request(self.method, url, headers=merged, **options)


def make_snapshot(admin: httpx2.Client, path: str) -> None:
    assert admin.put("/v1/snapshot/" + path.replace("/", "-"), json=SNAPSHOT).status_code == 204


def stream_snapshot(path: str) -> dict[str, Any]:
    return {"json": SNAPSHOT | {"offset": START}}


def make_json(admin: httpx2.Client, path: str) -> None:
    assert admin.put(ROOT + path, headers={"content-type": "application/json"}, content=b"[1]").status_code == 201


def make_stream_snapshot(admin: httpx2.Client, path: str) -> None:
    make_json(admin, path)
    assert admin.put("/v1/stream-snapshot/" + path, **stream_snapshot(path)).status_code == 204


def make_stream(admin: httpx2.Client, path: str) -> None:
    assert admin.put(ROOT + path, headers=TEXT, content=b"data").status_code == 201


def make_closed(admin: httpx2.Client, path: str) -> None:
    assert admin.put(ROOT + path, headers={**TEXT, "stream-closed": "true"}, content=b"data").status_code == 201


def make_source(admin: httpx2.Client, path: str) -> None:
    make_stream(admin, path + "/source")


def make_subscription(admin: httpx2.Client, path: str) -> None:
    """Create a pull-wake with pending work."""
    url = SUBSCRIPTIONS + path.replace("/", "-")
    make_stream(admin, path + "/a")
    made = admin.put(url, json={"type": "pull-wake", "streams": [path + "/a"], "wake_stream": path + "/wakes"})
    assert made.status_code == 201, made.text
    assert admin.post(ROOT + path + "/a", headers=TEXT, content=b"more").status_code == 204


def needs(*rights: str) -> frozenset[str]:
    return frozenset(rights)


def pull_wake(path: str) -> dict[str, Any]:
    return {"json": {"type": "pull-wake", "pattern": path + "/**", "wake_stream": path + "/wakes"}}


def webhook(path: str) -> dict[str, Any]:
    return {"json": {"type": "webhook", "streams": [path], "webhook": {"url": "http://127.0.0.1:9/"}}}


def fork(path: str) -> dict[str, Any]:
    return {"headers": {"stream-forked-from": ROOT + path + "/source"}}


def text(path: str) -> dict[str, Any]:
    return {"headers": TEXT, "content": b"x"}


SUBSCRIPTION = SUBSCRIPTIONS + "{id}"
READ = needs("read")

GUARDED = [
    Endpoint("read", "GET", ROOT + "{path}", READ, make_stream),
    Endpoint("read the tail", "GET", ROOT + "{path}?tail=1", READ, make_stream),
    Endpoint("long-poll", "GET", ROOT + "{path}?offset=-1&live=long-poll", READ, make_stream),
    Endpoint("SSE", "GET", ROOT + "{path}?offset=-1&live=sse", READ, make_closed),
    Endpoint("head", "HEAD", ROOT + "{path}", READ, make_stream),
    Endpoint("create", "PUT", ROOT + "{path}", needs("write"), options=text),
    Endpoint("fork", "PUT", ROOT + "{path}", needs("read", "write"), make_source, fork),
    Endpoint("append", "POST", ROOT + "{path}", needs("write"), make_stream, text),
    Endpoint("append with a query", "POST", ROOT + "{path}?a=b", needs("write"), make_stream, text),
    Endpoint("delete", "DELETE", ROOT + "{path}", needs("write"), make_stream),
    Endpoint("list", "GET", "/v1/streams?prefix={path}", needs(), make_stream),
    Endpoint("search", "GET", "/v1/streams?search={path}", needs(), make_stream),
    Endpoint("find an offset", "GET", "/v1/stream-offset/{path}?time=2026-01-01T00:00:00Z", READ, make_stream),
    Endpoint("list partitions", "GET", "/v1/partitions?prefix={path}", needs()),
    Endpoint("list sessions", "GET", "/v1/sessions", needs("admin")),
    Endpoint("ask who one is", "GET", "/v1/whoami", needs()),
    Endpoint("list subscriptions", "GET", "/v1/subscriptions", needs("admin")),
    Endpoint("inspect a subscription", "GET", "/v1/subscriptions/{id}", needs("admin"), make_subscription),
    Endpoint("pause a subscription", "POST", "/v1/subscriptions/{id}/pause", needs("admin"), make_subscription),
    Endpoint("resume a subscription", "POST", "/v1/subscriptions/{id}/resume", needs("admin"), make_subscription),
    Endpoint("redeliver a subscription", "POST", "/v1/subscriptions/{id}/redeliver", needs("admin"), make_subscription),
    Endpoint("set", "GET", "/v1/stream-set?stream={path}&live=sse", READ, make_closed),
    Endpoint("subscribe by webhook", "PUT", SUBSCRIPTION, READ, options=webhook),
    Endpoint("subscribe to pull", "PUT", SUBSCRIPTION, needs("read", "write"), options=pull_wake),
    Endpoint("see a subscription", "GET", SUBSCRIPTION, READ, make_subscription),
    Endpoint("delete a subscription", "DELETE", SUBSCRIPTION, READ, make_subscription),
    Endpoint(
        "link", "POST", SUBSCRIPTION + "/streams", READ, make_subscription, lambda p: {"json": {"streams": [p + "/b"]}}
    ),
    Endpoint("unlink", "DELETE", SUBSCRIPTION + "/streams/{path}/a", READ, make_subscription),
    Endpoint("claim", "POST", SUBSCRIPTION + "/claim", READ, make_subscription, lambda p: {"json": {"worker": "w"}}),
    Endpoint("rotate keys", "POST", ROOT + "__ds/keys/rotate", needs("admin")),
    Endpoint("read a partition", "GET", "/v1/partition/{id}", needs("partition")),
    Endpoint("head of a partition", "HEAD", "/v1/partition/{id}", needs("partition")),
    Endpoint("put a snapshot", "PUT", "/v1/snapshot/{id}", needs("admin"), options=lambda path: {"json": SNAPSHOT}),
    Endpoint("read a snapshot", "GET", "/v1/snapshot/{id}", needs("admin"), make_snapshot),
    Endpoint("head of a snapshot", "HEAD", "/v1/snapshot/{id}", needs("admin"), make_snapshot),
    Endpoint("put a stream's snapshot", "PUT", STREAM_SNAPSHOT, needs("admin"), make_json, stream_snapshot),
    Endpoint("read a stream's snapshot", "GET", STREAM_SNAPSHOT, READ, make_stream_snapshot),
    Endpoint("head of a stream's snapshot", "HEAD", STREAM_SNAPSHOT, READ, make_stream_snapshot),
    Endpoint("read the log", "GET", "/v1/log?prefix={path}", needs("admin")),
    Endpoint("tail the log", "GET", "/v1/log?live=sse&until=0&prefix={path}", needs("admin")),
    Endpoint("head of the log", "GET", "/v1/log/head", needs("admin")),
    Endpoint("bounds of the log", "GET", "/v1/log/bounds?rows=1", needs("admin")),
    Endpoint("cuts of the log", "GET", "/v1/log/cuts?parts=2", needs("admin")),
    Endpoint("ids of the log", "GET", "/v1/log/id?after=1", needs("admin")),
    Endpoint("index of the log", "GET", "/v1/log/index?of=streams", needs("admin")),
    Endpoint("report a round", "POST", "/v1/jobs", needs("admin"), options=lambda path: {"json": ROUND}),
    Endpoint("list jobs", "GET", "/v1/jobs", needs("admin")),
    Endpoint("prune", "POST", "/v1/prune", needs("admin"), options=lambda path: {"json": {"floors": {path: 0}}}),
    Endpoint(
        "trim", "POST", "/v1/prune", needs("admin"), make_stream, lambda path: {"json": {"streams": {path: START}}}
    ),
]
OPEN = [
    Endpoint("health", "GET", "/healthz", needs()),
    Endpoint("readiness", "GET", "/readyz", needs()),
    Endpoint("console", "GET", "/console/", needs()),
    Endpoint("signing keys", "GET", ROOT + "__ds/jwks.json", needs()),
    Endpoint("preflight of a stream", "OPTIONS", ROOT + "{path}", needs()),
    Endpoint("preflight of the list", "OPTIONS", "/v1/streams", needs()),
    Endpoint("preflight of the list of partitions", "OPTIONS", "/v1/partitions", needs()),
    Endpoint("preflight of an offset", "OPTIONS", "/v1/stream-offset/a", needs()),
    Endpoint("preflight of a session", "OPTIONS", "/v1/sessions/1", needs()),
    Endpoint("preflight of whoami", "OPTIONS", "/v1/whoami", needs()),
    Endpoint("preflight of a set", "OPTIONS", "/v1/stream-set", needs()),
    Endpoint("preflight of the log", "OPTIONS", "/v1/log", needs()),
    Endpoint("preflight of a partition", "OPTIONS", "/v1/partition/p", needs()),
]


def by_name(endpoint: Endpoint) -> str:
    return endpoint.name.replace(" ", "-")
