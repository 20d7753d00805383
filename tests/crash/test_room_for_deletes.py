"""On a real full disk, deletes and pruning still work, and free space for other writes."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from mainstem import limits
from mainstem.log.store import SqliteStore
from mainstem.server import Mainstem, Settings
from tests.support.small_disks import mounted
from tests.support.waits import eventually_async

BYTES = {"Content-Type": "application/octet-stream"}
BLOCK = os.urandom(256 * limits.KIB)
DISK_BYTES = 96 * limits.MIB


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


@asynccontextmanager
async def serve(store: SqliteStore) -> AsyncIterator[httpx2.AsyncClient]:
    app = Mainstem(Settings(), store=store)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://mainstem") as client,
    ):
        yield client


async def fill(client: httpx2.AsyncClient, path: str) -> int:
    """Append until the disk is full, and return how many appends were accepted."""
    taken = 0
    while (reply := await client.post(path, content=BLOCK, headers=BYTES)).status_code == 204:
        taken += 1
        assert taken * len(BLOCK) < DISK_BYTES
    assert (reply.status_code, reply.json()["code"]) == (503, "store_full")
    return taken


async def until_ready(client: httpx2.AsyncClient) -> None:
    async def is_ready() -> bool:
        return (await client.get("/readyz")).status_code == 200

    await eventually_async(is_ready)


async def test_a_full_disk_accepts_deletes_and_then_writes_again(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REAP_EVERY_S", 0.05)
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 0.05)
    async with serve(SqliteStore(small_disk)) as client:
        for path in ("/v1/stream/a", "/v1/stream/b"):
            await client.put(path, headers=BYTES)
        for _ in range(60):
            assert (await client.post("/v1/stream/a", content=BLOCK, headers=BYTES)).status_code == 204
        taken = await fill(client, "/v1/stream/b")
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "store_full")
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.delete("/v1/stream/a")).status_code == 204
        assert (await client.get("/v1/stream/a")).status_code == 404
        await until_ready(client)  # meanwhile the data of the deleted stream is erased
        for _ in range(10):
            assert (await client.post("/v1/stream/b", content=BLOCK, headers=BYTES)).status_code == 204
        size = int((await client.head("/v1/stream/b")).headers["stream-next-offset"].partition("_")[2])
        assert size == (taken + 10) * len(BLOCK)
    async with serve(SqliteStore(small_disk)) as client:
        assert (await client.head("/v1/stream/b")).headers["stream-next-offset"].endswith(f"{size:016d}")


async def test_deletes_work_as_long_as_there_is_something_to_delete(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writes are refused, so they cannot use up the space that deletes need."""
    monkeypatch.setattr(limits, "REAP_EVERY_S", 0.05)
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 0.05)
    paths = [f"/v1/stream/{number}" for number in range(40)]
    async with serve(SqliteStore(small_disk)) as client:
        for path in paths:
            await client.put(path, headers=BYTES, content=BLOCK)
        for _ in range(3):
            await client.put("/v1/stream/b", headers=BYTES)
            await fill(client, "/v1/stream/b")
            assert (await client.delete(paths.pop())).status_code == 204
            await asyncio.gather(*(client.post("/v1/stream/b", content=BLOCK, headers=BYTES) for _ in range(100)))
        for path in [*paths, "/v1/stream/b"]:
            assert (await client.delete(path)).status_code == 204
        await until_ready(client)
        assert (await client.put("/v1/stream/b", headers=BYTES, content=BLOCK)).status_code == 201


@pytest.mark.parametrize("others_mib", [0, 10, 20, 30, 40])
async def test_what_was_accepted_can_be_folded_and_deleted(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch, others_mib: int
) -> None:
    """Folding is as late as possible here, so the journal holds as much as it may when the disk is full."""
    monkeypatch.setattr(limits, "FOLD_BYTES", DISK_BYTES)
    monkeypatch.setattr(limits, "FOLD_DELAY_S", 3600)
    monkeypatch.setattr(limits, "REAP_EVERY_S", 3600)
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 3600)
    take(small_disk / "others", others_mib * limits.MIB)
    store = SqliteStore(small_disk / "data")
    async with serve(store) as client:
        await client.put("/v1/stream/a", headers=BYTES)
        await fill(client, "/v1/stream/a")
        await store.fold()
        assert (await client.delete("/v1/stream/a")).status_code == 204
        await store.fold()


async def test_a_store_reserves_space_again_when_the_disk_has_it(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 0.05)
    others = small_disk / "others"
    async with serve(SqliteStore(small_disk / "data")) as client:
        await client.put("/v1/stream/a", headers=BYTES, content=BLOCK)
        take_rest(others)
        await fill(client, "/v1/stream/a")
        assert (await client.get("/v1/streams")).status_code == 200  # everything is in the database then
        assert (await client.delete("/v1/stream/a")).status_code == 204
        assert not exists(small_disk / "data" / "reserve")
        await asyncio.to_thread(others.unlink)
        await until_ready(client)
        assert exists(small_disk / "data" / "reserve")
        assert (await client.put("/v1/stream/a", headers=BYTES, content=BLOCK)).status_code == 201
    assert not exists(small_disk / "data" / "reserve")  # removed by a clean shutdown


async def test_a_server_starts_on_a_full_disk_and_accepts_deletes_that_fit(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 0.05)
    others = small_disk / "others"
    async with serve(SqliteStore(small_disk / "data")) as client:
        await client.put("/v1/stream/a", headers=BYTES, content=BLOCK)
    take_rest(others, but=2 * limits.MIB)
    async with serve(SqliteStore(small_disk / "data")) as client:
        assert (await client.get("/v1/stream/a")).content == BLOCK
        await fill(client, "/v1/stream/a")
        await asyncio.to_thread(others.unlink)
        await until_ready(client)
        assert (await client.delete("/v1/stream/a")).status_code == 204


def exists(path: Path) -> bool:
    return path.exists()


def take_rest(path: Path, but: int = 0) -> None:
    """Fill the rest of the disk, as another program would."""
    free = os.statvfs(path.parent)
    take(path, free.f_bavail * free.f_frsize - but)


def take(path: Path, size: int) -> None:
    with path.open("wb") as file:
        if size:
            os.posix_fallocate(file.fileno(), 0, size)
