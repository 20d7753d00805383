"""Writes the table of docs/reference/metrics.md from the catalogue of metrics: `python -m tests.docs.metrics_page`."""

from pathlib import Path

from mainstem.metrics.catalogue import Catalogue, Metrics
from mainstem.metrics.pipeline import PipelineMetrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
HEAD = """# Metrics

Everything at `/metrics`, made from `src/mainstem/metrics/catalogue.py`. [Monitoring](../operations/monitoring.md) says
how to read them, and what to watch. Labels have few values, whatever clients send: never a path, a partition or a
client. A histogram is exported as `_bucket`, `_sum` and `_count`. Metrics that do not apply, such as those of
PostgreSQL on SQLite, are 0 or absent.

"""
SERVICE = """
## The pipeline service

Everything at `/metrics` of [`mainstem pipeline run`](pipeline.md#run), made from `src/mainstem/metrics/pipeline.py`.
The label `name` is the name of a job in its file, and `kind` is what it does.

"""
TABLE = """| metric | type | labels | meaning |
|---|---|---|---|
"""


def write_page() -> str:
    return HEAD + write_table(Metrics()) + SERVICE + write_table(PipelineMetrics())


def write_table(catalogue: Catalogue) -> str:
    rows = []
    for family in catalogue.families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| `{family.name}` | {family.kind} | {labels} | {family.meaning.replace('|', '/')} |\n")
    return TABLE + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(write_page())
