"""An undocumented setting fails the build."""

from pathlib import Path

import pytest

from mainstem.server.settings import ENVIRONMENT_PREFIX, Settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


@pytest.mark.parametrize("name", Settings.__struct_fields__)
def test_every_setting_is_documented_as_key_flag_and_variable_with_its_default(page, name):
    rows = [line for line in page.splitlines() if f"`{name}`" in line]
    assert rows, f"{name} has no row in {PAGE.name}"
    row = rows[0]
    default = getattr(Settings(), name)
    assert f"`--{name.replace('_', '-')}`" in row
    assert f"`{ENVIRONMENT_PREFIX}{name.upper()}`" in row
    assert f"`{str(default).lower() if isinstance(default, bool | None) else default}`" in row


def test_the_page_documents_no_setting_that_does_not_exist(page):
    documented = {
        word.strip("`,.|").removeprefix(ENVIRONMENT_PREFIX).lower()
        for word in page.split()
        if word.strip("`,.|").startswith(ENVIRONMENT_PREFIX) and word.strip("`,.|") != f"{ENVIRONMENT_PREFIX}*"
    }
    assert documented - {"config"} <= set(Settings.__struct_fields__)
