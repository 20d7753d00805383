"""The log lines that the pages on operations explain are those that the code writes."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from mainstem import limits

ROOT = Path(__file__).parents[2]
LEVELS = {"critical": {"critical"}, "error": {"error", "exception"}, "warning": {"warning"}, "info": {"info"}}


@cache
def find_log_calls() -> set[tuple[str, str]]:
    """Every call of a logger with a text: its level, and the text before its values are filled in."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                logger, text = node.func.value, node.args[0]
                if isinstance(logger, ast.Name) and logger.id == "logger" and isinstance(text, ast.Constant):
                    found.add((node.func.attr, str(text.value)))
    return found


def read_table(page: str, heading: str) -> list[list[str]]:
    text = (ROOT / "docs" / "operations" / page).read_text().partition(heading)[2]
    rows = [line.strip("| ").split(" | ") for line in text.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return rows[1:]


def pattern_of(message: str) -> re.Pattern[str]:
    """Whatever a page leaves open may be any value, or the rest of the line."""
    message = message.replace(str(limits.RESERVE_BYTES), "...")
    return re.compile(".*".join(re.escape(part) for part in message.split("...")))


def is_written(message: str, levels: set[str]) -> bool:
    return any(level in levels and pattern_of(message).match(text) for level, text in find_log_calls())


@pytest.mark.parametrize(("level", "message"), [row[:2] for row in read_table("running.md", "\n## Logs")])
def test_a_line_in_the_table_is_written_with_its_level(level, message):
    assert is_written(message, LEVELS[level]), f"no {level} line says: {message}"


@pytest.mark.parametrize("message", [row[0] for row in read_table("postgresql.md", "\n## Monitoring")])
def test_a_line_of_a_node_is_written(message):
    assert is_written(message, set().union(*LEVELS.values())), f"no line says: {message}"


def test_lines_are_found():
    assert len(find_log_calls()) > 30
    assert len(read_table("running.md", "\n## Logs")) >= 10
    assert is_written("this node is now the leader", {"info"})
    assert not is_written("this node is not the leader", {"info"})
