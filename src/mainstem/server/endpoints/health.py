"""`/healthz` and `/readyz`: whether the process runs, and whether it accepts writes."""

from mainstem.errors import StoreFull, Unavailable
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.responses import respond_json
from mainstem.log.live import Live
from mainstem.log.store import Store


class Health:
    def __init__(self, store: Store, live: Live) -> None:
        self.store = store
        self._live = live

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond_json(send, {"status": "ok"})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._live.closing:
            raise Unavailable("the server is shutting down")
        if self.store.broken:
            raise Unavailable(f"the server refuses writes: {self.store.broken}")
        if self.store.full:
            raise StoreFull(f"the server refuses writes: {self.store.full}")
        await respond_json(send, {"status": "ready", "head": self.store.head})
