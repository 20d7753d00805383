"""Reference pages as data: their sections, the endpoints that these are about, and their tables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import FENCE, ROOT

REFERENCE = ROOT / "docs" / "reference"
HEADING = re.compile(r"^(#{1,6}) (.+)$", re.MULTILINE)
ENDPOINT = re.compile(r"^(?:## )?`([A-Z]+) (/[^`?\s]*)`$", re.MULTILINE)
ROW = re.compile(r"^\|(.+)\|$")
CELL_BORDER = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def names(self) -> list[str]:
        """What the first column names, as code."""
        return [name for row in self.rows for name in CODE.findall(row[0])]


class Section(NamedTuple):
    title: str
    text: str

    @property
    def endpoints(self) -> list[tuple[str, str]]:
        return ENDPOINT.findall(self.text)

    @property
    def prose(self) -> str:
        """The text without code blocks, tables, comments, headings and the lines that name endpoints."""
        lines = ENDPOINT.sub("", FENCE.sub("", self.text)).splitlines()
        return "\n".join(line for line in lines if line and not line.startswith(("|", "#", "<!--")))

    @property
    def examples(self) -> list[str]:
        return [match["text"] for match in FENCE.finditer(self.text) if match["language"] not in ("output", "text")]

    def tables(self, first: str) -> list[Table]:
        """The tables whose first column has this name."""
        return [table for table in find_tables(self.text) if table.head[0] == first]

    def names(self, first: str) -> list[str]:
        return [name for table in self.tables(first) for name in table.names()]


def read_sections(page: str) -> list[Section]:
    """The sections of a reference page, each up to the next heading of any level."""
    text = (REFERENCE / page).read_text()
    blanked = FENCE.sub(lambda match: " " * len(match[0]), text)  # a comment in a script is no heading
    starts = [(match.start(), match[2]) for match in HEADING.finditer(blanked)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    return [Section(title, text[start:end]) for (start, title), end in zip(starts, ends, strict=True)]


def find_tables(text: str) -> Iterator[Table]:
    rows: list[tuple[str, ...]] = []
    for line in [*FENCE.sub("", text).splitlines(), ""]:
        if found := ROW.match(line):
            rows.append(tuple(cell.strip() for cell in CELL_BORDER.split(found[1])))
        elif rows:
            yield Table(rows[0], rows[2:])
            rows = []


def find_page(name: str) -> Path:
    return REFERENCE / name
