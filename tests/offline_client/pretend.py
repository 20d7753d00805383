"""A simulated server without sockets: the protocol over a list, with the quirks of older or faulty servers."""

import json
from collections import deque
from typing import Any

from mainstem.sync.protocol.canonical import content_hash
from mainstem.sync.protocol.messages import VERSION
from mainstem.sync.protocol.partitions import normalise

Json = dict[str, Any]
PAGE = 2  # small pages make long cycles


class PretendServer:
    """With `keeps_quiet`, it sends no broadcasts during a cycle, as the newer protocol says; otherwise at once."""

    def __init__(self, *, keeps_quiet: bool = True, page: int = PAGE) -> None:
        self.keeps_quiet = keeps_quiet
        self.page = page
        self.log: list[Json] = []
        self.ids: dict[str, tuple[int, bytes]] = {}
        self.lines: list[Line] = []
        self.forbidden: set[str] = set()
        self.complaints: deque[tuple[str, Json]] = deque()
        """Replies to the next requests, in place of regular ones."""

    @property
    def head(self) -> int:
        return self.log[-1]["committed_id"] if self.log else 0

    def commit(self, draft: Json, client_id: str, origin: "Line | None", gap: int = 1) -> Json:
        partitions = normalise(draft["partitions"])
        digest = content_hash(partitions, json.dumps(draft["event"]).encode())
        known = self.ids.get(draft["id"])
        rejected = {"id": draft["id"], "status": "rejected", "reason": "validation_failed", "errors": []}
        if not self.forbidden.isdisjoint(partitions):
            return rejected | {"reason": "forbidden"}
        if known is not None and known[1] != digest:
            return rejected
        if known is None:
            if draft["event"].get("bad"):
                return rejected | {"errors": [{"field": "event.bad", "message": "is bad"}]}
            event = {
                "id": draft["id"],
                "client_id": client_id,
                "partitions": list(partitions),
                "event": draft["event"],
                "committed_id": self.head + gap,
                "status_updated_at": "now",
            }
            self.log.append(event)
            known = self.ids[draft["id"]] = (event["committed_id"], digest)
            for line in self.lines:
                if line is not origin:
                    line.offer(event)
        if origin is not None:
            origin.own.add(known[0])
        return {"id": draft["id"], "status": "committed", "committed_id": known[0], "status_updated_at": "now"}

    def lose_tail(self, keep: int) -> list[str]:
        """Restore an old backup, and return the ids that are lost."""
        gone = [event["id"] for event in self.log[keep:]]
        del self.log[keep:]
        for id_ in gone:
            del self.ids[id_]
        return gone


class Line:
    """One connection: `hear` takes messages, and `out` holds the replies."""

    def __init__(self, server: PretendServer) -> None:
        self.server = server
        self.out: deque[str] = deque()
        self.client_id = ""
        self.subscriptions: set[str] = set()
        self.own: set[int] = set()
        self.cycle: tuple[list[str], int, int] | None = None  # partitions, next cursor, end
        self.requests: list[Json] = []
        server.lines.append(self)

    def hang_up(self) -> None:
        self.server.lines.remove(self)

    def say(self, type_: str, payload: Json, msg_id: str | None = None) -> None:
        message = {"type": type_, "payload": payload, "protocol_version": VERSION}
        self.out.append(json.dumps(message if msg_id is None else message | {"msg_id": msg_id}))

    def hear(self, text: str | bytes) -> None:
        message = json.loads(text)
        self.requests.append(message)
        if message["type"] != "connect" and self.server.complaints:
            code, details = self.server.complaints.popleft()
            self.say("error", {"code": code, "message": "no", "details": details}, message.get("msg_id"))
            return
        getattr(self, f"_hear_{message['type']}")(message["payload"], message.get("msg_id"))

    def _hear_connect(self, payload: Json, msg_id: str | None) -> None:
        self.client_id = payload["client_id"]
        self.say("connected", {"client_id": self.client_id, "server_last_committed_id": self.server.head}, msg_id)

    def _hear_heartbeat(self, payload: Json, msg_id: str | None) -> None:
        self.say("heartbeat_ack", {}, msg_id)

    def _hear_disconnect(self, payload: Json, msg_id: str | None) -> None:
        self.hang_up()

    def _hear_submit_events(self, payload: Json, msg_id: str | None) -> None:
        results = [self.server.commit(draft, self.client_id, self) for draft in payload["events"]]
        self.say("submit_events_result", {"results": results}, msg_id)

    def _hear_sync(self, payload: Json, msg_id: str | None) -> None:
        wanted, since = payload["partitions"], payload["since_committed_id"]
        asked = {*wanted, *payload.get("subscription_partitions", [])}
        if not self.server.forbidden.isdisjoint(asked):
            self.say("error", {"code": "forbidden", "message": "not allowed"}, msg_id)
            return
        if self.cycle is None or self.cycle[:2] != (wanted, since):
            self.cycle = (wanted, since, self.server.head)
        if "subscription_partitions" in payload:
            self.subscriptions = set(payload["subscription_partitions"])
        until = self.cycle[2]
        found = [
            event
            for event in self.server.log
            if since < event["committed_id"] <= until and not set(wanted).isdisjoint(event["partitions"])
        ]
        events, more = found[: self.server.page], len(found) > self.server.page
        following = events[-1]["committed_id"] if events else since
        page = {
            "partitions": wanted,
            "effective_subscriptions": sorted(self.subscriptions),
            "events": events,
            "next_since_committed_id": following,
            "sync_to_committed_id": until,
            "has_more": more,
        }
        self.say("sync_response", page, msg_id)
        self.cycle = (wanted, following, until) if more else None
        if not more and self.server.keeps_quiet:
            for event in self.server.log:
                if event["committed_id"] > until and event["committed_id"] not in self.own:
                    self.offer(event)

    def offer(self, event: Json) -> None:
        if self.cycle is not None and self.server.keeps_quiet:
            return
        if not self.subscriptions.isdisjoint(event["partitions"]):
            self.say("event_broadcast", event, f"evt-{event['committed_id']}")
