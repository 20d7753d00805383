"""The contract of every client store."""

import json
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainstem import limits
from mainstem.client.offline.core.errors import IdInUse, QueueFull, RejectionsFull, StoreInUse, WrongStore
from mainstem.client.offline.core.records import (
    Checkpoint,
    Commit,
    Committed,
    Diverged,
    Draft,
    Followed,
    Refusal,
    RejectedDraft,
    Snapshot,
    StoreUpdate,
)
from mainstem.client.offline.stores.contract import ClientStore
from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.stores.sqlite import SqliteClientStore
from mainstem.client.offline.submissions import make_draft
from mainstem.client.sync_protocol.messages import FieldFault

ALL = 1_000_000


def draft(id_: str, *partitions: str, n: int = 1) -> Draft:
    return make_draft(id_, partitions or ("p",), json.dumps({"n": n}).encode())


def event(
    committed_id: int, *partitions: str, id_: str | None = None, client_id: str = "other", n: int = 1
) -> Committed:
    body = json.dumps({"n": n}).encode()
    return Committed(committed_id, id_ or f"e{committed_id}", client_id, partitions or ("p",), body, "then")


def ids(store: ClientStore, *partitions: str, after: int = 0, until: int | None = None, limit: int = ALL) -> list[int]:
    return [found.committed_id for found in store.events(partitions or None, after, until, limit)]


class StoreContract(ABC):
    @abstractmethod
    def make(self, path: Path) -> ClientStore:
        """Return a store; for the same path, always the same one."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ClientStore]:
        self.path = tmp_path
        self.opened = self.make(tmp_path)
        self.opened.open("me")
        self.opened.follow(["p"])
        yield self.opened
        self.opened.close()

    def reopen(self) -> ClientStore:
        self.opened.close()
        self.opened = self.make(self.path)
        self.opened.open("me")
        return self.opened

    # Opening

    def test_a_store_belongs_to_its_first_client(self, store):
        store.close()
        with pytest.raises(WrongStore, match="'me'"):
            self.make(self.path).open("somebody")
        store.open("me")

    def test_a_second_client_is_refused_while_the_first_is_open(self, store):
        with pytest.raises(StoreInUse) as refused:
            self.make(self.path).open("me")
        assert "use another file" in str(refused.value)

    def test_everything_is_restored_after_a_restart(self, store):
        store.add_drafts([draft("a"), draft("b"), draft("c")])
        store.follow(["q"])
        changes = StoreUpdate(
            events=(event(3), event(5, "p", "q")),
            refusals=(Refusal("b", "validation_failed", (FieldFault("event.n", "is 1"),)),),
            cursor=5,
            fetched=(("q", 4),),
            snapshots=(Snapshot("q", 2, b"{}"),),
        )
        store.apply([changes])
        store.save_checkpoint(Checkpoint("v", 1, ("p",), 5, b"7"))
        before = self.everything(store)
        assert self.everything(self.reopen()) == before
        assert before["facts"].partitions == (Followed("p", None), Followed("q", 4))

    def everything(self, store: ClientStore) -> dict[str, Any]:
        return {
            "facts": store.facts(),
            "drafts": store.drafts(0, ALL, ALL),
            "events": store.events(None, 0, None, ALL),
            "rejections": store.rejections(ALL),
            "snapshots": store.snapshots(None),
            "checkpoint": store.load_checkpoint("v"),
        }

    # Partitions

    def test_the_first_partitions_are_covered_by_the_cursor_and_later_ones_are_fetched_from_0(self, store):
        assert store.facts().partitions == (Followed("p", None),)
        assert store.follow(["q", "p"]).partitions == (Followed("p", None), Followed("q", 0))

    def test_a_fetched_partition_is_then_covered_by_the_cursor(self, store):
        store.follow(["q"])
        store.apply([StoreUpdate(fetched=(("q", 7),))])
        assert store.facts().partitions[1] == Followed("q", 7)
        store.apply([StoreUpdate(joined=("q",))])
        assert store.facts().partitions[1] == Followed("q", None)

    def test_progress_of_an_unsubscribed_partition_is_ignored(self, store):
        store.apply([StoreUpdate(left=("p",))])
        store.apply([StoreUpdate(fetched=(("p", 7),), joined=("p",))])
        assert store.facts().partitions == ()

    def test_removing_a_partition_discards_what_no_other_partition_shows(self, store):
        store.follow(["q"])
        store.apply([StoreUpdate(events=(event(1, "p"), event(2, "p", "q"), event(3, "q")))])
        applied = store.apply([StoreUpdate(left=("p",))])
        assert applied.lowest == {"p": 0}
        assert ids(store) == [2, 3]
        assert ids(store, "p") == []

    # Drafts

    def test_drafts_have_a_clock_that_never_goes_back(self, store):
        store.add_drafts([draft("a"), draft("b")])
        store.apply([StoreUpdate(commits=(Commit("b", 1, ""),))])
        [kept] = self.reopen().add_drafts([draft("c")])
        assert [found.clock for found in self.opened.drafts(0, ALL, ALL)] == [1, 3]
        assert isinstance(kept, Draft)
        assert kept.clock == 3

    def test_the_same_draft_again_is_the_same_draft(self, store):
        [first] = store.add_drafts([draft("a")])
        assert store.add_drafts([draft("a"), draft("a")]) == [first, first]
        assert store.facts().drafts == 1

    def test_an_id_with_different_content_is_refused_and_the_other_drafts_are_kept(self, store):
        store.apply([StoreUpdate(events=(event(4, id_="done"),))])
        store.add_drafts([draft("a")])
        fault, other, known, changed = store.add_drafts(
            [draft("a", n=2), draft("b"), draft("done"), draft("done", "q")]
        )
        assert isinstance(fault, IdInUse)
        assert other.id == "b"
        assert known.committed_id == 4
        assert isinstance(changed, IdInUse)

    def test_drafts_are_returned_in_clock_order_and_within_limits(self, store):
        store.add_drafts([draft(name) for name in "zyx"])
        assert [found.id for found in store.drafts(0, 2, ALL)] == ["z", "y"]
        assert [found.id for found in store.drafts(1, 2, ALL)] == ["y", "x"]
        assert [found.id for found in store.drafts(0, 9, 2 * len(b'{"n": 1}'))] == ["z", "y"]
        assert [found.id for found in store.drafts(0, 9, 1)] == ["z"], "at least one draft is returned, however large"

    def test_a_full_queue_refuses_and_names_a_remedy(self, store, monkeypatch):
        monkeypatch.setattr(limits, "OFFLINE_DRAFTS_MAX", 2)
        *_, fault = store.add_drafts([draft("a"), draft("b"), draft("c")])
        assert isinstance(fault, QueueFull)
        assert "synced()" in str(fault)
        store.apply([StoreUpdate(commits=(Commit("a", 1, ""),))])
        assert isinstance(store.add_drafts([draft("c")])[0], Draft)

    def test_a_queue_that_is_full_by_bytes_refuses_drafts(self, store, monkeypatch):
        monkeypatch.setattr(limits, "OFFLINE_DRAFTS_BYTES_MAX", 20)
        *_, fault = store.add_drafts([draft("a"), draft("b"), draft("c")])
        assert isinstance(fault, QueueFull)
        store.apply([StoreUpdate(refusals=(Refusal("a", "forbidden"),))])
        assert isinstance(self.reopen().add_drafts([draft("c")])[0], Draft)

    def test_rejections_are_kept_until_they_are_dismissed(self, store, monkeypatch):
        monkeypatch.setattr(limits, "OFFLINE_REJECTIONS_MAX", 1)
        store.add_drafts([draft("a"), draft("b")])
        faults = (FieldFault("event", "no"),)
        applied = store.apply(
            [StoreUpdate(refusals=(Refusal("a", "forbidden", faults), Refusal("unknown", "forbidden")))]
        )
        [rejection] = applied.rejected
        assert (rejection.id, rejection.reason, rejection.errors) == ("a", "forbidden", faults)
        assert store.rejections(ALL) == [rejection]
        assert store.find("a") == rejection
        assert isinstance(store.add_drafts([draft("a")])[0], RejectedDraft)
        assert isinstance(store.add_drafts([draft("c")])[0], RejectionsFull)
        assert store.dismiss(["a", "unknown"]) == 1
        assert isinstance(store.add_drafts([draft("a")])[0], Draft)

    def test_the_id_of_a_rejected_draft_is_free_for_new_content(self, store, monkeypatch):
        monkeypatch.setattr(limits, "OFFLINE_REJECTIONS_MAX", 1)
        store.add_drafts([draft("a")])
        store.apply([StoreUpdate(refusals=(Refusal("a", "validation_failed"),))])
        [corrected] = store.add_drafts([draft("a", n=2)])
        assert isinstance(corrected, Draft)
        assert corrected.clock == 2
        assert store.rejections(ALL) == []
        store = self.reopen()
        assert store.rejections(ALL) == []
        assert store.find("a") == corrected
        assert isinstance(store.add_drafts([draft("a", n=3)])[0], IdInUse)
        store.apply([StoreUpdate(refusals=(Refusal("a", "validation_failed"),))])
        assert isinstance(store.add_drafts([draft("b")])[0], RejectionsFull)

    # Applying

    def test_an_event_is_applied_once_however_it_arrives(self, store):
        store.add_drafts([draft("a")])
        by_result = StoreUpdate(commits=(Commit("a", 4, "then"),))
        by_page = StoreUpdate(events=(event(4, id_="a", client_id="me"),), cursor=4)
        first = store.apply([by_result])
        assert (first.events, first.first, first.last, first.settled) == (1, 4, 4, [("a", 4)])
        for again in (by_result, by_page, StoreUpdate(events=by_page.events)):
            applied = store.apply([again])
            assert (applied.events, applied.settled, applied.lowest) == (0, [], {})
        assert ids(store) == [4]
        assert store.facts().cursor == 4

    def test_a_page_settles_a_draft_whose_result_was_lost(self, store):
        store.add_drafts([draft("a"), draft("b")])
        applied = store.apply([StoreUpdate(events=(event(9, id_="a", client_id="me"),))])
        assert applied.settled == [("a", 9)]
        assert [left.id for left in store.drafts(0, ALL, ALL)] == ["b"]
        assert store.facts().drafts == 1

    def test_another_clients_event_with_the_id_of_a_draft_does_not_settle_it(self, store):
        store.add_drafts([draft("a", n=1)])
        applied = store.apply([StoreUpdate(events=(event(9, id_="a", n=2),))])
        assert applied.settled == []
        assert [left.id for left in store.drafts(0, ALL, ALL)] == ["a"]

    def test_events_are_in_committed_order_whatever_the_order_of_arrival(self, store):
        store.apply([StoreUpdate(events=(event(9),)), StoreUpdate(events=(event(3), event(5)))])
        assert ids(store) == [3, 5, 9]

    def test_only_followed_partitions_are_shown(self, store):
        store.add_drafts([draft("mine", "elsewhere")])
        applied = store.apply([StoreUpdate(events=(event(1, "q"),), commits=(Commit("mine", 2, ""),))])
        assert (applied.events, applied.settled) == (0, [("mine", 2)])
        assert ids(store) == []
        assert store.find("mine").committed_id == 2, "the result of the client's own draft is known nevertheless"
        store.follow(["elsewhere"])
        assert store.apply([StoreUpdate(events=(event(2, "elsewhere", id_="mine", client_id="me"),))]).events == 1
        assert ids(store) == [2]

    def test_reads_are_limited_by_ids_partitions_and_number(self, store):
        store.follow(["q"])
        events = tuple(event(n, *(["p", "q"] if n % 3 == 0 else ["pq"[n % 2]])) for n in range(1, 11))
        store.apply([StoreUpdate(events=events)])
        assert ids(store, "p") == [2, 3, 4, 6, 8, 9, 10]
        assert ids(store, "p", "q") == list(range(1, 11))
        assert ids(store, after=3, until=7) == [4, 5, 6, 7]
        assert ids(store, "q", after=1, limit=2) == [3, 5]

    @pytest.mark.parametrize("rival", [event(4, id_="x"), event(5, id_="e4")])
    def test_a_contradiction_changes_nothing(self, store, rival):
        store.apply([StoreUpdate(events=(event(4),), cursor=4)])
        with pytest.raises(Diverged):
            store.apply([StoreUpdate(events=(event(6),), cursor=6), StoreUpdate(events=(rival,))])
        assert ids(store) == [4]
        assert store.facts().cursor == 4

    def test_a_reset_drops_committed_events_and_keeps_the_drafts(self, store):
        store.add_drafts([draft("a")])
        store.follow(["q"])
        store.apply([StoreUpdate(events=(event(4),), cursor=4, snapshots=(Snapshot("p", 2, b"1"),))])
        store.save_checkpoint(Checkpoint("v", 1, None, 4, b"1"))
        assert store.apply([StoreUpdate(reset=True)]).reset
        facts = store.facts()
        assert (facts.cursor, facts.highest, facts.drafts) == (0, 0, 1)
        assert facts.partitions == (Followed("p", None), Followed("q", None))
        assert (ids(store), store.snapshots(None), store.load_checkpoint("v")) == ([], [], None)
        store.apply([StoreUpdate(events=(event(2, id_="e4"),))])
        assert ids(store) == [2]

    def test_a_snapshot_replaces_older_events_of_its_partition(self, store):
        store.follow(["q"])
        store.apply([StoreUpdate(events=(event(1, "p"), event(2, "p", "q"), event(3, "p")))])
        applied = store.apply([StoreUpdate(snapshots=(Snapshot("p", 2, b"[1]"), Snapshot("z", 2, b"1")))])
        assert applied.lowest == {"p": 0}
        assert ids(store, "p") == [3]
        assert ids(store, "q") == [2]
        assert store.snapshots(["p"]) == [Snapshot("p", 2, b"[1]")]
        store.apply([StoreUpdate(events=(event(1, "p"), event(2, "p", "q")), snapshots=(Snapshot("p", 1, b"[0]"),))])
        assert ids(store, "p") == [3]
        assert store.snapshots(None) == [Snapshot("p", 2, b"[1]")], "an older snapshot has no effect"

    # Views

    @pytest.mark.parametrize(
        ("partitions", "changes", "stays"),
        [
            (None, StoreUpdate(events=(event(8),)), True),
            (None, StoreUpdate(events=(event(5),)), False),
            (("p",), StoreUpdate(events=(event(5, "q"),)), True),
            (("p",), StoreUpdate(events=(event(5, "p", "q"),)), False),
            (None, StoreUpdate(left=("q",)), False),
            (("p",), StoreUpdate(left=("q",)), True),
            (("p",), StoreUpdate(snapshots=(Snapshot("p", 3, b"1"),)), False),
            (None, StoreUpdate(cursor=9), True),
        ],
    )
    def test_a_checkpoint_is_dropped_when_an_older_event_arrives(self, store, partitions, changes, stays):
        store.follow(["q"])
        store.save_checkpoint(Checkpoint("v", 1, partitions, 6, b"0"))
        kept = Checkpoint("v", 2, partitions, 7, b"1")
        store.save_checkpoint(kept)
        store.apply([changes])
        assert store.load_checkpoint("v") == (kept if stays else None)


class TestMemoryClientStore(StoreContract):
    def make(self, path: Path) -> ClientStore:
        if not hasattr(self, "kept"):
            self.kept = MemoryClientStore()
        return self.kept


class TestSqliteClientStore(StoreContract):
    def make(self, path: Path) -> ClientStore:
        return SqliteClientStore(path / "store.db")

    def test_a_file_of_another_program_is_refused(self, tmp_path):
        with apsw.Connection(str(tmp_path / "store.db")) as db:
            db.execute("CREATE TABLE theirs (x)")
        with pytest.raises(WrongStore, match="another program"):
            self.make(tmp_path).open("me")
        (tmp_path / "store.db").write_bytes(b"not a database" * 100)
        with pytest.raises(WrongStore, match="cannot open"):
            self.make(tmp_path).open("me")

    def test_a_newer_file_is_refused(self, tmp_path):
        store = self.make(tmp_path)
        store.open("me")
        store.close()
        with apsw.Connection(str(tmp_path / "store.db")) as db:
            db.pragma("user_version", 99)
        with pytest.raises(WrongStore, match="Upgrade"):
            store.open("me")

    def test_a_directory_that_does_not_exist_is_refused(self, tmp_path):
        with pytest.raises(WrongStore, match="must exist"):
            SqliteClientStore(tmp_path / "none" / "store.db").open("me")


def test_a_store_is_private_regardless_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SqliteClientStore(tmp_path / "client.db")
        store.open("me")
        store.add_drafts([draft("a")])
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert {"client.db", "client.db-wal", "client.db-shm"} <= set(modes)
    assert set(modes.values()) == {0o600}
