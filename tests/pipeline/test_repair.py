"""Damaged records are taken back from an archive."""

import random
from pathlib import Path

import pytest

from mainstem.log.store.sqlite.connections import STORE_NAME
from mainstem.pipeline.jobs.archive import make_archive
from mainstem.pipeline.jobs.runner import run_once
from tests.cli.test_repair import damage, find_pages, read_rows
from tests.support.command_line import Shell


@pytest.mark.parametrize("part", [0, 1])
def test_appends_and_events_are_put_together_again(
    log, server, context, shell: Shell, tmp_path: Path, part: int
) -> None:
    chance = random.Random(1)
    log.append("first", [1])
    for number in range(60):
        log.append("orders/eu", [{"n": number, "text": "x" * 100}, {"n": 2.50}])
        log.append_bytes("blob", chance.randbytes(500))
    log.submit(["room-1", "room-2"], [{"n": number, "big": 12345678901234567890} for number in range(100)])
    archive = str(tmp_path / "archive")
    run_once(make_archive(archive), context)
    server.terminate()
    path = server.data / STORE_NAME
    expected = read_rows(path)
    pages = find_pages(path, "records")[1:-1]
    assert len(pages) >= 4
    damage(path, *pages[part::2])
    assert "is repaired" in shell.ok("repair", "--data", str(server.data), "--archive", archive)
    assert read_rows(path) == expected
