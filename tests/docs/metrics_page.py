"""Writes the table of docs/reference/metrics.md from the catalogue of metrics: `python -m tests.docs.metrics_page`."""

from pathlib import Path

from mainstem.metrics.catalogue import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
HEAD = """# Metrics

Everything at `/metrics`, made from `src/mainstem/metrics/catalogue.py`. [Monitoring](../operations/monitoring.md) says
how to read them, and what to watch. Labels have few values, whatever clients send: never a path, a partition or a
client. A histogram is exported as `_bucket`, `_sum` and `_count`. Metrics that do not apply, such as those of
PostgreSQL on SQLite, are 0 or absent.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def write_page() -> str:
    rows = []
    for family in Metrics().families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning.replace('|', '/')} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(write_page())
