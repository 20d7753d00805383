"""A database with a full disk refuses writes, keeps its data, and accepts writes again once there is space."""

import os
import pwd
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from mainstem import limits
from tests.support.small_disks import grow, mounted

PATH = "/v1/stream/a"
SMALL_BYTES, LARGE_BYTES = 24 * limits.MIB, 64 * limits.MIB
BYTES = {"content-type": "application/octet-stream"}
Grow = Callable[[], None]


@pytest.fixture
def small_disk(postgres, tmp_path_factory) -> Iterator[tuple[str, Grow]]:
    """The URL of a database on a small disk, and a function that makes the disk larger."""
    with mounted(Path("/tmp") / f"mainstem-small-disk-{os.getpid()}", SMALL_BYTES) as folder:
        place = folder / "space"
        place.mkdir(mode=0o700)
        owner = os.stat(postgres.data)
        os.chown(place, owner.st_uid, owner.st_gid)
        assert pwd.getpwuid(owner.st_uid)
        postgres.run(f"CREATE TABLESPACE small LOCATION '{place}'")
        postgres.run("CREATE DATABASE small TABLESPACE small")
        try:
            yield postgres.url("small"), lambda: grow(folder, LARGE_BYTES)
        finally:
            postgres.run("DROP DATABASE small WITH (FORCE)")
            postgres.run("DROP TABLESPACE small")


def test_writes_are_refused_until_there_is_space_again(small_disk, start_nodes):
    url, make_space = small_disk
    (node,) = start_nodes(1, url=url)
    block = b"x" * 100_000
    with httpx2.Client(base_url=node.url, timeout=30, trust_env=False) as client:
        assert client.put(PATH, headers=BYTES).status_code == 201
        taken = 0
        while (reply := client.post(PATH, headers=BYTES, content=block)).status_code == 204:
            taken += 1
            assert taken < 1_000
        assert reply.status_code == 503
        assert reply.json()["code"] == "store_full"
        assert reply.headers["retry-after"]
        assert taken > 10
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "store_full")
        assert client.head(PATH).headers["stream-next-offset"].endswith(f"{taken * len(block):016d}")
        make_space()
        for _ in range(5):
            assert client.post(PATH, headers=BYTES, content=block).status_code == 204
        assert client.get("/readyz").status_code == 200
        assert client.head(PATH).headers["stream-next-offset"].endswith(f"{(taken + 5) * len(block):016d}")
    assert "Traceback" not in node.stderr
