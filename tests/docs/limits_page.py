"""Writes the tables of docs/reference/limits.md from `mainstem/limits.py`: `python -m tests.docs.limits_page`."""

import re
from pathlib import Path
from typing import NamedTuple

from mainstem import limits
from mainstem.server import settings

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
SOURCE = Path(limits.__file__)
UNITS_OF_SIZE = {"KIB", "MIB"}
DAY_US = 86_400_000_000

# A value, with its reason in the docstring below it, or else in a comment beside it.
LIMIT = re.compile(
    r"^([A-Z][A-Z0-9_]*): Final = (?:\(\n[^\n]*\n\)|[^#\n]*?)(?: +# ([^\n]+))?\n(?:\"\"\"(.+?)\"\"\"\n)?",
    re.MULTILINE | re.DOTALL,
)
SECTION = re.compile(r"^# ([A-Z].*)$", re.MULTILINE)
SETTING = re.compile(r"= limits\.([A-Z_]+)$", re.MULTILINE)
TABLE = "| name | value | reason |\n|---|---|---|\n"

FOREWORDS = {
    "Sync protocol": "The server advertises the first four, and the limits of a page, in `connected`.",
    "Streams client": "They apply to [`Streams` and its producers](python-client.md), in the process of the client.",
    "Offline client": "They apply to [`OfflineClient`](offline-client.md), in the process of the client.",
    "Pipeline service": "They apply to [`mainstem pipeline run`](pipeline.md#run) and its file.",
    "Spark pipeline": "They apply to the driver and the workers of Spark, not to the server.",
}


class Limit(NamedTuple):
    name: str
    section: str
    reason: str

    @property
    def value(self) -> float:
        value: float = getattr(limits, self.name)
        return value

    def as_row(self) -> str:
        star = " *" if self.name in settings_defaults() else ""
        return f"| `{self.name}`{star} | {format_value(self.name, self.value)} | {self.reason} |"


def settings_defaults() -> set[str]:
    """Return the limits that are defaults of settings."""
    return set(SETTING.findall(Path(settings.__file__).read_text()))


def find_limits(source: str) -> list[Limit]:
    sections = [(found.start(), found[1]) for found in SECTION.finditer(source)]
    found = []
    for match in LIMIT.finditer(source):
        if match[1] not in UNITS_OF_SIZE:
            section = [name for start, name in sections if start < match.start()][-1]
            found.append(Limit(match[1], section, " ".join((match[3] or match[2] or "").split())))
    return found


def format_value(name: str, value: float) -> str:
    """Return a value with the unit that is last in its name."""
    if re.search(r"_US(?:_M(?:AX|IN))?$", name):
        return f"{value / DAY_US:g} days" if value % DAY_US == 0 else f"{value / 1_000:g} ms"
    if name.endswith(("_MS", "_MS_MAX", "_MS_MIN")):
        return f"{group(value)} ms"
    per_second = " per second" if re.search(r"_(?:BYTES|MESSAGES)_S(?:_M(?:AX|IN))?$", name) else ""
    if "BYTES" in name:
        return format_size(int(value)) + per_second
    if not per_second and re.search(r"_S(?:_M(?:AX|IN))?$", name):
        return f"{group(value)} s"
    return group(value) + per_second


def format_size(size: int) -> str:
    for unit, name in ((limits.MIB, "MiB"), (limits.KIB, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{group(size // unit)} {name}"
    return f"{group(size)} bytes"


def group(value: float) -> str:
    """Return a number with its digits in groups of three, as the other pages write them."""
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:g}"


def write_sections(found: list[Limit]) -> str:
    parts = []
    for section in dict.fromkeys(limit.section for limit in found):
        foreword = f"{FOREWORDS[section]}\n\n" if section in FOREWORDS else ""
        rows = "\n".join(limit.as_row() for limit in found if limit.section == section)
        parts.append(f"## {section}\n\n{foreword}{TABLE}{rows}\n")
    return "\n".join(parts)


HEAD = """# Limits

Every limit of the server, the clients and the pipeline, made from `src/mainstem/limits.py`. The last word of a name is
its unit. Those marked with * are defaults of [settings](configuration.md); the others are fixed. 1 KiB is 1024 bytes,
and 1 MiB is 1024 KiB.

"""
TAIL = """
## Next to the code

These are not in `limits.py`, but in the module that uses them.

| name | value | module | reason |
|---|---|---|---|
| `ERRORS_MAX` | 20 | `sync/validation/validators.py` | Errors that a schema reports for one event. |
| `TARGET_KEYS_MAX` | 64 | `sync/validation/tree.py` | Keys in the path of a tree action. |
| `RSA_BITS_MIN` | 2048 bits | `server/auth/keys.py` | The least that RS256 allows (RFC 7518, section 3.3). |
"""


def write_page() -> str:
    return HEAD + write_sections(find_limits(SOURCE.read_text())) + TAIL


if __name__ == "__main__":
    PAGE.write_text(write_page())
