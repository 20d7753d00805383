"""Several nodes on one log: one order, and every node publishes each record once, whichever node commits it."""

import asyncio
import math

import msgspec
import pytest

from mainstem import limits
from mainstem.log.commands import Key
from mainstem.log.records import CommittedId
from mainstem.log.store.postgres import replication
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.testing.store_contract import read_whole_log
from tests.postgres.nodes import COUNTERS, TOPIC, Add, Counter, Limited, Node, TakeOnce, find_violations, open_nodes
from tests.support.waits import eventually_async

HOUR_US = 3_600 * 1_000_000


async def test_commits_of_two_nodes_have_one_order_and_lose_nothing(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        with one.live.watch(TOPIC), two.live.watch(TOPIC):
            await asyncio.gather(
                *(node.log.submit(Add("shared")) for node in (one, two) for _ in range(150)),
                *(one.log.submit(Add("mine")) for _ in range(50)),
            )
            await asyncio.gather(one.store.catch_up(), two.store.catch_up())
            log = [record async for record in read_whole_log(one.store)]
        assert [record.committed_id for record in log] == list(range(1, 351))
        shared = [r.data for r in log if r.data.startswith(b"shared")]
        assert shared == [b"shared:%d," % number for number in range(300)]
        assert [record.start for record in log[1:]] == [record.end for record in log[:-1]]
        for node in (one, two):
            assert [record.committed_id for record in node.told] == list(range(1, 351))
            assert [record.data for record in node.told] == [record.data for record in log]


async def test_a_nodes_own_records_have_their_origin_and_others_have_none(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        with one.live.watch(TOPIC), two.live.watch(TOPIC):
            await asyncio.gather(
                *(one.log.submit(Add("a", origin=1)) for _ in range(100)),
                *(two.log.submit(Add("b", origin=2)) for _ in range(100)),
            )
            await asyncio.gather(one.store.catch_up(), two.store.catch_up())
        assert {(r.tags, r.origin) for r in one.told} == {(("a",), 1), (("b",), 0)}
        assert {(r.tags, r.origin) for r in two.told} == {(("a",), 0), (("b",), 2)}


async def test_a_node_that_wrongly_assumes_it_is_alone_decides_nothing_from_outdated_states(postgres_url, monkeypatch):
    """Neither a change nor a refusal: the commit, or a look at the head, verifies the cached states."""
    monkeypatch.setattr(limits, "FOLLOW_POLL_S", 60.0)
    async with open_nodes(postgres_url) as (one, two):
        monkeypatch.setattr(two.store._listener, "_on_save", lambda number: None)  # it gets no notifications
        monkeypatch.setattr(limits, "ALONE_S", 0.0)  # and always assumes that it is alone
        assert await two.log.submit(Add("x")) == 0
        for number in range(1, 40, 2):
            assert await one.log.submit(Add("x")) == number
            assert (
                await two.log.submit(Limited("x", expected=number + 1)) == number + 1
            )  # refused if it had used an outdated state
        assert await one.log.submit(Limited("x", expected=7)) is None
        assert await two.store.get(Key(COUNTERS, "x")) == Counter(41)


async def test_only_one_of_two_nodes_can_be_first(postgres_url):
    """A missing key has no row to lock and is not cached, and still only one node gets it."""
    async with open_nodes(postgres_url, 3) as nodes:
        names = [f"name-{number}" for number in range(200)]
        tries = [(name, node.log.submit(TakeOnce(name))) for name in names for node in nodes]
        outcomes = await asyncio.gather(*(job for _, job in tries))
        winners = [name for (name, _), won in zip(tries, outcomes, strict=True) if won]
        assert sorted(winners) == sorted(names)


async def test_every_node_returns_at_once_what_one_node_has_acknowledged(postgres_url):
    """Without waiting for a notification: every read after the acknowledgement sees the change."""
    async with open_nodes(postgres_url) as (one, two):
        key = Key(COUNTERS, "x")
        assert await two.store.get(key) is None  # which is now cached
        for number in range(1, 50):
            writer, reader = (one, two) if number % 2 else (two, one)
            await writer.log.submit(Add("x"))
            assert await reader.store.get(key) == Counter(number)
            assert (await reader.store.get_many([key]))[key] == Counter(number)


async def test_a_reader_that_has_seen_an_id_has_seen_everything_below_it(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        third = PostgresStore(postgres_url)
        await third.open()
        looks = 0

        async def write(node: Node) -> None:
            while looks < 20:
                await asyncio.gather(*(node.log.submit(Add("x")) for _ in range(20)))

        writing = asyncio.gather(write(one), write(two))
        while looks < 20:
            page = await third.read_log(CommittedId(0), CommittedId(1_000_000), 1 << 30)
            assert [record.committed_id for record in page] == list(range(1, len(page) + 1))
            looks += 1
        await writing
        await third.close()


async def test_another_nodes_commit_wakes_readers_by_notification(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "FOLLOW_POLL_S", 60.0)  # so that only a notification can wake them
    async with open_nodes(postgres_url) as (one, two):
        with two.live.watch(TOPIC) as topic:
            await asyncio.sleep(0.05)  # the nodes have listened since they opened; this only lets a poll finish
            version = topic.version
            await one.log.submit(Add("x"))
            await two.hear(1)
            assert topic.version == version + 1
            chunk = two.live.read(TOPIC, 0, 100)
            assert chunk is not None
            assert chunk.data == b"x:0,"


async def test_a_poll_makes_up_for_a_lost_notification(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "FOLLOW_POLL_S", 0.05)
    async with open_nodes(postgres_url) as (one, two):
        monkeypatch.setattr(two.store, "_on_save", lambda number: None)
        monkeypatch.setattr(two.store._listener, "_on_save", lambda number: None)
        await one.log.submit(Add("x"))
        await two.hear(1)


async def test_a_notification_is_left_to_a_committer_that_waits_for_the_head(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "FOLLOW_YIELD_S_MAX", 10.0)
    async with open_nodes(postgres_url) as (one, two):
        await one.log.submit(Add("x"))
        await one.hear(1)
        one.store._head_wait = asyncio.get_running_loop().create_future()
        left = asyncio.create_task(one.store._leave_to_committer())
        await two.log.submit(Add("x"))
        await eventually_async(lambda: one.store._announced_save == two.store._save)
        assert not left.done()
        await one.store.catch_up()  # as the committer does once it has locked the head
        one.store._head_wait.set_result(None)
        assert await left


async def test_readers_do_not_wait_for_a_committer_that_cannot_lock_the_head(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "FOLLOW_POLL_S", 60.0)
    async with open_nodes(postgres_url) as (one, two):
        one.store._head_wait = asyncio.get_running_loop().create_future()
        await two.log.submit(Add("x"))
        await one.hear(1)
        assert not one.store._head_wait.done()


async def test_appends_to_unwatched_topics_are_not_fetched(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        await one.log.submit(Add("x"))
        await two.hear(1)
        assert two.told == []
        with two.live.watch(TOPIC):
            await one.log.submit(Add("x"))
            await two.hear(2)
        assert [record.committed_id for record in two.told] == [2]


@pytest.mark.parametrize("topics_max", [0, 100])
async def test_records_are_published_with_many_watched_topics_as_with_few(postgres_url, monkeypatch, topics_max):
    monkeypatch.setattr(replication, "WATCHED_TOPICS_MAX", topics_max)
    async with open_nodes(postgres_url) as (one, two):
        with two.live.watch(TOPIC):
            for number in range(1, 4):
                await one.log.submit(Add("x"))
                await two.hear(number)
            assert [record.data for record in two.told] == [b"x:0,", b"x:1,", b"x:2,"]


async def test_states_that_another_node_changed_are_published(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        await two.store.scan(COUNTERS, "", "", 1)  # two uses this space
        await one.log.submit(Add("x"))
        await two.hear(1)
        assert two.changes == [{Key(COUNTERS, "x"): Counter(1), Key(COUNTERS, "tail"): Counter(4)}]


async def test_a_node_that_was_disconnected_for_long_publishes_all_records_and_clears_its_cache(postgres, postgres_url):
    database = postgres_url.rpartition("/")[2]
    async with open_nodes(postgres_url) as (one, two):
        with two.live.watch(TOPIC):
            await two.log.submit(Add("x"))
            async with two.store._applying_saves:  # two applies nothing for now
                for _ in range(5):
                    await one.log.submit(Add("x"))
                await postgres.run_soon("DELETE FROM mainstem.saves WHERE save <= 4", database)
            assert await two.store.get(Key(COUNTERS, "x")) == Counter(6)
            assert await two.log.submit(Add("x")) == 6
            assert [record.committed_id for record in two.told] == [1, 2, 3, 4, 5, 6, 7]
        assert two.resets == 1
        assert one.resets == 0


async def test_large_commits_of_another_node_arrive_complete_in_pages(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "FOLLOW_BYTES_MAX", 2_000)
    async with open_nodes(postgres_url) as (one, two):
        with two.live.watch(TOPIC):
            async with two.store._applying_saves:
                await asyncio.gather(*(one.log.submit(Add("n" * 50)) for _ in range(30)))
                await one.log.submit(Add("m" * 30_000))  # larger than a page
                await asyncio.gather(*(one.log.submit(Add("n" * 50)) for _ in range(30)))
            await two.store.catch_up()
            assert [record.committed_id for record in two.told] == list(range(1, 62))
            assert two.told[30].data == b"m" * 30_000 + b":0,"


async def test_times_never_go_back_with_clocks_an_hour_apart(postgres_url):
    """One node's clock is an hour fast, another's an hour slow: both use the database's time."""
    shifts = (HOUR_US, -HOUR_US, 0)
    clocks = [lambda shift=shift: wall() + shift for shift in shifts]
    async with open_nodes(postgres_url, 3, clocks) as nodes:
        for number in range(30):
            await nodes[number % 3].log.submit(Add("x"))
        log = [record async for record in read_whole_log(nodes[0].store)]
        times = [record.committed_at_us for record in log]
        assert times == sorted(times)
        assert abs(times[-1] - wall()) < 60_000_000
        now = [node.log.clock_us() for node in nodes]
        assert max(now) - min(now) < 60_000_000


async def test_times_do_not_go_back_in_a_log_from_the_future(postgres, postgres_url):
    """If the database's clock was set back, or another server took over, time stands still instead of going back."""
    database = postgres_url.rpartition("/")[2]
    future_us = wall() + HOUR_US
    async with open_nodes(postgres_url, 1) as (node,):
        await node.log.submit(Add("x"))
    postgres.run(f"UPDATE mainstem.head SET committed_at_us = {future_us}", database)
    async with open_nodes(postgres_url, 1) as (node,):
        await node.log.submit(Add("x"))
        log = [record async for record in read_whole_log(node.store)]
        assert log[-1].committed_at_us == future_us


async def test_one_node_is_the_leader_and_another_takes_over(postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "LEADER_CHECK_S", 0.05)
    async with open_nodes(postgres_url, 3) as nodes:
        await eventually_async(lambda: sum(node.store.is_leader for node in nodes) == 1)
        (first,) = [node for node in nodes if node.store.is_leader]
        await first.store._listener.stop()
        assert not first.store.is_leader
        await eventually_async(lambda: sum(node.store.is_leader for node in nodes) == 1)


async def test_old_notes_of_saves_are_deleted(postgres, postgres_url, monkeypatch):
    monkeypatch.setattr(limits, "LEADER_CHECK_S", 0.05)
    monkeypatch.setattr(limits, "SAVES_KEPT_S", 0.2)
    database = postgres_url.rpartition("/")[2]
    async with open_nodes(postgres_url, 1) as (node,):
        for _ in range(5):
            await node.log.submit(Add("x"))

        async def is_last() -> bool:  # the newest is always kept
            return await postgres.run_soon("SELECT count(*) FROM mainstem.saves", database) == "1"

        await eventually_async(is_last)
        assert await node.log.submit(Add("x")) == 5


def test_a_records_tags_are_stored_unchanged(postgres_url):
    from mainstem.log.store.postgres import statements

    for tags in (("a",), ("é\0x", ""), tuple(map(str, range(64)))):
        assert statements.decode_tags(statements.encode_tags(tags)) == tags
    assert msgspec.msgpack.decode(statements.encode_tags(("a",))) == ["a"]


def wall() -> int:
    from mainstem.server.app import wall_clock_us

    return wall_clock_us()


async def test_a_node_notices_commits_that_a_failover_lost_and_continues_from_what_is_left(
    postgres, postgres_url, caplog
):
    database = postgres_url.rpartition("/")[2]
    async with open_nodes(postgres_url, 1) as (node,):
        for _ in range(3):
            await node.log.submit(Add("x"))
        await postgres.run_soon(
            "BEGIN; DELETE FROM mainstem.states; DELETE FROM mainstem.records WHERE committed_id > 1;"
            " DELETE FROM mainstem.saves WHERE save > 1; UPDATE mainstem.head SET save = 1, committed_id = 1; COMMIT",
            database,
        )
        await node.store.catch_up()
        assert node.store.head == 1
        assert node.resets == 1
        assert any("has lost commits" in line for line in caplog.messages)
        assert await node.log.submit(Add("y")) == 0
        assert node.store.head == 2


class LateAnswers:
    """A connection that delivers its first reply only after something else has happened on the node."""

    def __init__(self, db, before, after):
        self.db, self.before, self.after = db, before, after

    async def fetch(self, statement, *args):
        await self.before.pop()() if self.before else None
        rows = await self.db.fetch(statement, *args)
        await self.after.pop()() if self.after else None
        return rows


@pytest.mark.parametrize("when", ["before it is looked", "after it was looked"])
async def test_a_query_that_is_overtaken_by_the_nodes_own_commit_undoes_nothing(postgres_url, caplog, when):
    async with open_nodes(postgres_url, 1) as (node,):
        with node.live.watch(TOPIC):
            await node.log.submit(Add("x", origin=1))

            async def commit() -> None:
                await node.log.submit(Add("x", origin=1))

            jobs = ([commit], []) if when == "before the read" else ([], [commit])
            async with node.store._readers.acquire() as db, node.store._applying_saves:
                await node.store._apply_saves(LateAnswers(db, *jobs))
            assert Key(COUNTERS, "x") in node.store._cache
            assert node.store.head == 2
            await node.log.submit(Add("x", origin=1))
            assert [(record.committed_id, record.origin) for record in node.told] == [(1, 1), (2, 1), (3, 1)]
        assert node.resets == 0
        assert node.store._alone
    assert not [line for line in caplog.messages if "lost" in line or "disconnected" in line]


async def test_commits_of_other_nodes_are_applied_after_a_commit_that_overtook_a_query(postgres_url, caplog):
    async with open_nodes(postgres_url) as (one, two):
        with one.live.watch(TOPIC):
            await one.log.submit(Add("x", origin=1))

            async def commit() -> None:
                await one.log.submit(Add("x", origin=1))
                async with asyncio.timeout(10):
                    await two.log.submit(Add("x", origin=2))

            async with one.store._readers.acquire() as db, one.store._applying_saves:
                await one.store._apply_saves(LateAnswers(db, [commit], []))
            await one.hear(3)
            assert [(record.committed_id, record.origin) for record in one.told] == [(1, 1), (2, 1), (3, 0)]
        assert one.resets == 0
    assert not [line for line in caplog.messages if "lost" in line or "disconnected" in line]


async def test_commands_that_arrive_while_a_node_waits_for_the_head_join_its_batch(postgres_url):
    async with open_nodes(postgres_url) as (one, two):
        await one.log.submit(Add("x"))
        await two.log.submit(Add("x"))
        await one.store.catch_up()
        one.store._alone_after_s = two.store._alone_after_s = math.inf
        await two.store.load([Key(COUNTERS, "x")])  # it has locked the head now
        first = asyncio.create_task(one.log.submit(Add("x")))
        await eventually_async(lambda: one.store._head_wait is not None)
        others = [asyncio.create_task(one.log.submit(Add(name))) for name in ("x", "y", "never seen before")]
        await asyncio.sleep(0)  # they wait in the queue
        before = one.store._save
        await two.store.release()
        async with asyncio.timeout(10):
            assert [await task for task in (first, *others)] == [2, 3, 0, 0]
        assert one.store._save == before + 1
    assert await find_violations(postgres_url) == []
