"""Clients that submit, sync, subscribe, disconnect and reconnect, in any order, against a model of the contract."""

import tempfile
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from mainstem import limits
from mainstem.server.settings import Settings
from mainstem.testing.loops import new_runner
from tests.support.examples import examples
from tests.support.sync_peers import Json, Peer, fresh
from tests.sync.loop_servers import LoopServer

pytestmark = pytest.mark.slow

PARTITIONS = ["a", "b", "c"]
MEMBERS_MAX = 3

some_partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3)
any_partitions = st.lists(st.sampled_from(PARTITIONS), max_size=3)
items = st.tuples(st.integers(0, 9), some_partitions, st.integers(0, 1))
batches = st.lists(items, min_size=1, max_size=3, unique_by=lambda item: item[0])


@dataclass
class Committed:
    committed_id: int
    id: str
    partitions: list[str]
    event: Json
    origin: "Member | None"


@dataclass
class Cycle:
    partitions: list[str]
    until: int
    next_since: int


@dataclass(eq=False)
class Member:
    """A connection, and the events that it has yet to receive."""

    peer: Peer
    subscriptions: dict[str, int] = field(default_factory=dict)
    cycle: Cycle | None = None
    held_from: int = 0
    paged: set[int] = field(default_factory=set)
    expected: deque[int] = field(default_factory=deque)
    retried: set[int] = field(default_factory=set)
    """Events of others that this client has submitted too: it has their results, and may also get the broadcasts."""

    def wants(self, event: Committed) -> bool:
        return event.origin is not self and any(
            self.subscriptions.get(name, event.committed_id) < event.committed_id for name in event.partitions
        )


class SyncMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = new_runner()
        self.directory = tempfile.TemporaryDirectory()
        self.server = LoopServer(Settings(port=0, data=self.directory.name))
        self.runner.run(self.server.start())
        self.log: list[Committed] = []
        self.by_id: dict[str, Committed] = {}
        self.members: list[Member] = []
        self.names = fresh("machine")
        self.join()
        self.submit(0, [(100 + number, [name], 0) for number, name in enumerate("aabbcabc")])  # some history

    # The model

    def take(self, member: Member | None, item: Json) -> Json:
        """Return the expected result of an item."""
        partitions = sorted(set(item["partitions"]))
        known = self.by_id.get(item["id"])
        if known is not None:
            same = (known.partitions, known.event) == (partitions, item["event"])
            if same and member is not None:
                member.retried.add(known.committed_id)
            return {"status": "committed", "committed_id": known.committed_id} if same else {"status": "rejected"}
        event = Committed(len(self.log) + 1, item["id"], partitions, item["event"], member)
        self.log.append(event)
        self.by_id[event.id] = event
        return {"status": "committed", "committed_id": event.committed_id}

    def spread(self, since: int) -> None:
        """Add the events after `since` to the connections that should receive them at once."""
        for event in self.log[since:]:
            for member in self.members:
                if member.cycle is None and member.wants(event):
                    member.expected.append(event.committed_id)

    def page(self, member: Member, partitions: list[str], since: int, limit: int) -> tuple[list[Committed], bool]:
        assert member.cycle is not None
        found = [
            event for event in self.log[since : member.cycle.until] if not set(partitions).isdisjoint(event.partitions)
        ]
        return found[:limit], len(found) > limit

    # Observations

    def check_broadcast(self, member: Member, message: Json) -> None:
        payload = message["payload"]
        assert message["type"] == "event_broadcast", message
        while len(member.expected) > 1 and member.expected[0] != payload["committed_id"]:
            assert member.expected.popleft() in member.retried, f"events are missing before {payload}"
        assert member.expected, f"nothing was expected, but {payload} arrived"
        assert payload["committed_id"] == member.expected.popleft()
        self.check_row(payload)

    def check_row(self, row: Json) -> None:
        event = self.log[row["committed_id"] - 1]
        assert (row["id"], row["partitions"], row["event"]) == (event.id, event.partitions, event.event)

    async def reply(self, member: Member, msg_id: str) -> Json:
        """Return the reply to a request, after handling the broadcasts before it."""
        while True:
            message = await member.peer.next()
            if message.get("msg_id") == msg_id:
                return message
            self.check_broadcast(member, message)

    async def ask(self, member: Member, type_: str, payload: Any) -> Json:
        msg_id = fresh("ask")
        await member.peer.send(type_, payload, msg_id=msg_id)
        return await self.reply(member, msg_id)

    async def settle(self, member: Member) -> None:
        """Check that every expected event has arrived, and nothing else."""
        while not member.retried.issuperset(member.expected):
            self.check_broadcast(member, await member.peer.next())
        await self.ask(member, "heartbeat", {})

    # Rules

    @precondition(lambda self: len(self.members) < MEMBERS_MAX)
    @rule()
    def join(self) -> None:
        async def join() -> None:
            peer = await Peer.dial(self.server.address)
            peer.wait_s_max = 3  # a lost event never arrives, however long the test waits
            welcome = await peer.connect()
            assert welcome["global_last_committed_id"] == len(self.log)
            self.members.append(Member(peer))

        self.runner.run(join())

    def pick(self, number: int) -> Member:
        return self.members[number % len(self.members)]

    def make(self, batch: list[tuple[int, list[str], int]]) -> list[Json]:
        return [
            {"id": f"{self.names}-{number}-{len(self.log) // 8}", "partitions": partitions, "event": {"value": value}}
            for number, partitions, value in batch
        ]

    @precondition(lambda self: self.members)
    @rule(who=st.integers(0, 2), batch=batches)
    def submit(self, who: int, batch: list) -> None:
        member, head = self.pick(who), len(self.log)
        drafts = self.make(batch)
        expected = [self.take(member, item) for item in drafts]
        self.spread(head)
        reply = self.runner.run(self.ask(member, "submit_events", {"events": drafts}))
        results = reply["payload"]["results"]
        assert [result["id"] for result in results] == [item["id"] for item in drafts]
        for result, outcome in zip(results, expected, strict=True):
            assert result.items() >= outcome.items()
            assert result["status"] == "committed" or result["reason"] == "validation_failed"

    @precondition(lambda self: len(self.members) > 1)
    @rule(who=st.integers(0, 2), item=items)
    def submit_the_same_at_once(self, who: int, item: tuple) -> None:
        one, other = self.pick(who), self.pick(who + 1)
        head = len(self.log)
        [draft] = self.make([item])

        async def submit() -> None:
            for member in (one, other):
                await member.peer.send("submit_event", draft, msg_id="same")
            # The log shows which of the two was first.
            async with await Peer.dial(self.server.address) as witness:
                await witness.connect()
                expected = self.take(None, draft)
                if expected["status"] == "committed":
                    one.retried.add(expected["committed_id"])
                    other.retried.add(expected["committed_id"])
                if len(self.log) > head:
                    event = self.log[-1]
                    rows: list[Json] = []
                    while not rows:
                        rows = (await witness.sync(event.partitions, head))["events"]
                    event.origin = one if rows[0]["client_id"] == one.peer.client_id else other
                    self.spread(head)
            for member in (one, other):
                reply = await self.reply(member, "same")
                assert reply["payload"].items() >= expected.items()

        self.runner.run(submit())

    @precondition(lambda self: self.members)
    @rule(
        who=st.integers(0, 2),
        partitions=any_partitions,
        since=st.sampled_from([0, 0, 0, 1, 2, 5, 10, 50]),
        limit=st.integers(1, 2),
        subscriptions=st.none() | any_partitions,
        go_on=st.sampled_from([True, True, True, False]),
    )
    def sync(self, who: int, partitions: list, since: int, limit: int, subscriptions: list | None, go_on: bool) -> None:
        member = self.pick(who)
        if go_on and member.cycle is not None:
            partitions, since = member.cycle.partitions, member.cycle.next_since
        partitions = sorted(set(partitions))
        self.runner.run(self.settle(member))
        head = len(self.log)
        if member.cycle is None:
            member.held_from = head
        if member.cycle is None or (member.cycle.partitions, member.cycle.next_since) != (partitions, since):
            member.cycle = Cycle(partitions, head, since)
        payload: Json = {"partitions": partitions, "since_committed_id": since, "limit": limit}
        if subscriptions is not None:
            payload["subscription_partitions"] = subscriptions
            member.subscriptions = {
                name: member.subscriptions.get(name, member.cycle.until) for name in sorted(set(subscriptions))
            }
        events, has_more = self.page(member, partitions, since, limit)
        body = self.runner.run(self.ask(member, "sync", payload))["payload"]
        assert [row["committed_id"] for row in body["events"]] == [event.committed_id for event in events]
        for row in body["events"]:
            self.check_row(row)
        member.paged |= {event.committed_id for event in events}
        member.cycle.next_since = events[-1].committed_id if events else since
        assert body["has_more"] == has_more
        assert body["next_since_committed_id"] == member.cycle.next_since
        assert body["sync_to_committed_id"] == member.cycle.until
        assert body["effective_subscriptions"] == list(member.subscriptions)
        if not has_more:
            self.end_cycle(member)

    def end_cycle(self, member: Member) -> None:
        for event in self.log[member.held_from :]:
            if member.wants(event) and event.committed_id not in member.paged:
                member.expected.append(event.committed_id)
        member.cycle = None
        member.paged.clear()

    @precondition(lambda self: self.members)
    @rule(who=st.integers(0, 2), since=st.sampled_from([-1, "0", None]))
    def sync_badly(self, who: int, since: Any) -> None:
        payload = {"partitions": ["a"], "since_committed_id": since, "subscription_partitions": []}
        reply = self.runner.run(self.ask(self.pick(who), "sync", payload))
        assert reply["payload"]["code"] == "bad_request"

    @precondition(lambda self: self.members)
    @rule(who=st.integers(0, 2))
    def listen(self, who: int) -> None:
        self.runner.run(self.settle(self.pick(who)))

    @precondition(lambda self: len(self.members) > 1)
    @rule(who=st.integers(0, 2))
    def leave(self, who: int) -> None:
        member = self.pick(who)
        self.members.remove(member)
        self.runner.run(member.peer.hang_up())

    @precondition(lambda self: len(self.log) > 20)
    @rule(settled=st.booleans())
    def restart(self, settled: bool) -> None:
        async def restart() -> None:
            for member in self.members:
                if settled:
                    await self.settle(member)
                await member.peer.hang_up()
            await self.server.restart()

        self.runner.run(restart())
        self.members.clear()
        self.join()

    def teardown(self) -> None:
        try:
            self.runner.run(self.finish())
        finally:
            self.runner.close()
            self.directory.cleanup()

    async def finish(self) -> None:
        try:
            for member in self.members:
                await self.settle(member)
            async with await Peer.dial(self.server.address) as witness:
                await witness.connect()
                rows = (await witness.sync(PARTITIONS, limit=1000))["events"]
            assert [row["committed_id"] for row in rows] == [event.committed_id for event in self.log]
            for row in rows:
                self.check_row(row)
        finally:
            for member in self.members:
                await member.peer.hang_up()
            await self.server.stop()


def test_every_client_gets_its_events_in_order_and_once_and_nothing_else(monkeypatch):
    monkeypatch.setattr(limits, "SYNC_PAGE_MIN", 1)
    # Not shrunk: each attempt that misses an event waits for it, and a run is short enough to read.
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    run_state_machine_as_test(
        SyncMachine, settings=settings(max_examples=examples(60), stateful_step_count=40, deadline=None, phases=phases)
    )
