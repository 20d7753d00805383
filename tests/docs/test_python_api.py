"""The page on the Python API shows every public name of the packages that have no reference page of their own."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python-api.md"
SHOWN = set(re.findall(r"^::: (\S+)$", PAGE.read_text(), re.MULTILINE))
"""Names and whole modules."""


@pytest.mark.parametrize(
    "package",
    [
        "mainstem.ai",
        "mainstem.client",
        "mainstem.client.state",
        "mainstem.client.workers",
        "mainstem.pipeline",
        "mainstem.server",
    ],
)
def test_the_page_shows_every_name_of_a_package(package):
    module = import_module(package)
    missing = [
        name
        for name in module.__all__
        if f"{package}.{name}" not in SHOWN and getattr(module, name).__module__ not in SHOWN
    ]
    assert not missing


def test_the_page_shows_the_errors_of_runs():
    assert "mainstem.ai.errors" in SHOWN
