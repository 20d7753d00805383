"""`check` finds no fault in a sound store, and every violation that is planted into it."""

import asyncio
import random
import subprocess
from contextlib import contextmanager
from functools import partial

import asyncpg
import httpx2
import pytest

from mainstem.checks.rules import check_store
from mainstem.errors import StoreUnusable
from mainstem.log.store.postgres.snapshot import open_snapshot
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.testing.server import ServerProcess
from mainstem.testing.store_contract import read_whole_log
from tests.cli.stores import change_something, fill, submit
from tests.postgres.nodes import Add, find_violations, open_nodes
from tests.support.violations import VIOLATIONS, StoreEditor


def check(url):
    with open_snapshot(url) as snapshot:
        return check_store(snapshot)


class PostgresEditor(StoreEditor):
    def __init__(self, runner, db):
        self._runner = runner
        self._db = db

    def execute(self, statement, *values):
        status = self._run(self._db.execute, statement, values)
        return int(status.rpartition(" ")[2])

    def fetch(self, statement, *values):
        return self._run(self._db.fetch, statement, values)

    def _run(self, method, statement, values):
        for number in range(1, len(values) + 1):
            statement = statement.replace("?", f"${number}", 1)
        return self._runner.run(method(statement, *values))

    def text(self, text):
        return text.encode()


@contextmanager
def edit(url):
    with asyncio.Runner() as runner:
        db = runner.run(asyncpg.connect(url, server_settings={"search_path": "mainstem"}))
        yield PostgresEditor(runner, db)
        runner.run(db.close())


@pytest.fixture(scope="module")
def filled(postgres, tmp_path_factory):
    """The name of a database that contains some of everything."""
    with postgres.database() as name:
        url = postgres.url(name)
        with ServerProcess(tmp_path_factory.mktemp("unused"), "--store", url) as server:
            fill(server, partial(open_snapshot, url))
            server.terminate()
        yield name


@pytest.fixture
def store(postgres, filled):
    """The URL of a copy of that database, which tests may damage."""
    with postgres.database(template=filled) as name:
        yield postgres.url(name)


def test_a_store_with_some_of_everything_has_no_faults(store):
    found = check(store)
    assert found.findings == ()
    assert found.figures.head >= found.figures.records > 20


# What only a PostgreSQL store has: a head that every commit moves, notes of saves, and tags within records.
STORAGE_VIOLATIONS = {
    "beyond the head": "UPDATE head SET committed_id = 5",
    "older than the record": "UPDATE records SET committed_at_us = committed_at_us - 60000000 WHERE committed_id = 3",
    "newer than the head": "UPDATE head SET committed_at_us = 5",
    "missing in the index of tags": "DELETE FROM tags",
    "saves follow a missing note": "DELETE FROM saves WHERE save = (SELECT max(save) - 1 FROM saves)",
    "notes of saves are beyond": "UPDATE head SET save = 3",
    "version": "UPDATE version SET number = 77",
}


@pytest.mark.parametrize("said", STORAGE_VIOLATIONS)
def test_a_violation_of_the_storage_is_found(store, said):
    with edit(store) as editor:
        editor.sql(STORAGE_VIOLATIONS[said])
    found = check(store).findings
    assert any(finding.rule == "store" and said in finding.detail for finding in found), found


@pytest.mark.parametrize(("plant", "rule", "said"), VIOLATIONS, ids=[plant.__name__ for plant, _, _ in VIOLATIONS])
def test_a_planted_violation_is_found(store, plant, rule, said):
    with edit(store) as editor:
        plant(editor)
    found = check(store).findings
    assert any(finding.rule == rule and said in finding.detail for finding in found), found


def test_a_store_has_no_faults_after_any_changes_while_its_nodes_run(start_nodes, browse, postgres_url):
    nodes = start_nodes(2)
    clients = [browse(node) for node in nodes]
    chance = random.Random(1)
    for number in range(150):
        change_something(clients[number % 2], chance, number)
        if number % 50 == 49:
            submit(nodes[0], [(f"e{number}-{n}", [chance.choice("abc"), "d"], {"n": n}) for n in range(5)])
            head = clients[0].get("/readyz").json()["head"]
            floors = {name: chance.randrange(head) for name in "abcd"}
            clients[1].post("/v1/prune", json={"floors": floors}).raise_for_status()
            assert check(postgres_url).findings == ()


async def test_a_check_may_run_while_nodes_write(postgres_url):
    async with open_nodes(postgres_url) as nodes:
        writing = asyncio.gather(*(node.log.submit(Add("é\0x", origin=1)) for node in nodes for _ in range(100)))
        while not writing.done():
            assert await find_violations(postgres_url) == []
        await writing


def test_a_snapshot_does_not_change_while_it_is_read(postgres_url, start_nodes):
    (node,) = start_nodes(1)
    with open_snapshot(postgres_url) as snapshot:
        before = snapshot.measure()
        httpx2.put(f"{node.url}/v1/stream/x", content=b"x", trust_env=False).raise_for_status()
        assert snapshot.measure() == before
    assert check(postgres_url).figures.head > before.head


def test_a_missing_store_and_a_missing_server_are_reported(postgres_url):
    said = [finding.detail for finding in check(postgres_url).findings]
    assert said == ["there is no log in this database: it has no table mainstem.version"]
    with pytest.raises(StoreUnusable) as error:
        check("postgresql://ann:s3cr3t@127.0.0.1:1/none")
    assert "s3cr3t" not in error.value.detail
    assert "the connection was refused" in error.value.detail
    with pytest.raises(StoreUnusable, match='database "nowhere" does not exist'):
        check(postgres_url.rpartition("/")[0] + "/nowhere")


async def test_a_dump_is_a_backup(postgres, postgres_url, tmp_path):
    """`pg_dump` while nodes write, then `pg_restore` into an empty database, gives a store without faults."""
    async with open_nodes(postgres_url) as nodes:
        writing = asyncio.gather(*(node.log.submit(Add("x", origin=1)) for node in nodes for _ in range(100)))
        dump = [str(postgres.programs / "pg_dump"), "-Fc", "-n", "mainstem", "-f", str(tmp_path / "dump"), postgres_url]
        await asyncio.to_thread(subprocess.run, dump, check=True)
        await writing
    with postgres.database() as name:
        restore = [str(postgres.programs / "pg_restore"), "-d", postgres.url(name), str(tmp_path / "dump")]
        await asyncio.to_thread(subprocess.run, restore, check=True)
        assert await find_violations(postgres.url(name)) == []
        store = PostgresStore(postgres.url(name))
        await store.open()
        ids = [record.committed_id async for record in read_whole_log(store)]
        assert ids == list(range(1, store.head + 1))
        await store.close()
