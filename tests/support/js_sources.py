"""The source of the JavaScript client, as text."""

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "js" / "src"
SOURCES: Final = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.js")}
DECLARATIONS: Final = (FOLDER / "mainstem.d.ts").read_text()
MADE: Final = re.compile(r'\b(?:MainstemError|full)\(\s*"([a-z_]+)"')
"""How an error is made; `full` is a function in store.js."""


def find_codes() -> set[str]:
    """Return the codes of all errors that the client makes."""
    return {code for source in SOURCES.values() for code in MADE.findall(source)}


def find_retryable_codes() -> set[str]:
    source = SOURCES["errors.js"]
    return set(re.findall(r'"(\w+)"', source[: source.index("]);")]))


def find_changes() -> set[str]:
    """Return the types of changes that listeners get."""
    return set(re.findall(r'type: "([a-z]+)"', SOURCES["client.js"]))


def find_union(name: str) -> set[str]:
    """Return the strings of a union in the declarations."""
    found = re.search(rf"export type {name} =((?:\s*\| \"\w+\")+);", DECLARATIONS)
    assert found
    return set(re.findall(r'"(\w+)"', found[1]))


def find_declaration(head: str) -> str:
    """Return an exported declaration up to its closing brace."""
    found = re.search(rf"^export {head}.*?^}}", DECLARATIONS, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]
