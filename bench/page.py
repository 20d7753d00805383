"""Writes the figures of docs/operations/performance.md: `python -m bench.page`.

They come from the last whole run, and from the last runs of scenarios that take long (`bench/results/<name>/`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from typing import Any

from bench.formats import format_number
from bench.growth_scenarios import FIGURES, SIZES
from bench.peers import HERE, OURS
from bench.report import format_ratio

RESULTS = HERE / "results"
DOCS = HERE.parent / "docs"
PAGE = DOCS / "operations" / "performance.md"
CHART = DOCS / "assets" / "bench.svg"
BEGIN, END = "<!-- Written by `python -m bench.page`. -->\n", "<!-- The written part ends here. -->\n"
GROWTH_TARGET = "As the log grows, each figure should stay within 15 % of the first in its row, or is marked as missed."
JUDGED = {"pass": "reached", "MISS": "missed"}

Run = dict[str, Any]  # bench.json


def write_figures(runs: Sequence[Run]) -> str:
    run, *others = runs
    [other] = [name for name in run["peers"] if name != OURS]
    # A scenario that was measured again takes the place of its older figures.
    rows: Run = {row["name"]: row for row in run["measurements"]}
    for some in sorted(runs, key=lambda some: str(some["machine"]["date"])):
        rows |= {row["name"]: row for row in some["measurements"]}
    growth = {f"growth-{figure}-{size}" for figure in FIGURES for size in SIZES}
    beside = [row for row in rows.values() if row["ratio"] is not None]
    alone = [row for row in rows.values() if row["ratio"] is None and row["name"] not in growth]
    parts = [
        describe_run(run),
        f"![Mainstem beside {other}](../assets/{CHART.name})",
        write_table(["measurement", OURS, other, "ratio", "target"], [compare(row, other) for row in beside]),
    ]
    if growth & rows.keys():
        heads = ["as the log grows", *(f"{total / 1e6:g} million records" for total in SIZES.values())]
        parts += [GROWTH_TARGET, write_table(heads, [follow_growth(rows, figure) for figure in FIGURES])]
    parts.append(write_table(["Mainstem alone", "measured", "target"], [describe(row) for row in alone]))
    for later in others:
        titles = ", ".join(sorted({row["name"].split("-")[0] for row in later["measurements"]}))
        parts.append(f"In a run of their own ({titles}): {describe_run(later)}")
    return "\n\n".join(parts) + "\n"


def describe_run(run: Run) -> str:
    machine = run["machine"]
    versions = "; ".join(peer["version"] for peer in run["peers"].values())
    return (
        f"{machine['date']}, {machine['cores']} cores of {machine['cpu']}, {machine['system']}. "
        f"A sync of the disk took {machine['fdatasync_p50_ms']} ms (p50) and {machine['fdatasync_p99_ms']} ms (p99). "
        f"Medians of {run['repeat']} runs of {run['seconds']:g} s. {versions}."
    )


def compare(row: Run, other: str) -> list[str]:
    mine, theirs = (format_number(row["medians"][name]) for name in (OURS, other))
    return [row["title"], f"{mine} {row['unit']}", theirs, format_ratio(row["ratio"]), describe_target(row)]


def describe(row: Run) -> list[str]:
    return [row["title"], f"{format_number(row['medians'][OURS])} {row['unit']}", describe_target(row)]


def follow_growth(rows: dict[str, Run], figure: str) -> list[str]:
    found = [rows[f"growth-{figure}-{size}"] for size in SIZES]
    title, _, _ = found[0]["title"].rpartition(", ")
    values = [format_number(row["medians"][OURS]) + (" (missed)" if row["mark"] == "MISS" else "") for row in found]
    return [f"{title}, {found[0]['unit']}", *values]


def describe_target(row: Run) -> str:
    return f"{row['target']}: {JUDGED[row['mark']]}" if row["mark"] in JUDGED else "none"


def write_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put_figures(page: str, figures: str) -> str:
    """Return the page with the figures between its marks."""
    found = re.search(re.escape(BEGIN) + "(.*)" + re.escape(END), page, re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE} lacks the marks between which the figures belong")
    return f"{page[: found.start(1)]}\n{figures}\n{page[found.end(1) :]}"


def read_runs() -> list[Run]:
    """Return the whole run, then the runs of single scenarios."""
    files = [RESULTS / "bench.json", *sorted(RESULTS.glob("*/bench.json"))]
    return [json.loads(file.read_text()) for file in files]


if __name__ == "__main__":
    PAGE.write_text(put_figures(PAGE.read_text(), write_figures(read_runs())))
    shutil.copyfile(RESULTS / "bench.svg", CHART)
