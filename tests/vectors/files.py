"""The vector files: where they are, and how they are written."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LINE_CHARS_MAX = 120

Json = dict[str, Any]


def files() -> list[Path]:
    return [*sorted((FOLDER / "session").glob("*.json")), *sorted(FOLDER.glob("*.json"))]


def load(path: Path) -> list[Json]:
    cases: list[Json] = json.loads(path.read_text(encoding="utf-8"))
    return cases


def dump(cases: list[Json]) -> str:
    return layout(cases, 0) + "\n"


def layout(value: Any, indent: int) -> str:
    """Return JSON with as much on a line as fits, so that people can read a case and a diff shows what changed."""
    line = encode(value)
    if indent + len(line) <= LINE_CHARS_MAX or not isinstance(value, dict | list) or not value:
        return line
    inner = " " * (indent + 2)
    if isinstance(value, list):
        if all(isinstance(item, str | int) for item in value):
            return "[\n" + fill([encode(item) for item in value], inner) + f"\n{inner[2:]}]"
        items = [inner + layout(item, indent + 2) for item in value]
        return "[\n" + ",\n".join(items) + f"\n{inner[2:]}]"
    items = [f"{inner}{encode(key)}: {layout(item, indent + 2)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{inner[2:]}}}"


def fill(items: list[str], inner: str) -> str:
    lines = [inner + items[0]]
    for item in items[1:]:
        lines[-1] += ","
        if len(lines[-1]) + 1 + len(item) < LINE_CHARS_MAX:
            lines[-1] += f" {item}"
        else:
            lines.append(inner + item)
    return "\n".join(lines)


def encode(value: Any) -> str:
    """Return JSON in ASCII: lone surrogates and combining marks stay visible and survive every editor."""
    return json.dumps(value)
