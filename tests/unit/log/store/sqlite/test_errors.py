"""SQLite's errors reach people in plain words, with the way out and without the text of the library."""

from pathlib import Path

import apsw
import pytest

from mainstem.errors import StoreUnusable
from mainstem.log.store.sqlite import SqliteStore
from mainstem.log.store.sqlite.errors import REASONS, explain


@pytest.mark.parametrize("kind", REASONS, ids=lambda kind: kind.__name__)
def test_a_common_error_is_explained_in_our_words(kind: type[Exception]) -> None:
    error = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why") if kind is UnicodeDecodeError else kind("library text")
    assert explain(error) == REASONS[kind]


def test_a_rare_error_is_named_by_its_kind_only() -> None:
    assert explain(apsw.MisuseError("library text")) == "SQLite failed with MisuseError"


async def test_a_file_that_is_not_a_database_is_reported_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mainstem.db").write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreUnusable) as refusal:
        await SqliteStore(tmp_path).open()
    assert refusal.value.detail == (
        f"cannot open {tmp_path}/mainstem.db: the file is not a SQLite database; choose another directory with --data, "
        "or restore a backup with `mainstem restore`"
    )


@pytest.mark.parametrize(("data", "reason"), [("file", "it is a file"), ("file/data", "a part of its path is a file")])
async def test_a_data_directory_that_is_a_file_is_reported_as_such(tmp_path: Path, data: str, reason: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnusable) as refusal:
        await SqliteStore(tmp_path / data).open()
    assert refusal.value.detail == (
        f"cannot use the data directory {tmp_path / data}: {reason}; choose another one with --data"
    )


async def test_a_corrupt_database_names_check_and_repair(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    await store.close()
    path = tmp_path / "mainstem.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(StoreUnusable) as refusal:
        await SqliteStore(tmp_path).open()
    assert refusal.value.detail == (
        f"cannot open {path}: the checksum of a page is wrong; run `mainstem check` for details, then "
        "`mainstem repair` or `mainstem restore`"
    )
