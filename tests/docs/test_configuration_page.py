"""The page of settings lists every setting and variable of the code, with its default and range, and no other."""

import re
from pathlib import Path

import pytest

from mainstem.server.settings import ENVIRONMENT_PREFIX, OTHER_VARIABLES, Settings, describe_values

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text()
ROWS = {
    cells[0].strip(" `"): cells
    for cells in (line.strip("|").split("|") for line in PAGE.splitlines() if "`--" in line and line.startswith("| `"))
}


def test_there_is_one_row_for_each_setting_in_the_order_of_the_code():
    assert tuple(ROWS) == Settings.__struct_fields__


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_a_row_names_the_flag_the_variable_the_default_and_the_values(name):
    _, flag, variable, default, meaning = (cell.strip() for cell in ROWS[name])
    value = getattr(Settings(), name)
    assert flag == f"`--{name.replace('_', '-')}`"
    assert variable == f"`{ENVIRONMENT_PREFIX}{name.upper()}`"
    assert default == f"`{str(value).lower() if isinstance(value, bool | None) else value}`"
    accepted = describe_values(name)
    if found := re.fullmatch(r"a whole number from (\d+) to (\d+)", accepted):
        assert f"{found[1]} to {int(found[2]):,}".replace(",", " ") in meaning
    elif accepted not in ("text", "true or false"):
        assert all(f"`{choice}`" in meaning for choice in re.split(r", | or ", accepted))


def test_the_other_variables_are_those_that_cause_no_warning():
    table = PAGE.partition("## Other variables")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`MAINSTEM_([A-Z_*]+)`", row)}
    assert named == OTHER_VARIABLES | {"TEST_*"}


def test_the_page_names_no_variable_that_does_not_exist():
    known = {name.upper() for name in Settings.__struct_fields__} | OTHER_VARIABLES
    assert set(re.findall(r"MAINSTEM_([A-Z_]*[A-Z])\b", PAGE)) <= known
