"""Results, broadcasts, pages, disconnects and restarts in any order: the copy equals the server's log."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mainstem.client.offline.core.records import StoreUpdate
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.stores.sqlite import SqliteClientStore
from tests.offline_client.harness import Harness
from tests.offline_client.pretend import Line, PretendServer
from tests.support.examples import examples

NAMES = ("p", "q", "r")
names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)


def seldom(choices):
    """Return one of them or, more often, nothing, so that connections last long enough for something to happen."""
    return st.sampled_from([*choices, *[None] * (6 * len(choices))])


class Interleavings(RuleBasedStateMachine):
    """Each rule is one small step of one side. At the end, everything settles and is compared."""

    def make_store(self) -> ClientStore:
        return MemoryClientStore()

    @initialize(keeps_quiet=st.booleans())
    def begin(self, keeps_quiet: bool) -> None:
        self.harness = Harness(PretendServer(keeps_quiet=keeps_quiet), self.make_store())
        self.harness.store.follow(["p"])
        self.others = 0
        self.lossy: list[Line] = []
        self.good: set[str] = set()
        self.bad: set[str] = set()
        self.lost: set[str] = set()
        self.is_rolled_back = False
        """Whether the server has lost the end of its log and the client does not know it yet."""

    # The client and the server

    @rule(partitions=names)
    def submit(self, partitions: list[str]) -> None:
        self.good.add(self.harness.submit(*partitions))

    @rule(partitions=names)
    def submit_what_is_rejected(self, partitions: list[str]) -> None:
        self.bad.add(self.harness.submit(*partitions, bad=True))

    @precondition(lambda self: not self.is_rolled_back)
    @rule(partitions=names, gap=st.integers(1, 3), number=st.integers(1, 6))
    def others_commit(self, partitions: list[str], gap: int, number: int) -> None:
        for _ in range(number):
            self.others += 1
            draft = {"id": f"other-{self.others}", "partitions": partitions, "event": {"n": -self.others}}
            self.harness.server.commit(draft, "somebody", None, gap)

    @rule(name=st.sampled_from(NAMES))
    def add_partition(self, name: str) -> None:
        harness = self.harness
        harness.store.follow([name])
        harness.views.invalidate_drafts()
        if harness.session is not None:
            harness.effects += harness.session.follow([name])

    @rule(name=seldom(NAMES))
    def remove_partition(self, name: str | None) -> None:
        if name is None:
            return
        harness = self.harness
        harness.apply(StoreUpdate(left=(name,)))
        if harness.session is not None:
            harness.effects += harness.session.unfollow([name])

    # The network

    @precondition(lambda self: self.harness.session is None)
    @rule()
    def connect(self) -> None:
        self.harness.connect()

    @precondition(lambda self: self.harness.effects)
    @rule(number=st.integers(1, 4))
    def perform(self, number: int) -> None:
        for _ in range(min(number, len(self.harness.effects))):
            if self.harness.effects:
                self.harness.perform()

    @precondition(lambda self: self.harness.sent and not self.is_rolled_back)
    @rule()
    def carry_up(self) -> None:
        self.harness.carry_up()

    @precondition(lambda self: self.harness.line is not None and self.harness.line.out)
    @rule(number=st.integers(1, 4))
    def carry_down(self, number: int) -> None:
        for _ in range(number):
            if self.harness.line is not None and self.harness.line.out:
                self.harness.carry_down()

    @rule(number=st.integers(5, 60))
    def go_on(self, number: int) -> None:
        if not self.is_rolled_back:
            for _ in range(number):
                self.harness.step()

    @precondition(lambda self: not self.is_rolled_back)
    @rule()
    def come_to_rest(self) -> None:
        """Settle without a new connection: pages and broadcasts must be enough if none was lost."""
        harness = self.harness
        if harness.session is None:
            harness.connect()
        line = harness.line
        harness.settle()
        if harness.session is not None and line not in self.lossy:
            assert harness.copy() == harness.truth()
            assert harness.store.facts().drafts == 0

    @rule(trouble=seldom(["disconnect", "restart"]))
    def have_trouble(self, trouble: str | None) -> None:
        if trouble is not None:
            getattr(self.harness, trouble)()

    # Faults of servers

    @precondition(lambda self: self.harness.line is not None and self.harness.line.out)
    @rule(at=st.integers(0, 10))
    def repeat_a_broadcast(self, at: int) -> None:
        assert self.harness.line is not None
        out = self.harness.line.out
        text = out[at % len(out)]
        if '"event_broadcast"' in text:
            out.append(text)

    @precondition(lambda self: self.harness.line is not None and self.harness.line.out)
    @rule(at=st.integers(0, 10))
    def lose_a_broadcast(self, at: int) -> None:
        line = self.harness.line
        assert line is not None
        if '"event_broadcast"' in line.out[at % len(line.out)]:
            del line.out[at % len(line.out)]
            self.lossy.append(line)

    @precondition(lambda self: self.harness.line is not None and len(self.harness.line.out) > 1)
    @rule(at=st.integers(0, 10))
    def swap_broadcasts(self, at: int) -> None:
        assert self.harness.line is not None
        out = self.harness.line.out
        first, second = at % len(out), (at + 1) % len(out)
        if '"event_broadcast"' in out[first] and '"event_broadcast"' in out[second]:
            out[first], out[second] = out[second], out[first]

    @rule(keep=seldom(range(7)))
    def lose_the_tail_of_the_log(self, keep: int | None) -> None:
        """Restore the server from an old backup, and connect before its log has grown again."""
        harness = self.harness
        if keep is not None and keep < len(harness.server.log):
            harness.disconnect()
            self.lost.update(harness.server.lose_tail(keep))
            harness.connect()
            self.is_rolled_back = True

    @precondition(lambda self: self.is_rolled_back)
    @rule()
    def meet_the_other_log(self) -> None:
        harness = self.harness
        harness.disconnect()
        harness.connect()
        harness.perform()
        harness.carry_up()
        harness.carry_down()
        while harness.effects and harness.session is not None:
            harness.perform()
        self.is_rolled_back = False

    # Invariants

    @invariant()
    def the_cursor_does_not_lie(self) -> None:
        """The copy has every event up to the cursor, in the partitions that the cursor covers."""
        if self.is_rolled_back:
            return
        facts = self.harness.store.facts()
        covered = {followed.name for followed in facts.partitions if followed.since is None}
        held = set(self.harness.copy())
        for event in self.harness.server.log:
            if event["committed_id"] <= facts.cursor and not covered.isdisjoint(event["partitions"]):
                assert (event["committed_id"], event["id"]) in held

    @invariant()
    def the_copy_has_nothing_of_its_own(self) -> None:
        if not self.is_rolled_back:
            copy = self.harness.copy()
            assert set(copy) <= set(self.harness.truth())
            assert copy == sorted(copy)

    @invariant()
    def views_show_the_copy_and_the_drafts(self) -> None:
        harness = self.harness
        assert harness.views.read("all") == harness.fold()
        assert harness.views.read("p") == harness.fold("p")
        harness.views.store_checkpoints(at_once=True)

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        harness = self.harness
        harness.server.keeps_quiet = True
        harness.disconnect()
        harness.come_to_rest()
        assert harness.copy() == harness.truth()
        assert harness.store.drafts(0, 1000, 2**40) == []
        assert {rejection.id for rejection in harness.store.rejections(1000)} == self.bad
        committed = [event["id"] for event in harness.server.log]
        assert len(committed) == len(set(committed))
        assert self.good - self.lost <= set(committed)
        assert not self.bad & set(committed)
        assert harness.views.read("all") == harness.fold()
        assert harness.session is not None
        assert harness.session.phase.value == "live"
        harness.store.close()


class InterleavingsOnDisk(Interleavings):
    def make_store(self) -> ClientStore:
        self.directory = tempfile.TemporaryDirectory()
        return SqliteClientStore(Path(self.directory.name) / "store.db")

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "directory"):
            self.directory.cleanup()


Interleavings.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
InterleavingsOnDisk.TestCase.settings = settings(Interleavings.TestCase.settings, max_examples=examples(15))
TestInterleavings = Interleavings.TestCase
TestInterleavingsOnDisk = pytest.mark.slow(InterleavingsOnDisk.TestCase)
