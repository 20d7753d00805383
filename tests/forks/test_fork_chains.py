"""Chains of forks read as if each fork were a copy, whatever is appended and however small the pages are."""

import random

import pytest

from mainstem.log.store.sqlite.snapshot import open_snapshot
from tests.forks.branches import JSON, ROOT, TEXT, Branch, fork, read_all
from tests.support.waits import eventually

pytestmark = pytest.mark.slow

DEPTH = 5


@pytest.mark.parametrize("page_bytes", [1, 7, 1 << 20])
@pytest.mark.parametrize("content_type", [TEXT, JSON])
def test_a_chain_of_five_forks_reads_as_if_each_had_been_copied(start_thread, connect_to, content_type, page_bytes):
    client = connect_to(start_thread(page_bytes=page_bytes))
    for seed in range(3):
        chance = random.Random(seed)
        branches = [Branch(client, f"{seed}/0", content_type)]
        branches[0].create()
        for level in range(1, DEPTH + 1):
            for branch in branches:  # later appends to older streams must not show in earlier forks
                for _ in range(chance.randint(0, 3)):
                    branch.append(chance)
            branches.append(branches[-1].branch(f"{seed}/{level}", chance))
        branches[-1].append(chance)
        for branch in branches:
            branch.check(chance)


@pytest.mark.parametrize("content_type", [TEXT, JSON])
def test_a_chain_reads_the_same_after_a_restart(start_thread, connect_to, tmp_path, content_type):
    """Before the restart, much is read from memory; after it, everything is read from the file."""
    settings = {"data": str(tmp_path / "kept"), "page_bytes": 11}
    server = start_thread(**settings)
    client = connect_to(server)
    chance = random.Random(content_type)
    branches = [Branch(client, "root", content_type)]
    branches[0].create()
    for level in range(DEPTH):
        for branch in branches:
            branch.append(chance)
        branches.append(branches[-1].branch(f"level/{level}", chance))
    server.stop()
    client = connect_to(start_thread(**settings))
    for branch in branches:
        branch.client = client
        branch.check(chance)
        branch.append(chance)
        branch.check(chance)


def test_a_page_spans_the_segments_of_a_fork(start_thread, connect_to):
    client = connect_to(start_thread(page_bytes=4))
    for source, name, data in ((None, "a", b"aaa"), ("a", "b", b"bbb"), ("b", "c", b"ccc")):
        if source is None:
            client.put(ROOT + name, headers={"content-type": TEXT}, content=data)
        else:
            client.put(ROOT + name, headers={"stream-forked-from": ROOT + source}, content=data)
    pages: list[str] = []
    offset = "-1"
    while "".join(pages) != "aaabbbccc":
        page = client.get(f"{ROOT}c?offset={offset}")
        pages.append(page.text)
        offset = page.headers["stream-next-offset"]
        assert ("stream-up-to-date" in page.headers) == ("".join(pages) == "aaabbbccc")
    assert pages == ["aaab", "bbcc", "c"]


def test_forking_copies_no_data(start_thread, connect_to, tmp_path):
    server = start_thread(data=str(tmp_path / "kept"))
    client = connect_to(server)
    client.put(ROOT + "s", headers={"content-type": TEXT}, content=b"x" * 100_000)
    for _ in range(10):
        client.post(ROOT + "s", headers={"content-type": TEXT}, content=b"y" * 1000)
    assert count_data(tmp_path / "kept" / "mainstem.db") == (11, 110_000)
    for number in range(20):
        assert (
            fork(client, f"f/{number}", "s" if number % 2 else f"f/{number - 1}" if number else "s").status_code == 201
        )
    assert count_data(tmp_path / "kept" / "mainstem.db") == (11, 110_000)
    assert len(read_all(client, "f/18")) == 110_000


def count_data(file) -> tuple[int, int]:
    """Return the number of records with data and their bytes, not counting the CREATE records."""
    eventually(lambda: not has_unfolded(file))
    with open_snapshot(file) as snapshot:
        return snapshot.db.execute('SELECT count(*), sum(length(data)) FROM records WHERE "end" > "start"').get


def has_unfolded(file) -> bool:
    with open_snapshot(file) as snapshot:
        return bool(snapshot.find_unfolded())
