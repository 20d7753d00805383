"""Which methods each path of the server accepts, and how it refuses the others."""

from pathlib import Path

import pytest

from mainstem.server.routes import ROUTES, SYNC, SYNC_CORE
from mainstem.streams.rules.paths import TAKEN, check_prefix
from tests.support.plain_http import exchange, head

ROOT = Path(__file__).parents[2]
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE")
CODES = {
    400: {"bad_request", "invalid_query", "invalid_path"},
    404: {"not_found", "stream_not_found", "subscription_not_found"},
    405: {"method_not_allowed"},
}
NOWHERE = (404,) * 7
READS = (200, 200, 405, 405, 405, 405, 405)
LISTED = (200, 404, 404, 404, 404, 404, 404)
LOG_READ = (200, 405, 405, 405, 405, 405, 405)

STATUSES = {
    "/": NOWHERE,
    "/v1": NOWHERE,
    "/v1/nothing": NOWHERE,
    "/v1/streams": LISTED,
    "/v1/streams/": NOWHERE,
    "/v1/subscriptions": LISTED,
    "/v1/subscriptions/": NOWHERE,
    "/v1/subscriptions/s": (404, 405, 405, 405, 405, 405, 405),
    "/v1/subscriptions/s/": NOWHERE,
    "/v1/subscriptions/s/pause": (405, 405, 404, 405, 405, 405, 405),
    "/v1/subscriptions/s/stop": NOWHERE,
    "/v1/stream-set": (400, 404, 404, 404, 404, 404, 404),
    "/v1/stream-set/": NOWHERE,
    "/v1/stream-snapshot": NOWHERE,
    "/v1/stream-snapshot/": (400,) * 7,
    "/v1/stream-snapshot/s": (404, 404, 405, 400, 405, 405, 405),
    "/v1/partition": NOWHERE,
    "/v1/partition/": (400, 400, 405, 405, 405, 405, 405),
    "/v1/partition/p": READS,
    "/v1/partition/p/q": READS,
    "/v1/partition/%zz": (400, 400, 405, 405, 405, 405, 405),
    "/v1/partitions": LISTED,
    "/v1/whoami": LOG_READ,
    "/v1/sessions": LOG_READ,
    "/v1/sessions/": (405, 405, 405, 405, 404, 405, 405),
    "/v1/sessions/5": (405, 405, 405, 405, 404, 405, 405),
    "/v1/stream-offset/s?time=2026-01-01T00:00:00Z": (404, 405, 405, 405, 405, 405, 405),
    "/v1/snapshot": NOWHERE,
    "/v1/snapshot/": (400, 400, 405, 400, 405, 405, 405),
    "/v1/snapshot/p": (404, 404, 405, 400, 405, 405, 405),
    "/v1/prune": (405, 405, 400, 405, 405, 405, 405),
    "/v1/prune/": NOWHERE,
    "/v1/jobs": (200, 405, 400, 405, 405, 405, 405),
    "/v1/jobs/": NOWHERE,
    "/v1/log": LOG_READ,
    "/v1/%6Cog": LOG_READ,
    "/v1/logs": NOWHERE,
    "/v1/log/": (404, 405, 405, 405, 405, 405, 405),
    "/v1/log/nothing": (404, 405, 405, 405, 405, 405, 405),
    "/v1/log/head": LOG_READ,
    "/v1/log/head/": (404, 405, 405, 405, 405, 405, 405),
    "/v1/log/bounds?rows=1": LOG_READ,
    "/v1/log/cuts?parts=2": LOG_READ,
    "/v1/log/id?after=1": LOG_READ,
    "/v1/log/index?of=streams": LOG_READ,
    "/v1/cookie": (405, 405, 405, 409, 409, 405, 405),
    "/v1/signed-urls": (405, 405, 409, 405, 405, 405, 405),
    "/v1/sync": NOWHERE,
    "/v1/sync/core": NOWHERE,
    "/openapi.json": (200, 200, 405, 405, 405, 405, 405),
    "/asyncapi.json": (200, 200, 405, 405, 405, 405, 405),
    "/console": (307, 307, 405, 405, 405, 405, 405),
    "/console/": READS,
    "/console/nothing": (404, 404, 405, 405, 405, 405, 405),
    "/client/mainstem.js": (307, 307, 405, 405, 405, 405, 405),
    "/client/nothing": (404, 404, 405, 405, 405, 405, 405),
    "/metrics": READS,
    "/metrics/": NOWHERE,
    "/healthz": (200,) * 7,
    "/healthz/": NOWHERE,
    "/readyz": (200,) * 7,
    "/_test/inject-error": NOWHERE,
}


@pytest.mark.parametrize("path", STATUSES)
def test_every_path_answers_every_method(server, path):
    for method, status in zip(METHODS, STATUSES[path], strict=True):
        reply = exchange(server.address, head(method.encode(), path.encode(), b"Connection: close"), method=method)
        assert reply.status == status, method
        if status in CODES and method != "HEAD":
            assert reply.problem["code"] in CODES[status], method
    preflight = exchange(server.address, head(b"OPTIONS", path.encode(), b"Connection: close")).status
    assert preflight == (204 if path.startswith("/v1/") else STATUSES[path][-1])


def test_every_route_is_covered_above():
    tried = [path.partition("?")[0].encode() for path in STATUSES]
    for route in ROUTES:
        assert any(path.startswith(route.path) for path in tried), route.path


def test_streams_cannot_be_served_at_the_path_of_a_route():
    listing = b"/v1/streams"  # not a stream under /v1/streams
    for path in [*(route.path for route in ROUTES), SYNC, SYNC_CORE]:
        if path != listing:
            with pytest.raises(ValueError, match="conflicts with"):
                check_prefix(path.decode().rstrip("/"))
    assert len(set(TAKEN)) == len(TAKEN)


def test_the_guide_says_what_each_path_needs():
    table = (ROOT / "docs" / "guides" / "authorisation.md").read_text().partition("## What each endpoint needs")[2]
    table = table.partition("\n## ")[0]
    for path in [route.path.decode() for route in ROUTES] + [SYNC.decode()]:
        above = path.rpartition("/")[0]
        assert f"`{path}" in table or (above and f"`{above}` and the paths below it" in table), path
