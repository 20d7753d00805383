"""Every path that the server serves, one row each, except streams, whose prefix is a setting (`Mount`)."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from mainstem.http.asgi import Receive, Scope, Send
from mainstem.server.auth.gate import COOKIE_PATH
from mainstem.server.endpoints.browser_client import PATH as CLIENT_PATH
from mainstem.server.endpoints.browser_client import BrowserClient
from mainstem.server.endpoints.console import FRONT_PATH, Console
from mainstem.server.endpoints.cookie import CookieHttp
from mainstem.server.endpoints.descriptions import Descriptions
from mainstem.server.endpoints.health import Health
from mainstem.server.endpoints.jobs import Jobs
from mainstem.server.endpoints.metrics import MetricsHttp
from mainstem.server.endpoints.partition_list import PartitionList
from mainstem.server.endpoints.partitions import PartitionsHttp
from mainstem.server.endpoints.sessions import Sessions
from mainstem.server.endpoints.signed_urls import SignedUrls
from mainstem.server.endpoints.stream_offsets import StreamOffsets
from mainstem.server.endpoints.stream_snapshots import StreamSnapshots
from mainstem.server.endpoints.whoami import Whoami
from mainstem.server.log_api.http import LogHttp
from mainstem.streams.http.handler import StreamsHttp
from mainstem.streams.http.listing import StreamsListing
from mainstem.streams.reading.sets import StreamSets
from mainstem.streams.subscriptions.admin_http import SubscriptionsAdmin
from mainstem.sync.websocket import SyncSocket

Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]


class Endpoints(NamedTuple):
    """The handlers of requests while the log is open."""

    streams: StreamsHttp
    streams_listing: StreamsListing
    subscriptions: SubscriptionsAdmin
    stream_sets: StreamSets
    stream_snapshots: StreamSnapshots
    stream_offsets: StreamOffsets
    partition_list: PartitionList
    partitions: PartitionsHttp
    jobs: Jobs
    sessions: Sessions
    whoami: Whoami
    cookie: CookieHttp
    signed_urls: SignedUrls
    log: LogHttp
    metrics: MetricsHttp
    health: Health
    descriptions: Descriptions
    console: Console
    browser_client: BrowserClient
    sync: SyncSocket


class Route(NamedTuple):
    path: bytes
    """With a slash at the end, it matches every path below, and `scope["mainstem.subpath"]` is the rest."""
    endpoint: Callable[[Endpoints], Endpoint]
    methods: frozenset[str] | None = None
    """Other methods get 404. None leaves methods to the endpoint, which replies with 405 to those it does not serve."""
    admin: bool = False
    """Whether even reading is for administrators, so that without tokens, pages of other sites may not."""


def _not_served(endpoints: Endpoints) -> Endpoint:
    raise AssertionError("a route without methods matches no request")


GET: Final = frozenset(["GET"])

ROUTES: Final = (
    Route(b"/v1/streams", lambda endpoints: endpoints.streams_listing, GET),
    Route(b"/v1/subscriptions", lambda endpoints: endpoints.subscriptions.list, GET, admin=True),
    Route(b"/v1/subscriptions/", lambda endpoints: endpoints.subscriptions.manage, admin=True),
    Route(b"/v1/stream-set", lambda endpoints: endpoints.stream_sets, GET),
    Route(b"/v1/stream-snapshot/", lambda endpoints: endpoints.stream_snapshots),
    Route(b"/v1/stream-offset/", lambda endpoints: endpoints.stream_offsets),
    Route(b"/v1/partitions", lambda endpoints: endpoints.partition_list, GET),
    Route(b"/v1/partition/", lambda endpoints: endpoints.partitions.read),
    Route(b"/v1/snapshot/", lambda endpoints: endpoints.partitions.snapshot),
    Route(b"/v1/prune", lambda endpoints: endpoints.partitions.prune),
    Route(b"/v1/jobs", lambda endpoints: endpoints.jobs, admin=True),
    Route(b"/v1/sessions", lambda endpoints: endpoints.sessions.list, admin=True),
    Route(b"/v1/sessions/", lambda endpoints: endpoints.sessions.disconnect, admin=True),
    Route(b"/v1/whoami", lambda endpoints: endpoints.whoami),
    Route(COOKIE_PATH, lambda endpoints: endpoints.cookie),
    Route(b"/v1/signed-urls", lambda endpoints: endpoints.signed_urls),
    Route(b"/v1/log", lambda endpoints: endpoints.log.read, admin=True),
    Route(b"/v1/log/head", lambda endpoints: endpoints.log.read_head, admin=True),
    Route(b"/v1/log/bounds", lambda endpoints: endpoints.log.read_bounds, admin=True),
    Route(b"/v1/log/cuts", lambda endpoints: endpoints.log.read_cuts, admin=True),
    Route(b"/v1/log/id", lambda endpoints: endpoints.log.read_id, admin=True),
    Route(b"/v1/log/index", lambda endpoints: endpoints.log.read_index, admin=True),
    Route(b"/v1/log/", lambda endpoints: endpoints.log.refuse, admin=True),
    Route(b"/metrics", lambda endpoints: endpoints.metrics, admin=True),
    Route(b"/healthz", lambda endpoints: endpoints.health.live),
    Route(b"/readyz", lambda endpoints: endpoints.health.ready),
    Route(b"/openapi.json", lambda endpoints: endpoints.descriptions.openapi),
    Route(b"/asyncapi.json", lambda endpoints: endpoints.descriptions.asyncapi),
    Route(b"/console", lambda endpoints: endpoints.console.redirect),
    Route(b"/console/", lambda endpoints: endpoints.console.serve_file),
    Route(CLIENT_PATH, lambda endpoints: endpoints.browser_client),
    # endpoints/fault_injection.py serves it before this table is used, and only with --test-endpoints.
    Route(b"/_test/", _not_served, frozenset(), admin=True),
)
FRONT: Final = Route(FRONT_PATH, lambda endpoints: endpoints.console.serve_front_page, frozenset(["GET", "HEAD"]))
"""The page at `/`, which is a path of its own and not the parent of all others."""
SYNC: Final = b"/v1/sync"
SYNC_CORE: Final = b"/v1/sync/core"
"""Paths of WebSockets."""

ADMIN_PATHS: Final = tuple(route.path for route in ROUTES if route.admin)
_EXACT: Final = {route.path: route for route in [FRONT, *(r for r in ROUTES if not r.path.endswith(b"/"))]}
_BELOW: Final = tuple(route for route in ROUTES if route.path.endswith(b"/"))


def find_route(method: str, path: bytes) -> Route | None:
    """Return the route of a request; None means 404. An exact path wins over a prefix."""
    route = _EXACT.get(path) or next((route for route in _BELOW if path.startswith(route.path)), None)
    return None if route is None or (route.methods is not None and method not in route.methods) else route
