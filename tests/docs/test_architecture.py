"""The pages that describe the source name every package and module, and nothing that does not exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mainstem"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PAGES = [
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "reference" / "limits.md",
    *sorted((ROOT / "docs" / "internals").glob("*.md")),
]

ROW = re.compile(r"^\| `([a-z_/]+/|mainstem)` \| (.+?) \| .+ \|$", re.MULTILINE)
MODULE_PATH = re.compile(r"`(?:src/mainstem/)?([a-z0-9_]+(?:/[a-z0-9_]+)*\.py)`")


def documented_packages() -> dict[Path, set[str]]:
    """Return each package of the tables in ARCHITECTURE.md, with the modules that its row names."""
    return {
        SOURCE / ("" if name == "mainstem" else name): set(re.findall(r"`([a-z0-9_]+)`", modules))
        for name, modules in ROW.findall(ARCHITECTURE)
    }


def packages() -> list[Path]:
    return sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def modules_of(package: Path) -> set[str]:
    return {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}


def test_every_package_has_a_row_and_every_row_a_package():
    assert set(documented_packages()) == set(packages())


@pytest.mark.parametrize("package", packages(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_row_names_every_module_of_its_package_and_no_other(package: Path):
    assert documented_packages()[package] == modules_of(package)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_module_that_a_page_names_exists(page: Path):
    """A path is relative to `src/mainstem` or to the repository; a bare file name may be in any package."""
    bare = {path.name for path in SOURCE.rglob("*.py")}
    named = MODULE_PATH.findall(page.read_text())
    assert not [path for path in named if not ((SOURCE / path).exists() or (ROOT / path).exists() or path in bare)]


def test_every_place_to_change_something_exists():
    table = CONTRIBUTING.partition("## Where do I change")[2].partition("\n## ")[0]
    guesses = re.findall(r"^\| (?!---|to change)(.+?) \| (.+?) \|$", table, re.MULTILINE)
    assert len(guesses) >= 12
    for what, where in guesses:
        paths = re.findall(r"`([^`]+)`", where)
        assert paths, what
        for path in paths:
            assert (SOURCE / path).exists() or (ROOT / path).exists(), f"{what}: there is no {path}"
