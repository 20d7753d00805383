"""Finds the lines of the keys in a TOML file, which Python's parser does not report.

The text has been parsed before, so this only has to recognise where statements begin: it skips strings, comments and
values, and looks at the headers of tables and at keys.
"""

import re
import tomllib
from collections.abc import Mapping

Path = tuple[str, ...]

KEY = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*(\.?)[ \t]*""")
SKIPPED = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|#[^\n]*|[\[{]|[\]}]|\n|[^"'#\[\]{}\n]+''',
    re.DOTALL,
)
"""The parts of a value: a string, a comment, a bracket, the end of a line, or anything else."""


def find_lines(text: str) -> Mapping[Path, int]:
    """Return the line of every key and table of a valid TOML text. Keys in an inline table have the line of that table,
    and those in an array of tables that of the first one."""
    lines: dict[Path, int] = {}
    table: Path = ()
    position = 0
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
        elif text[position] == "#":
            position = _skip_line(text, position)
        else:
            line = text.count("\n", 0, position) + 1
            if text[position] == "[":
                brackets = 2 if text.startswith("[[", position) else 1
                path, position = _read_key(text, position + brackets)
                table = path
                position = _skip_line(text, position)
            else:
                key, position = _read_key(text, position)
                path = (*table, *key)
                position = _skip_value(text, position)
            for depth in range(1, len(path) + 1):
                lines.setdefault(path[:depth], line)
    return lines


def find_line(lines: Mapping[Path, int], *path: str) -> int:
    """Return the line of a key, or else that of the table that it would be in."""
    for depth in range(len(path), 0, -1):
        if path[:depth] in lines:
            return lines[path[:depth]]
    return 1


def _read_key(text: str, position: int) -> tuple[Path, int]:
    """Return a key, which may have several parts with dots between them, and the position after it."""
    parts: list[str] = []
    while True:
        while text[position] in " \t":
            position += 1
        found = KEY.match(text, position)
        assert found is not None, "the text was parsed before"
        parts.append(_unquote(found[1]))
        position = found.end()
        if not found[2]:
            return tuple(parts), position


def _unquote(key: str) -> str:
    return next(iter(tomllib.loads(f"{key} = 0")))


def _skip_value(text: str, position: int) -> int:
    """Return the position after a value and the end of its line."""
    depth = 0
    while position < len(text):
        found = SKIPPED.match(text, position)
        assert found is not None, "the text was parsed before"
        position = found.end()
        if found[0] in ("[", "{"):
            depth += 1
        elif found[0] in ("]", "}"):
            depth -= 1
        elif found[0] == "\n" and depth == 0:
            break
    return position


def _skip_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1
