"""A session, its store and a simulated server, one step at a time, so that a test can stop at any point."""

import json
from collections import deque
from typing import Any

from mainstem.client.offline.core.effects import Effect, Load, Pause, Report, Save, Send
from mainstem.client.offline.core.records import Committed, Diverged, Draft, StoreUpdate
from mainstem.client.offline.core.session import Phase, Session
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.submissions import make_draft
from mainstem.client.offline.views import View, Views
from mainstem.client.sync_protocol.errors import SyncClientError
from tests.offline_client.pretend import Line, PretendServer

CLIENT = "me"


def collect(state: list[Any], event: Any) -> list[Any]:
    """A reducer whose result depends on the order and number of events; it modifies its state."""
    state.append([event.id, event.event["n"]])
    return state


class Harness:
    def __init__(self, server: PretendServer, store: ClientStore | None = None) -> None:
        self.server = server
        self.store = store or MemoryClientStore()
        self.store.open(CLIENT)
        self.session: Session | None = None
        self.line: Line | None = None
        self.effects: deque[Effect] = deque()
        self.sent: deque[bytes] = deque()
        self.reports: list[SyncClientError] = []
        self.pauses = 0
        self.drafted = 0
        self.open_views()

    def open_views(self) -> None:
        self.views = Views(self.store, CLIENT)
        self.views.register(View("all", collect, b"[]", None, 1, None))
        self.views.register(View("p", collect, b"[]", ("p",), 1, None))

    def make(self, *partitions: str, **event: Any) -> Draft:
        self.drafted += 1
        body = {"n": self.drafted, **event}
        return make_draft(f"draft-{self.drafted}", partitions or ("p",), json.dumps(body).encode())

    def submit(self, *partitions: str, **event: Any) -> str:
        draft = self.make(*partitions, **event)
        [kept] = self.store.add_drafts([draft])
        assert isinstance(kept, Draft)
        if self.session is not None:
            self.effects += self.session.send_drafts()
        return draft.id

    # The connection

    def connect(self) -> None:
        assert self.session is None
        self.line = Line(self.server)
        self.session = Session(self.store.facts(), CLIENT, "token")
        self.effects += self.session.open()

    def disconnect(self) -> None:
        """Lose everything in transit, and all effects that were not performed."""
        if self.line in self.server.lines:
            self.line.hang_up()
        self.session = self.line = None
        self.effects.clear()
        self.sent.clear()

    def restart(self) -> None:
        self.disconnect()
        self.store.close()
        self.store.open(CLIENT)
        self.open_views()

    # One step

    def perform(self) -> None:
        """Perform the next effect."""
        effect = self.effects.popleft()
        match effect:
            case Save(changes):
                self.apply(changes)
            case Send(text):
                self.sent.append(text)
            case Load(items_max, bytes_max):
                assert self.session is not None
                self.effects += self.session.offer(self.store.drafts(0, items_max, bytes_max))
            case Pause():
                self.pauses += 1
            case Report(error):
                self.reports.append(error)

    def apply(self, changes: StoreUpdate) -> None:
        try:
            applied = self.store.apply([changes])
        except Diverged:
            applied = self.store.apply([StoreUpdate(reset=True)])
            self.disconnect()
        self.views.invalidate(applied)

    def carry_up(self) -> None:
        """Deliver the client's next message to the server."""
        assert self.line is not None
        self.line.hear(self.sent.popleft())

    def carry_down(self) -> None:
        """Deliver the server's next message to the client."""
        assert self.session is not None
        assert self.line is not None
        try:
            self.effects += self.session.receive(self.line.out.popleft().encode())
        except SyncClientError as error:
            self.reports.append(error)
            self.disconnect()

    def step(self) -> bool:
        """Do any possible step; return False if there is none."""
        if self.effects:
            self.perform()
        elif self.sent:
            self.carry_up()
        elif self.line is not None and self.line.out:
            self.carry_down()
        elif self.pauses and self.session is not None:
            self.pauses -= 1
            self.effects += self.session.resume()
        else:
            return False
        return True

    def settle(self) -> None:
        """Take steps until nothing is left to do."""
        for _ in range(100_000):
            if not self.step():
                return
        raise AssertionError("the steps never end")

    def come_to_rest(self) -> None:
        if self.session is None:
            self.connect()
        self.settle()
        if self.session is None:  # the server refused it
            self.connect()
            self.settle()
        assert self.session is not None
        assert self.session.phase is Phase.LIVE

    # Inspection

    def copy(self) -> list[tuple[int, str]]:
        return [(event.committed_id, event.id) for event in self.store.events(None, 0, None, 1_000_000)]

    def truth(self) -> list[tuple[int, str]]:
        names = self.store.facts().names
        return [
            (event["committed_id"], event["id"])
            for event in self.server.log
            if not names.isdisjoint(event["partitions"])
        ]

    def fold(self, *partitions: str) -> list[Any]:
        """Return the state of a view, folded from scratch over the store."""
        names = partitions or self.store.facts().names
        events = self.store.events(partitions or None, 0, None, 1_000_000)
        drafts = [
            draft for draft in self.store.drafts(0, 1_000_000, 2**40) if not set(draft.partitions).isdisjoint(names)
        ]
        items: list[Committed | Draft] = [*events, *drafts]
        return [[item.id, json.loads(item.event)["n"]] for item in items]
