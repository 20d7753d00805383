"""The live tail of the log: its rows as server-sent events (SSE)."""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.log.commit import CommitLog
from mainstem.server.log_api.exporters import Exporters
from mainstem.server.log_api.formats import NDJSON
from mainstem.server.log_api.pages import EncodedPage, is_up_to_date
from mainstem.server.log_api.selection import Selection, parse_number
from mainstem.streams.reading.pump import Progress
from mainstem.streams.rules import sse


class LogFeed:
    """Encodes a selection of the log as SSE events for one reader."""

    def __init__(self, log: CommitLog, exporters: Exporters, selection: Selection) -> None:
        self._log = log
        self._exporters = exporters
        self._selection = msgspec.structs.replace(
            selection,
            bytes_max=min(selection.bytes_max, limits.LOG_EVENT_BYTES),
            position=selection.position or 0,
        )
        self._sent: tuple[int, int] | None = None
        """Where the last event ended: the committed id, and the position in the record after it."""

    async def next_events(self) -> tuple[bytes, Progress]:
        if self._log.live.closing:
            return b"", "ended"
        if self._sent is not None and self._selection.after >= self._log.store.head:
            return b"", "caught up"  # a page costs a round trip to a worker process
        page = await self._exporters.page(self._selection, NDJSON)
        up_to_date = is_up_to_date(self._selection, page, self._log.store.head)
        events = b""
        if (page.next, page.position) != self._sent:
            self._sent = page.next, page.position
            events = self._encode(page, up_to_date)
        self._selection = msgspec.structs.replace(self._selection, after=page.next, position=page.position)
        if page.next >= self._selection.until:
            return events, "ended"
        return events, "caught up" if up_to_date else "behind"

    def _encode(self, page: EncodedPage, up_to_date: bool) -> bytes:
        data = b"event: data\n%b\n" % sse.encode_lines(bytes(page.body[:-1])) if page.rows else b""
        control: dict[str, Any] = {"next": page.next, "head": self._log.store.head, "upToDate": up_to_date}
        event_id = b"%d" % page.next
        if page.position:
            control["position"] = page.position
            event_id += b":%d" % page.position
        return data + b"event: control\ndata:%b\nid:%b\n\n" % (msgspec.json.encode(control), event_id)


def resume(selection: Selection, last_event_id: str) -> Selection:
    """Return the selection after the event with this id; an empty id changes nothing."""
    if not last_event_id:
        return selection
    after, position = parse_event_id(last_event_id)
    return msgspec.structs.replace(selection, after=after, position=position)


def parse_event_id(text: str) -> tuple[int, int]:
    """Return what an event id of this server stands for: the last complete committed id, and the position after it."""
    after, _, position = text.partition(":")
    return parse_number("Last-Event-ID", after), parse_number("Last-Event-ID", position or "0")
