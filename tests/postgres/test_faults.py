"""Faults between a node and its database: retryable errors, nothing lost or stored twice, and no restart."""

import asyncio
import math
import signal
import subprocess
import sys

import asyncpg
import pytest

from mainstem import limits
from mainstem.errors import (
    MainstemError,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreTooNew,
    StoreUnreachable,
    StoreUnusable,
)
from mainstem.log.commands import Key
from mainstem.log.store.base import HeadMoved
from mainstem.log.store.postgres.connections import SESSION, connect
from mainstem.log.store.postgres.errors import translate
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.testing.store_contract import read_whole_log
from tests.postgres.nodes import COUNTERS, TOPIC, Add, Counter, Node, find_violations, open_nodes
from tests.postgres.relay import Relay
from tests.support.waits import eventually_async

X = Key(COUNTERS, "x")
COMMIT = b"COMMIT\0"  # as it is sent over the network


async def numbers_in_log(node: Node) -> list[int]:
    await node.store.catch_up()
    data = b"".join([record.data async for record in read_whole_log(node.store)])
    return [int(part.partition(b":")[2]) for part in data.split(b",") if part]


async def insist(node: Node, command: Add) -> int:
    """Submit a command until it is accepted, like a client that retries."""
    while True:
        try:
            return await node.log.submit(command)
        except MainstemError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.02)


# A commit whose connection breaks


@pytest.fixture(params=["alone", "beside others"])
def commit_word(request, monkeypatch):
    """What a node sends to commit: one statement that contains its name while it is alone, otherwise COMMIT."""
    if request.param == "alone":
        return lambda node: node.store._node.encode()
    monkeypatch.setattr(PostgresStore, "_alone", False)
    return lambda node: COMMIT


async def test_a_stored_commit_is_acknowledged_even_if_its_reply_was_lost(postgres_url, commit_word):
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        with node.live.watch(TOPIC):
            assert await node.log.submit(Add("x")) == 0
            relay.cut_after = commit_word(node)
            assert await node.log.submit(Add("x", origin=5)) == 1
            assert relay.cuts == 1
            assert await node.log.submit(Add("x")) == 2
            assert [(record.committed_id, record.origin) for record in node.told] == [(1, 0), (2, 5), (3, 0)]
        assert await numbers_in_log(node) == [0, 1, 2]


async def test_a_commit_that_never_arrived_is_refused_and_changes_nothing(postgres_url, commit_word):
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        assert await node.log.submit(Add("x")) == 0
        relay.cut_before = commit_word(node)
        with pytest.raises(StoreUnreachable) as refusal:
            await node.log.submit(Add("x"))
        assert refusal.value.headers["Retry-After"]
        assert relay.cuts == 1
        assert await node.store.get(X) == Counter(1)
        assert await node.log.submit(Add("x")) == 1
        assert await numbers_in_log(node) == [0, 1]


async def test_a_refused_commit_cannot_be_stored_later(postgres_url):
    """The network delays it, and the node finds that it was not stored and says so. Then it must never be stored."""
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        assert await node.log.submit(Add("x")) == 0
        relay.delay = node.store._node.encode()
        with pytest.raises(StoreUnreachable):
            await node.log.submit(Add("x"))
        relay.arrive.set()
        await asyncio.wait_for(relay.arrived.wait(), 10)
        assert await node.store.get(X) == Counter(1)
        assert await node.log.submit(Add("x")) == 1
        assert await numbers_in_log(node) == [0, 1]
    assert await find_violations(postgres_url) == []


async def test_an_unknown_outcome_is_reported_as_such_and_found_later(postgres_url, monkeypatch, commit_word):
    monkeypatch.setattr(limits, "OUTCOME_S_MAX", 0.3)
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        with node.live.watch(TOPIC):
            await node.log.submit(Add("x"))
            relay.cut_after = commit_word(node)
            relay.closed = True
            with pytest.raises(StoreUnreachable, match="not known"):
                await node.log.submit(Add("x"))
            relay.closed = False
            await node.hear(2)  # it was stored, and is published like a commit of another node
            assert await node.store.get(X) == Counter(2)
            assert await node.log.submit(Add("x")) == 2
            assert [record.committed_id for record in node.told] == [1, 2, 3]


@pytest.mark.parametrize("statement", [b"FOR UPDATE", b"pg_notify", b"unnest", b"clock_timestamp"])
async def test_a_connection_that_breaks_before_the_commit_costs_at_most_a_retry(postgres_url, statement, monkeypatch):
    monkeypatch.setattr(PostgresStore, "_alone", False)
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        for number in range(3):
            relay.cut_before = statement
            assert await insist(node, Add("x")) == number
        assert await numbers_in_log(node) == [0, 1, 2]


async def wait_for_more(taken: list[int], number: int) -> None:
    goal = len(taken) + number
    await eventually_async(lambda: len(taken) >= goal)


async def test_broken_connections_are_reopened(postgres, postgres_url):
    """pg_terminate_backend for every session, repeatedly, while two nodes write and read."""
    async with open_nodes(postgres_url) as nodes:
        taken: list[int] = []
        stop = asyncio.Event()

        async def write(node: Node) -> None:
            while not stop.is_set():
                taken.append(await insist(node, Add("x")))

        writers = [asyncio.create_task(write(node)) for node in nodes for _ in range(3)]
        database = postgres_url.rpartition("/")[2]
        for _ in range(8):
            await wait_for_more(taken, 20)
            await postgres.run_soon(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = '{database}' AND application_name = 'mainstem'"
            )
        await wait_for_more(taken, 20)
        stop.set()
        await asyncio.gather(*writers)
        await asyncio.gather(*(node.store.catch_up() for node in nodes))
        found = await numbers_in_log(nodes[0])
        assert found == list(range(len(found)))
        # A refused command was not stored, so the log has exactly the numbers that were returned, each once.
        assert sorted(taken) == found


# Locks and timeouts


async def test_a_log_that_stays_locked_is_a_retryable_error(postgres_url, monkeypatch):
    monkeypatch.setitem(SESSION, "lock_timeout", "200ms")
    async with open_nodes(postgres_url, 1) as (node,):
        await node.log.submit(Add("x"))
        other = await asyncpg.connect(postgres_url)
        async with other.transaction():
            await other.execute("SELECT 1 FROM mainstem.head FOR UPDATE")
            with pytest.raises(StoreBusy):
                await node.log.submit(Add("x"))
            assert await node.store.get(X) == Counter(1)  # readers need no lock
        await other.close()
        assert await node.log.submit(Add("x")) == 1


async def test_a_node_that_stalls_while_it_holds_the_head_is_disconnected(postgres_url, monkeypatch):
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "300ms")
    async with open_nodes(postgres_url) as (stalled, other):
        await stalled.log.submit(Add("x"))
        stalled.store._alone_after_s = math.inf  # so that it locks the head
        assert await stalled.store.load([X]) == {X: Counter(1)}  # and then does nothing
        assert await other.log.submit(Add("x")) == 1
        with pytest.raises((StoreUnreachable, HeadMoved)):  # it may have applied the other node's commit already
            await stalled.store.save({X: Counter(99)}, [], stalled.store.head)
        assert await stalled.log.submit(Add("x")) == 2
        assert await other.store.get(X) == Counter(3)


async def test_a_database_with_serializable_transactions_by_default_works(postgres, postgres_url):
    database = postgres_url.rpartition("/")[2]
    await postgres.run_soon(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    async with open_nodes(postgres_url) as nodes:
        await asyncio.gather(*(node.log.submit(Add("x")) for node in nodes for _ in range(50)))
        assert await numbers_in_log(nodes[0]) == list(range(100))


async def test_the_default_timeouts_of_a_database_do_not_affect_nodes(postgres, postgres_url):
    database = postgres_url.rpartition("/")[2]
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
    for name in names:
        await postgres.run_soon(f"ALTER DATABASE {database} SET {name} = '1ms'")
    db = await connect(postgres_url)
    try:
        assert [await db.fetchval(f"SHOW {name}") for name in names] == ["30s", "10s", "10s", "0"]
    finally:
        await db.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (asyncpg.SerializationError("x"), StoreBusy),
        (asyncpg.DeadlockDetectedError("x"), StoreBusy),
        (asyncpg.LockNotAvailableError("x"), StoreBusy),
        (asyncpg.QueryCanceledError("x"), StoreBusy),
        (asyncpg.OutOfMemoryError("x"), StoreBusy),
        (asyncpg.DiskFullError("x"), StoreFull),
        (asyncpg.AdminShutdownError("x"), StoreUnreachable),
        (asyncpg.CannotConnectNowError("x"), StoreUnreachable),
        (asyncpg.ConnectionDoesNotExistError("x"), StoreUnreachable),
        (asyncpg.InterfaceError("x"), StoreUnreachable),
        (asyncpg.ReadOnlySQLTransactionError("x"), StoreUnreachable),
        (ConnectionRefusedError("x"), StoreUnreachable),
        (TimeoutError("x"), StoreUnreachable),
        (asyncpg.UniqueViolationError("x"), StoreFailed),
    ],
)
def test_every_fault_of_the_database_is_a_retryable_error(fault, kind):
    error = translate(fault)
    assert type(error) is kind
    assert error.retryable
    assert error.status == 503
    assert "Retry-After" in error.headers


async def test_a_node_without_its_database_is_not_ready_and_recovers(postgres_url):
    async with Relay(postgres_url) as relay, open_nodes(relay.url, 1) as (node,):
        assert node.store.broken is None
        relay.closed = True
        relay.cut_all()
        await eventually_async(lambda: node.store.broken is not None)
        relay.closed = False
        await eventually_async(lambda: node.store.broken is None)
        assert await node.log.submit(Add("x")) == 0


# Starting


async def test_a_node_waits_for_a_database_that_is_not_running_yet(postgres_url):
    async with Relay(postgres_url) as relay:
        relay.closed = True
        store = PostgresStore(relay.url)
        opening = asyncio.create_task(store.open())
        await asyncio.sleep(0.3)
        assert not opening.done()
        relay.closed = False
        async with asyncio.timeout(10):
            await opening
        await store.close()


async def test_nodes_that_start_together_create_the_tables_once(postgres_url):
    stores = [PostgresStore(postgres_url) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [store.head for store in stores] == [0] * 5
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_node_that_waits_for_its_database_says_why_and_finally_gives_up(
    postgres, postgres_url, monkeypatch, caplog
):
    database = postgres_url.rpartition("/")[2]
    await postgres.run_soon(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    monkeypatch.setattr(limits, "DATABASE_START_S_MAX", 0.3)
    with pytest.raises(StoreUnusable, match="read-only transaction"):
        await PostgresStore(postgres_url).open()
    waits = [line for line in caplog.messages if line.startswith("waiting for the PostgreSQL database")]
    assert len(waits) == 1
    assert "read-only transaction" in waits[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_node_that_waits_for_its_database(number):
    command = [sys.executable, "-m", "mainstem", "serve", "--port", "0", "--store", "postgresql://x@127.0.0.1:1/x"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # If the tests run in the background, SIGINT is ignored, and processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as node:
        assert node.stdout is not None
        assert "waiting for the PostgreSQL database" in node.stdout.readline()
        node.send_signal(number)
        rest, _ = node.communicate(timeout=limits.DATABASE_START_S_MAX / 2)
    assert node.returncode == 0  # it ended because somebody asked it to
    assert "Traceback" not in rest


async def test_a_node_does_not_wait_if_a_setting_is_wrong(postgres_url, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where the driver looks for the certificate of an authority
    async with asyncio.timeout(10):
        with pytest.raises(StoreUnusable, match=r"root\.crt"):
            await PostgresStore(f"{postgres_url}?sslmode=verify-full").open()


async def test_a_missing_version_is_reported(postgres, postgres_url):
    async with open_nodes(postgres_url, 1):
        pass
    await postgres.run_soon("DELETE FROM mainstem.version", postgres_url.rpartition("/")[2])
    with pytest.raises(StoreUnusable, match=r"mainstem\.version is empty"):
        await PostgresStore(postgres_url).open()


async def test_a_newer_schema_is_refused_and_not_changed(postgres, postgres_url):
    async with open_nodes(postgres_url, 1):
        pass
    database = postgres_url.rpartition("/")[2]
    await postgres.run_soon("UPDATE mainstem.version SET number = 99", database)
    with pytest.raises(StoreTooNew, match="upgrade"):
        await PostgresStore(postgres_url).open()


# Secrets


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://ann:s3cr3t-word@127.0.0.1:1/nowhere",
        "postgresql://ann:s3cr3t-word@127.0.0.1:{port}/no_such_database",
        "postgresql://ann:s3cr3t-word@127.0.0.1:{port}/postgres?sslmode=no-such-mode",
        "postgresql://ann@127.0.0.1:{port}/no_such_database?password=s3cr3t-word",
        "postgresql://ann:half-of-it/s3cr3t@127.0.0.1:{port}/postgres",
        "postgresql://ann:s3cr3t/half-of-it@127.0.0.1:{port}/postgres",
        "postgresql://ann:s3cr3t#half-of-it@127.0.0.1:{port}/postgres",
        "postgresql://ann:s3cr3t?half-of-it@127.0.0.1:{port}/postgres",
        "postgresql://ann:s3cr3t-word@[::bad/postgres",
        "postgresq://ann:s3cr3t-word@host/postgres",
    ],
)
def test_a_password_is_never_shown(postgres, tmp_path, place):
    script = (
        "from mainstem import limits; limits.DATABASE_START_S_MAX = 0.2; "
        "from mainstem.server.run import run; from mainstem.server.settings import load_settings; "
        "from mainstem.errors import MainstemError\n"
        "import sys\n"
        "try: sys.exit(run(load_settings({'store': sys.argv[1], 'port': 0, 'log_level': 'debug'})))\n"
        "except MainstemError as error: print(error.detail); sys.exit(2)"
    )
    command = [sys.executable, "-c", script, place.format(port=postgres.port)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert done.returncode == 2, done.stderr
    assert done.stdout + done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_without_asyncpg_the_error_names_the_package_to_install(tmp_path):
    script = (
        "import sys; sys.modules['asyncpg'] = None; "
        "from mainstem.server.run import run; from mainstem.server.settings import Settings; "
        "sys.exit(run(Settings(store='postgresql://ann@host/db', port=0)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=30)
    assert done.returncode == 2
    assert "mainstem[postgres]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_embedded_stores_do_not_import_asyncpg():
    script = "import sys, mainstem.server.app; sys.exit('asyncpg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=30).returncode == 0
