"""A damaged store is repaired from what can still be read, and from a backup."""

import random
import shutil
from pathlib import Path

import apsw
import httpx2
import pytest

from mainstem.checks.rules import check_store
from mainstem.log.store.sqlite.bit_flips import flip_bit
from mainstem.log.store.sqlite.checksums import use_checksums
from mainstem.log.store.sqlite.connections import PAGE_BYTES, STORE_NAME
from mainstem.log.store.sqlite.snapshot import open_snapshot
from mainstem.testing.server import ServerProcess
from tests.cli.stores import fill, submit
from tests.support.command_line import Shell

TABLES = ["records", "states", "tags", "places", "head"]
BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a store with some of everything, and with many pages of records and events."""
    directory = tmp_path_factory.mktemp("original") / "data"
    with ServerProcess(directory) as server:
        fill(server, lambda: open_snapshot(directory / STORE_NAME))
        chance = random.Random(1)
        with httpx2.Client(base_url=server.url, trust_env=False) as client:
            client.put("/v1/stream/long", headers=BYTES).raise_for_status()
            for _ in range(200):
                client.post("/v1/stream/long", content=chance.randbytes(1_000), headers=BYTES).raise_for_status()
        for first in range(0, 300, 50):
            submit(server, [(f"many-{n}", ["a", "c"], {"text": "x" * 100}) for n in range(first, first + 50)])
        server.terminate()
    return directory


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data"))


def read_rows(path: Path) -> dict[str, list[object]]:
    use_checksums()
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    finally:
        db.close()


def find_pages(path: Path, table: str) -> list[int]:
    """Return the pages that hold the rows of a table."""
    use_checksums()
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [
            page for (page,) in db.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,))
        ]
    finally:
        db.close()


def damage(path: Path, *pages: int) -> None:
    data = path.read_bytes()
    for page in pages:
        data = flip_bit(data, 8 * ((page - 1) * PAGE_BYTES + 3_000))
    path.write_bytes(data)


def back_up(shell: Shell, data: Path, tmp_path: Path) -> Path:
    backup = tmp_path / "backup.db"
    shell.ok("backup", "--data", str(data), str(backup))
    return backup


def test_a_store_without_damage_is_left_as_it_is(shell: Shell, data: Path) -> None:
    before = (data / STORE_NAME).read_bytes()
    assert "no page is damaged" in shell.ok("repair", "--data", str(data))
    assert (data / STORE_NAME).read_bytes() == before


@pytest.mark.parametrize("number", [1, 5])
def test_damaged_records_are_taken_from_a_backup(shell: Shell, data: Path, tmp_path: Path, number: int) -> None:
    backup = back_up(shell, data, tmp_path)
    path = data / STORE_NAME
    expected = read_rows(path)
    pages = random.Random(number).sample(find_pages(path, "records"), number)
    damage(path, *pages)
    checked = shell("check", "--data", str(data)).text
    assert all(f"page {page} is damaged: its checksum is wrong" in checked for page in pages)
    said = shell.ok("repair", "--data", str(data), "--backup", str(backup))
    assert f"is repaired: {number} damaged page" in said
    assert read_rows(path) == expected
    assert "no faults" in shell.ok("check", "--data", str(data))
    assert (data / "mainstem.db.damaged").exists()


@pytest.mark.parametrize("table", ["tags", "old_places"])
def test_damaged_indexes_need_no_backup(shell: Shell, data: Path, table: str) -> None:
    path = data / STORE_NAME
    expected = read_rows(path)
    damage(path, find_pages(path, table)[0])
    shell.ok("repair", "--data", str(data))
    assert read_rows(path) == expected


def test_damaged_states_are_taken_from_a_backup_of_the_same_log(shell: Shell, data: Path, tmp_path: Path) -> None:
    backup = back_up(shell, data, tmp_path)
    path = data / STORE_NAME
    expected = read_rows(path)
    damage(path, find_pages(path, "states")[1])
    shell.ok("repair", "--data", str(data), "--backup", str(backup))
    assert read_rows(path) == expected


def test_damaged_states_are_not_taken_from_an_older_backup(shell: Shell, data: Path, tmp_path: Path) -> None:
    backup = back_up(shell, data, tmp_path)
    with ServerProcess(data) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        client.post("/v1/stream/long", content=b"more", headers=BYTES).raise_for_status()
        server.terminate()
    path = data / STORE_NAME
    damage(path, find_pages(path, "states")[1])
    before = path.read_bytes()
    shell("repair", "--data", str(data), "--backup", str(backup)).fails(1, "states are damaged")
    assert path.read_bytes() == before
    assert not [entry.name for entry in data.iterdir() if entry.suffix in (".damaged", ".partial")]


def test_without_a_backup_damaged_records_are_named_and_nothing_changes(shell: Shell, data: Path) -> None:
    path = data / STORE_NAME
    damage(path, find_pages(path, "records")[3])
    before = path.read_bytes()
    shell("repair", "--data", str(data)).fails(1, "not everything can be repaired")
    assert path.read_bytes() == before


def test_a_server_refuses_writes_if_its_newest_records_are_damaged(data: Path) -> None:
    path = data / STORE_NAME
    damage(path, find_pages(path, "records")[-2])
    with ServerProcess(data) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        refused = client.post("/v1/stream/long", content=b"more", headers=BYTES)
        assert (refused.status_code, refused.json()["code"]) == (503, "store_failed")
        assert "the newest part of the database is damaged" in refused.json()["detail"]
        assert client.get("/v1/stream/json").json() == [{"n": 1}, {"n": 2}, {"n": 3}]
        server.terminate()


def test_a_server_reads_what_is_intact_and_continues_after_the_repair(shell: Shell, data: Path, tmp_path: Path) -> None:
    backup = back_up(shell, data, tmp_path)
    path = data / STORE_NAME
    with ServerProcess(data) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        whole = client.get("/v1/stream/long").content
        server.terminate()
    pages = find_pages(path, "records")
    damage(path, pages[len(pages) // 3])
    with ServerProcess(data) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        read, offset = b"", "-1"
        while (reply := client.get("/v1/stream/long", params={"offset": offset})).status_code == 200:
            read += reply.content
            offset = reply.headers["stream-next-offset"]
        assert (reply.status_code, reply.json()["code"]) == (500, "store_damaged")
        assert whole.startswith(read)
        assert len(read) < len(whole)
        for _ in range(20):
            client.get("/v1/stream/long", params={"offset": offset})
        assert 0 < server.stderr.count("the store is damaged") < 20
        assert client.get("/v1/stream/json").json() == [{"n": 1}, {"n": 2}, {"n": 3}]
        client.post("/v1/stream/long", content=b"after the damage", headers=BYTES).raise_for_status()
        assert client.get("/v1/stream/long", params={"offset": "now"}).status_code == 200
        server.kill()
    shell.ok("repair", "--data", str(data), "--backup", str(backup))
    with open_snapshot(path) as snapshot:
        assert check_store(snapshot).findings == ()
    with ServerProcess(data) as server, httpx2.Client(base_url=server.url, trust_env=False) as client:
        assert client.get("/v1/stream/long").content == whole + b"after the damage"
        server.terminate()
