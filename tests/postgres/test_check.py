"""`check` finds nothing wrong with a store that is well, and every damage that is done to it by hand."""

import asyncio
import subprocess

import pytest

from mainstem.errors import StoreUnusable
from mainstem.log.store.postgres.check import check
from mainstem.log.store.postgres.store import PostgresStore
from mainstem.testing.store_contract import read_whole_log
from tests.postgres.nodes import Add, open_nodes

DAMAGES = {
    "beyond the head": "UPDATE mainstem.head SET committed_id = 5",
    "no known kind": "UPDATE mainstem.records SET kind = 77 WHERE committed_id = 3",
    "as many bytes": "UPDATE mainstem.records SET data = data || 'x' WHERE committed_id = 3",
    "overlap": 'UPDATE mainstem.records SET "start" = "start" - 1, data = data || \'x\' WHERE committed_id = 3',
    "hole": "DELETE FROM mainstem.records WHERE committed_id = 3",
    "times go back": "UPDATE mainstem.records SET committed_at_us = committed_at_us - 60000000 WHERE committed_id = 3",
    "behind the head's": "UPDATE mainstem.head SET committed_at_us = 5",
    "name no record": "INSERT INTO mainstem.tags VALUES ('ghost', 99999)",
    "not found by their tags": "DELETE FROM mainstem.tags WHERE committed_id = 3",
    "notes of saves are missing": "DELETE FROM mainstem.saves WHERE save = 3",
    "notes of saves lie beyond": "UPDATE mainstem.head SET save = 3",
    "exactly one head": "DELETE FROM mainstem.head",
    "version": "UPDATE mainstem.version SET number = 77",
}


async def fill(url: str) -> None:
    async with open_nodes(url) as nodes:
        for number in range(10):
            await nodes[number % 2].log.submit(Add("é\0x", origin=1))


async def test_a_store_that_is_well_has_no_faults(postgres_url):
    await fill(postgres_url)
    assert await check(postgres_url) == []


async def test_it_may_run_beside_nodes_that_write(postgres_url):
    async with open_nodes(postgres_url) as nodes:
        writing = asyncio.gather(*(node.log.submit(Add("x", origin=1)) for node in nodes for _ in range(100)))
        while not writing.done():
            assert await check(postgres_url) == []
        await writing


@pytest.mark.parametrize("fault", DAMAGES)
async def test_damage_is_found(postgres, postgres_url, fault):
    await fill(postgres_url)
    await postgres.run_soon(DAMAGES[fault], postgres_url.rpartition("/")[2])
    found = await check(postgres_url)
    assert any(fault in line for line in found), found


async def test_a_database_without_a_store_or_without_a_server_is_said_to_be_so(postgres_url):
    assert await check(postgres_url) == ["there is no log in this database: it has no table mainstem.version"]
    with pytest.raises(StoreUnusable) as error:
        await check("postgresql://ann:s3cr3t@127.0.0.1:1/none")
    assert "s3cr3t" not in error.value.detail
    assert "ConnectionRefusedError: " in error.value.detail
    with pytest.raises(StoreUnusable, match='database "nowhere" does not exist'):
        await check(postgres_url.rpartition("/")[0] + "/nowhere")


async def test_a_dump_is_a_backup(postgres, postgres_url, tmp_path):
    """`pg_dump` of one moment, while nodes write, and `pg_restore` into an empty database: a store that is well."""
    async with open_nodes(postgres_url) as nodes:
        writing = asyncio.gather(*(node.log.submit(Add("x", origin=1)) for node in nodes for _ in range(100)))
        dump = [str(postgres.programs / "pg_dump"), "-Fc", "-n", "mainstem", "-f", str(tmp_path / "dump"), postgres_url]
        await asyncio.to_thread(subprocess.run, dump, check=True)
        await writing
    with postgres.database() as name:
        restore = [str(postgres.programs / "pg_restore"), "-d", postgres.url(name), str(tmp_path / "dump")]
        await asyncio.to_thread(subprocess.run, restore, check=True)
        assert await check(postgres.url(name)) == []
        store = PostgresStore(postgres.url(name))
        await store.open()
        ids = [record.committed_id async for record in read_whole_log(store)]
        assert ids == list(range(1, store.head + 1))
        await store.close()
