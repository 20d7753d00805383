"""`GET /metrics`: everything that the server counts, for Prometheus and whatever reads its format."""

import asyncio
import logging
from typing import Any

from mainstem import limits
from mainstem.access import Identity
from mainstem.errors import LocalOnly, MainstemError, NotFound
from mainstem.http.asgi import Receive, Scope, Send
from mainstem.http.requests import collect_headers
from mainstem.http.responses import NO_STORE, SECURITY_HEADERS, method_not_allowed, respond, respond_head
from mainstem.log.commit import CommitLog
from mainstem.log.pruned import PRUNED_KEY, Pruned
from mainstem.log.store.base import DiskUsage
from mainstem.metrics.catalogue import Metrics
from mainstem.metrics.exposition import choose_format, encode
from mainstem.server.addresses import is_loopback
from mainstem.server.settings import MetricsAccess
from mainstem.streams.subscriptions.dispatcher import Dispatcher

logger = logging.getLogger(__name__)


class MetricsHttp:
    def __init__(self, metrics: Metrics, log: CommitLog, dispatcher: Dispatcher, access: MetricsAccess) -> None:
        self._metrics = metrics
        self._log = log
        self._dispatcher = dispatcher
        self._lag_bytes = 0
        self._access = access
        self._usage = DiskUsage({})
        self._pruned = 0
        self._current_until_s = 0.0
        self._refreshing = asyncio.Lock()
        store = log.store
        metrics.store_bytes.read = lambda: [((part,), size) for part, size in self._usage.parts.items()]
        metrics.free_bytes.read = lambda: [] if self._usage.free is None else [((), self._usage.free)]
        metrics.subscription_lag_bytes.read_with(lambda: self._lag_bytes)
        metrics.pruned.read_with(lambda: self._pruned)
        metrics.leader.read_with(lambda: int(store.is_leader))
        metrics.refuses_writes.read = lambda: [
            (("broken",), int(store.broken is not None)),
            (("full",), int(store.full is not None)),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._admit(scope)
        if scope["method"] not in ("GET", "HEAD"):
            raise method_not_allowed(scope["method"], "GET, HEAD")
        headers = collect_headers(scope["headers"])
        format_ = choose_format(headers.get(b"accept", b"").decode("latin-1"))
        reply = [*SECURITY_HEADERS, NO_STORE, (b"content-type", format_.encode()), (b"vary", b"accept")]
        if scope["method"] == "HEAD":
            await respond_head(send, reply)
            return
        await self.refresh()
        await respond(send, 200, reply, encode(self._metrics.families, format_))

    def _admit(self, scope: Scope) -> None:
        if self._access == "off":
            raise NotFound("metrics are off; start the server with --metrics loopback or --metrics on")
        identity: Identity = scope["mainstem.identity"]
        if not (identity.admin or identity.metrics):
            raise identity.forbid("reading metrics")
        if self._access == "loopback" and not is_local(scope.get("client")):
            raise LocalOnly("metrics are for programs on the same machine; --metrics on serves them to others")

    async def refresh(self) -> None:
        """Look at what only the disk or the database knows, unless that was done a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._refreshing:
            if loop.time() < self._current_until_s:
                return
            self._current_until_s = loop.time() + limits.STORE_SIZES_KEPT_S
            try:
                self._usage = await self._log.store.disk_usage()
                pruned: Pruned | None = await self._log.store.get(PRUNED_KEY)
                self._pruned = 0 if pruned is None else pruned.until
                self._lag_bytes = (await self._dispatcher.measure_lag()).bytes
            except (MainstemError, OSError) as error:
                logger.info("the size of the store and the lag of subscriptions are not known at the moment: %s", error)


def is_local(client: Any) -> bool:
    """Return whether a client is on this machine: at a loopback address, or at a Unix socket, which has none."""
    return client is None or is_loopback(client[0])
