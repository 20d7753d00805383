"""docs/internals/storage.md describes the spaces, the kinds of records and the schema as the code has them."""

import re
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from mainstem.checks import rules  # noqa: F401 - imports every module that declares a space
from mainstem.log.commands import Space, never_due
from mainstem.log.records import Kind
from mainstem.log.spaces import SpaceNumber
from mainstem.log.store.sqlite.schema import APPLICATION_ID, STEPS, migrate

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mainstem"
PAGE = (ROOT / "docs" / "internals" / "storage.md").read_text()

ROW = re.compile(r"^\| (\d+) \| `([A-Z_]+)` \| `([a-z_/]+\.py)` \| ([^|]+) \| ([^|]+) \|([^|]*)\|$", re.MULTILINE)
DECLARATION = re.compile(r"Space\(\s*SpaceNumber\.([A-Z_]+)")


class Row(NamedTuple):
    number: int
    name: str
    owner: str


def documented_rows() -> list[Row]:
    return [Row(int(number), name, owner) for number, name, owner, *_ in ROW.findall(PAGE)]


def declared_rows() -> list[Row]:
    owners = {
        name: path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for name in DECLARATION.findall(path.read_text())
    }
    return [Row(number.value, number.name, owners.get(number.name, "nowhere")) for number in SpaceNumber]


def test_the_table_lists_every_space_and_no_other_in_order():
    assert documented_rows() == declared_rows()


@pytest.mark.parametrize(
    ("number", "due"), [(int(found[0]), found[5].strip()) for found in ROW.findall(PAGE)], ids=lambda value: str(value)
)
def test_a_space_with_due_times_says_so_and_no_other(number: int, due: str):
    assert bool(due) == (Space.declared[number].due is not never_due)


def test_the_page_names_the_spaces_that_are_not_cached():
    listed = re.search(r"The cache does not keep states of spaces ([\d, and]+):", PAGE)
    assert listed is not None
    uncached = {number.value for number in SpaceNumber if not Space.declared[number].cached}
    assert set(map(int, re.findall(r"\d+", listed[1]))) == uncached


def test_the_page_lists_every_kind_of_record_and_no_other():
    listed = re.search(r"^\| `kind` \| (.+) \|$", PAGE, re.MULTILINE)
    assert listed is not None
    assert listed[1] == ", ".join(f"{kind:d} {kind.name.lower()}" for kind in Kind)


def describe_schema(db: apsw.Connection) -> set[tuple[str, str, str]]:
    rows = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows}


def test_the_schema_on_the_page_is_the_one_that_a_new_store_gets():
    documented, made = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    blocks = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    documented.execute("".join(blocks))
    migrate(made)
    assert describe_schema(documented) == describe_schema(made)


def test_the_page_names_the_version_of_the_schema():
    assert f"`PRAGMA user_version` is the version of the schema, now {len(STEPS)}:" in PAGE
    assert f"`0x{APPLICATION_ID:08X}`" in PAGE
