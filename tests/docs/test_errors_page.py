"""The page of errors lists every error of the code with its code, status and retry rule, and no other."""

import re
from pathlib import Path

import pytest

from mainstem import errors
from mainstem.errors import MainstemError, SubscriptionError, SyncError
from mainstem.sync.protocol.messages import OversizeMessage
from mainstem.sync.validation.tree import TreeConflict

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text()
ELSEWHERE = (OversizeMessage, TreeConflict)
"""Errors that are defined beside the code that raises them."""
CLASSES = {
    type_.__name__: type_
    for type_ in (*vars(errors).values(), *ELSEWHERE)
    if isinstance(type_, type) and issubclass(type_, MainstemError)
}


def read_rows() -> dict[str, dict[str, str]]:
    """Each row of a table of errors by its class, with its cells by the name of their column."""
    found: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if cells and cells[0] == "class":
            columns = cells
        elif cells and cells[0].startswith("`"):
            name = cells[0].strip("`")
            assert name not in found, f"{name} has two rows"
            found[name] = dict(zip(columns, cells, strict=True))
    return found


ROWS = read_rows()


def test_every_error_has_a_row_and_every_row_an_error():
    assert set(ROWS) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_row_says_what_the_class_says(name):
    type_, row = CLASSES[name], ROWS[name]
    assert row["code"] == f"`{type_.code}`"
    assert row["status"] == str(type_.status)
    assert row["retryable"] == ("yes" if type_.retryable else "no")
    if issubclass(type_, SyncError):
        assert row["closes"] == ("yes" if type_.closes else "no")
    if issubclass(type_, SubscriptionError):
        assert row["`error.code`"] == f"`{type_.public_code}`"


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_that_people_can_meet_says_what_it_is(name):
    """A title is a phrase, and a hint is made of sentences."""
    type_ = CLASSES[name]
    assert type_.title
    assert not type_.title.endswith(".")
    assert not type_.hint or re.match(r"[A-Z`-]", type_.hint)
    assert not type_.hint or type_.hint.endswith((".", "'"))


def test_the_example_is_a_real_error():
    assert f'"title": "{errors.TailMoved.title}"' in PAGE
    assert f'"hint": "{errors.TailMoved.hint}"' in PAGE
