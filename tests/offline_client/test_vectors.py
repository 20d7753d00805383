"""The shared vectors in `tests/vectors`, which every client of the sync protocol runs, with the Python client."""

from pathlib import Path
from typing import Any

import pytest

from mainstem.client.offline.stores.memory import MemoryClientStore
from mainstem.client.offline.stores.sqlite import SqliteClientStore
from tests.vectors.files import FOLDER, dump, files, load
from tests.vectors.runs import run_canonical, run_partitions, run_session, run_store, run_view


def cases(*paths: Path) -> list[Any]:
    return [pytest.param(case, id=f"{path.stem}: {case['name']}") for path in paths for case in load(path)]


@pytest.mark.parametrize("case", cases(*sorted((FOLDER / "session").glob("*.json"))))
def test_session(case):
    assert run_session(case) == case


@pytest.mark.parametrize("case", cases(FOLDER / "canonical.json"))
def test_canonical(case):
    assert run_canonical(case) == case


@pytest.mark.parametrize("case", cases(FOLDER / "partitions.json"))
def test_partitions(case):
    assert run_partitions(case) == case


@pytest.mark.parametrize("case", cases(FOLDER / "store.json"))
def test_memory_store(case):
    store = MemoryClientStore()
    assert run_store(case, lambda: store) == case


@pytest.mark.parametrize("case", cases(FOLDER / "store.json"))
def test_sqlite_store(case, tmp_path):
    assert run_store(case, lambda: SqliteClientStore(tmp_path / "store.db")) == case


@pytest.mark.parametrize("case", cases(FOLDER / "views.json"))
def test_views(case, tmp_path):
    assert run_view(case) == case
    assert run_view(case, SqliteClientStore(tmp_path / "store.db")) == case


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_each_file_is_laid_out_as_the_recorder_writes_it_and_names_its_cases_once(path):
    found = load(path)
    names = [case["name"] for case in found]
    assert len(set(names)) == len(names)
    assert path.read_text(encoding="utf-8") == dump(found)
