"""On a disk that is full or cannot sync, no acknowledged write is lost, and readers only see durable data."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from mainstem import limits
from mainstem.log.store import SqliteStore
from mainstem.server import Mainstem, Settings
from mainstem.testing.disk import FaultyDisk

PATH = "/v1/stream/a"
TEXT = {"Content-Type": "text/plain"}


@asynccontextmanager
async def serve(directory: Path, disk: FaultyDisk) -> AsyncIterator[httpx2.AsyncClient]:
    """Run a whole server on the disk, and yield a client over ASGI. The faults are removed before it closes."""
    app = Mainstem(Settings(), store=SqliteStore(directory, disk))
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://mainstem") as client,
    ):
        try:
            yield client
        finally:
            disk.heal()


async def append(client: httpx2.AsyncClient, line: bytes, **headers: str) -> httpx2.Response:
    return await client.post(PATH, content=line, headers=TEXT | {k.replace("_", "-"): v for k, v in headers.items()})


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def assert_refused(response: httpx2.Response, code: str) -> None:
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == code
    assert problem["retryable"] is True


# A full disk


async def test_a_full_disk_refuses_writes_and_serves_reads(tmp_path: Path, disk: FaultyDisk) -> None:
    async with serve(tmp_path, disk) as client:
        await client.put(PATH, content=b"kept\n", headers=TEXT)
        disk.fill_up()
        assert_refused(await append(client, b"lost\n"), "store_full")
        assert_refused(await client.put("/v1/stream/b", headers=TEXT), "store_full")
        assert_refused(await client.post(PATH, headers={"Stream-Closed": "true"}), "store_full")
        assert_refused(await client.delete(PATH), "store_full")
        read = await client.get(PATH)
        assert (read.status_code, read.content) == (200, b"kept\n")
        assert "stream-closed" not in read.headers
        assert (await client.head(PATH)).headers["stream-next-offset"] == read.headers["stream-next-offset"]
        assert (await client.get("/v1/stream/b")).status_code == 404
        assert (await client.get("/healthz")).status_code == 200


async def test_writes_resume_automatically_when_there_is_space_again(tmp_path: Path, disk: FaultyDisk) -> None:
    async with serve(tmp_path, disk) as client:
        await client.put(PATH, headers=TEXT)
        producer = {"Producer_Id": "p", "Producer_Epoch": "0"}
        assert (await append(client, b"one\n", **producer, Producer_Seq="0")).status_code == 200
        disk.fill_up()
        assert_refused(await append(client, b"two\n", **producer, Producer_Seq="1"), "store_full")
        disk.heal()
        # Not 204: the refused append was not stored, so its retry is not a duplicate.
        assert (await append(client, b"two\n", **producer, Producer_Seq="1")).status_code == 200
        assert (await client.get(PATH)).content == b"one\ntwo\n"
        assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("after_writes", [1, 4, 7, 10])
@pytest.mark.parametrize("fold_records", [1, 50, 10_000])
async def test_a_disk_that_fills_up_under_load_loses_nothing_acknowledged(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, after_writes: int, fold_records: int
) -> None:
    monkeypatch.setattr(limits, "FOLD_RECORDS", fold_records)
    async with serve(tmp_path / "data", disk) as client:
        await client.put(PATH, headers=TEXT)
        acknowledged: list[int] = []
        refused: list[int] = []

        async def write(numbers: range) -> None:
            for number in numbers:
                response = await append(client, b"%d\n" % number)
                if response.status_code == 204:
                    acknowledged.append(number)
                else:
                    assert_refused(response, "store_full")
                    refused.append(number)

        disk.fill_up(after_writes=after_writes)
        await asyncio.gather(*(write(range(start, start + 10)) for start in range(0, 300, 10)))
        assert refused
        disk.heal()
        await asyncio.gather(*(write(range(start, start + 10)) for start in range(300, 600, 10)))
        found = list(map(int, (await client.get(PATH)).content.split()))
        # "Nothing was stored" is a promise too: a client may safely send a refused append again.
        assert sorted(found) == sorted(acknowledged)
        disk.lose_power(tmp_path / "found")
    async with serve(tmp_path / "found", disk) as client:
        assert list(map(int, (await client.get(PATH)).content.split())) == found


async def test_a_waiting_reader_does_not_get_data_that_was_not_stored(tmp_path: Path, disk: FaultyDisk) -> None:
    async with serve(tmp_path, disk) as client:
        created = await client.put(PATH, headers=TEXT)
        query = {"live": "long-poll", "offset": created.headers["stream-next-offset"]}
        reading = asyncio.create_task(client.get(PATH, params=query))
        await turn()
        disk.fill_up()
        assert_refused(await append(client, b"lost\n"), "store_full")
        await turn()
        assert not reading.done()
        disk.heal()
        assert (await append(client, b"kept\n")).status_code == 204
        assert (await reading).content == b"kept\n"


# A slow disk


async def test_readers_do_not_see_data_before_it_is_durable(tmp_path: Path, disk: FaultyDisk) -> None:
    async with serve(tmp_path, disk) as client:
        created = await client.put(PATH, headers=TEXT)
        offset = created.headers["stream-next-offset"]
        waiting = asyncio.create_task(client.get(PATH, params={"live": "long-poll", "offset": offset}))
        await turn()
        disk.hold_syncs()
        writing = asyncio.create_task(append(client, b"held\n"))
        await asyncio.to_thread(disk.wait_for_sync)
        read = await client.get(PATH)
        assert (read.content, read.headers["stream-next-offset"]) == (b"", offset)
        assert (await client.head(PATH)).headers["stream-next-offset"] == offset
        assert not waiting.done()
        assert not writing.done()
        disk.heal()
        assert (await writing).status_code == 204
        assert (await waiting).content == b"held\n"
        assert (await client.get(PATH)).content == b"held\n"


# A disk that cannot sync


async def test_after_a_failed_sync_writes_are_refused_and_reads_still_work(tmp_path: Path, disk: FaultyDisk) -> None:
    async with serve(tmp_path, disk) as client:
        created = await client.put(PATH, content=b"kept\n", headers=TEXT)
        query = {"live": "long-poll", "offset": created.headers["stream-next-offset"]}
        reading = asyncio.create_task(client.get(PATH, params=query))
        await turn()
        disk.fail_syncs()
        assert_refused(await append(client, b"in doubt\n"), "store_failed")
        disk.heal()
        # The kernel may have dropped what it could not write, so a sync that succeeds now proves nothing.
        assert_refused(await append(client, b"refused\n"), "store_failed")
        assert_refused(await client.put("/v1/stream/b", headers=TEXT), "store_failed")
        assert (await client.get(PATH)).content == b"kept\n"
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.headers["content-type"] == "application/problem+json"
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_a_server_that_is_restarted_after_a_failed_sync_accepts_writes(tmp_path: Path, disk: FaultyDisk) -> None:
    producer = {"Producer_Id": "p", "Producer_Epoch": "0"}
    async with serve(tmp_path, disk) as client:
        await client.put(PATH, content=b"kept\n", headers=TEXT)
        assert (await append(client, b"one\n", **producer, Producer_Seq="0")).status_code == 200
        disk.fail_syncs()
        assert_refused(await append(client, b"two\n", **producer, Producer_Seq="1"), "store_failed")
    async with serve(tmp_path, disk) as client:
        assert (await client.get("/readyz")).status_code == 200
        # Whether or not the uncertain append was stored, it is there once after its retry.
        assert (await append(client, b"two\n", **producer, Producer_Seq="1")).status_code in (200, 204)
        assert (await append(client, b"three\n", **producer, Producer_Seq="2")).status_code == 200
        assert (await client.get(PATH)).content == b"kept\none\ntwo\nthree\n"


async def test_acknowledged_appends_survive_a_sync_that_fails_under_load(tmp_path: Path, disk: FaultyDisk) -> None:
    acknowledged: list[int] = []

    async def write(client: httpx2.AsyncClient, numbers: range) -> None:
        for number in numbers:
            response = await append(client, b"%d\n" % number)
            if response.status_code == 204:
                acknowledged.append(number)
            else:
                assert_refused(response, "store_failed")

    async with serve(tmp_path / "data", disk) as client:
        await client.put(PATH, headers=TEXT)
        disk.fail_syncs(after_syncs=5)
        await asyncio.gather(*(write(client, range(start, start + 10)) for start in range(0, 200, 10)))
        assert 0 < len(acknowledged) < 200
        assert sorted(map(int, (await client.get(PATH)).content.split())) == sorted(acknowledged)
        disk.lose_power(tmp_path / "found")
    for directory in ("data", "found"):
        async with serve(tmp_path / directory, disk) as client:
            found = list(map(int, (await client.get(PATH)).content.split()))
            assert len(found) == len(set(found))
            assert set(acknowledged) <= set(found)


async def test_a_server_whose_store_has_failed_still_shuts_down_cleanly(tmp_path: Path, disk: FaultyDisk) -> None:
    """A stream with a TTL was read, and the time of that read cannot be stored any more, which is the smaller loss."""
    async with serve(tmp_path, disk) as client:
        await client.put(PATH, content=b"kept\n", headers=TEXT | {"Stream-TTL": "3600"})
        assert (await client.get(PATH)).content == b"kept\n"
        disk.fail_syncs()
        assert_refused(await append(client, b"in doubt\n"), "store_failed")
    async with serve(tmp_path, disk) as client:
        assert (await client.get(PATH)).content.startswith(b"kept\n")


# Reserved space for deletes


async def test_a_server_on_a_full_disk_is_not_ready_until_there_is_space_again(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 0.02)
    async with serve(tmp_path, disk) as client:
        await client.put(PATH, headers=TEXT)
        assert (await client.get("/readyz")).status_code == 200
        disk.fill_up()
        assert_refused(await append(client, b"lost\n"), "store_full")
        writes = disk.writes
        while disk.writes < writes + 3:  # the store checks for space on its own
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "store_full")
            await turn()
        disk.heal()
        while (
            await client.get("/readyz")
        ).status_code != 200:  # although nobody writes; the test's timeout ends this loop
            await turn()


async def test_released_space_is_for_deletes_only(
    tmp_path: Path, disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ROOM_CHECK_S", 3600.0)
    async with serve(tmp_path, disk) as client:
        for path in (PATH, "/v1/stream/b"):
            await client.put(path, headers=TEXT)
        disk.fill_up()
        assert_refused(await client.delete(PATH), "store_full")  # removing a file frees nothing on this disk
        disk.heal()
        refused = [
            append(client, b"lost\n"),
            client.put("/v1/stream/c", headers=TEXT),
            client.post(PATH, headers={"Stream-Closed": "true"}),
        ]
        for response in await asyncio.gather(*refused):
            assert_refused(response, "store_full")
        assert (await client.delete(PATH)).status_code == 204
        mixed = await asyncio.gather(client.delete("/v1/stream/b"), client.put("/v1/stream/c", headers=TEXT))
        assert [response.status_code for response in mixed] == [204, 503]
        assert (await client.get("/readyz")).status_code == 503
