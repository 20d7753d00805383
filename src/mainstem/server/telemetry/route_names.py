"""The names of routes in metrics, logs and traces: few, whatever paths clients ask for."""

from typing import Final
from urllib.parse import parse_qsl

from mainstem.server.routes import SYNC, SYNC_CORE, find_route
from mainstem.streams.rules.paths import Mount

UNMATCHED: Final = "unmatched"
LIVE: Final = {b"live=sse": "?live=sse", b"live=long-poll": "?live=long-poll"}
ACTIONS: Final = frozenset([b"streams", b"claim", b"callback", b"ack", b"release"])


def name_route(mount: Mount, method: str, path: bytes, query: bytes) -> str:
    """Return a template such as `/v1/stream/{path}`. A live read has a name of its own, because it takes as long as it
    waits."""
    if path.startswith(mount.control):
        return mount.control.decode() + _name_control(path[len(mount.control) :].lstrip(b"/"))
    if path.startswith(mount.root):
        return mount.root.decode() + "{path}" + (_name_live(query) if method == "GET" else "")
    if path in (SYNC, SYNC_CORE):
        return path.decode()
    route = find_route(method, path)
    if route is None:
        return UNMATCHED
    name = route.path.decode()
    return (name + "{name}" if name.endswith("/") and path != route.path else name) + _name_live(query)


def _name_live(query: bytes) -> str:
    if b"live=" not in query:
        return ""
    for part in query.split(b"&"):
        if part in LIVE:
            return LIVE[part]
    values = dict(parse_qsl(query.decode("latin-1")[:1024]))
    return LIVE.get(f"live={values.get('live', '')}".encode("latin-1", "replace"), "")


def _name_control(path: bytes) -> str:
    """Return the name of a path below the reserved segment."""
    if path in (b"jwks.json", b"keys/rotate"):
        return "/" + path.decode()
    if not path.startswith(b"subscriptions/"):
        return "/{name}"
    action = path.removeprefix(b"subscriptions/").partition(b"/")[2].partition(b"/")[0]
    return "/subscriptions/{id}" + (f"/{action.decode()}" if action in ACTIONS else "")
