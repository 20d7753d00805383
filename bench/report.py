"""The table for people and the JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.formats import format_number
from bench.machine import Machine
from bench.measurements import Pace
from bench.peers import OURS, Peer
from bench.results import Results, Row
from bench.targets import describe_target, judge_measurement

GENERATOR_BUSY = 0.9


@dataclass(frozen=True)
class Report:
    """A finished run, with everything that its readers need."""

    machine: Machine
    peers: Sequence[Peer]
    pace: Pace
    results: Results

    @property
    def other(self) -> str | None:
        """The name of the peer that Mainstem is compared with; None if it ran alone."""
        return next((peer.name for peer in self.peers if peer.name != OURS), None)

    def find_ratio(self, row: Row) -> float | None:
        return row.find_ratio(OURS, self.other) if self.other else None


def format_table(report: Report) -> str:
    names = [peer.name for peer in report.peers]
    heads = ["measurement", "unit"]
    for name in names:
        heads += [name, "spread"]
    lines = [[*heads, "ratio", "target", "mark"]]
    for row in report.results.rows.values():
        cells = [row.title, row.unit]
        for name in names:
            cells += [format_median(row, name), format_share(row.find_spread(name))]
        mark = judge_measurement(row.name, report.results)
        lines.append([*cells, format_ratio(report.find_ratio(row)), describe_target(row.name), mark])
    right = set(range(2, 3 + 2 * len(names)))
    return "\n".join([*describe_run(report), "", *align_columns(lines, right), "", *list_notes(report)])


def describe_run(report: Report) -> list[str]:
    machine, pace = report.machine, report.pace
    return [
        f"{machine.date}, {machine.cores} cores, {machine.cpu}, {machine.memory_gb} GB, {machine.system}",
        f"disk: fdatasync of 4 KB p50 {machine.fdatasync_p50_ms} ms, p99 {machine.fdatasync_p99_ms} ms; "
        f"load average before the run {machine.load_average}",
        *(f"{peer.name}: {peer.version}; {peer.shown}" for peer in report.peers),
        f"medians of {pace.repeat}, {pace.seconds:g} s each after {pace.warmup_s:g} s of warm-up",
    ]


def list_notes(report: Report) -> list[str]:
    notes = ["ratio: how many times better than the peer. spread: (highest - lowest) / median of the repeats."]
    busy = any(is_bounded(row, peer.name) for row in report.results.rows.values() for peer in report.peers)
    if busy:
        notes.append("*: the load generator used a whole core, so the server may be faster than shown.")
    for peer in report.peers:
        notes += [f"{peer.name} does not run {scenario}: {reason}." for scenario, reason in peer.faults.items()]
    return notes + [f"FAILED {failure}" for failure in report.results.failures]


def is_bounded(row: Row, peer: str) -> bool:
    return row.find_generator_cpu(peer) > GENERATOR_BUSY


def format_median(row: Row, peer: str) -> str:
    value = row.find_median(peer)
    if value is None:
        return "-"
    return format_number(value) + ("*" if is_bounded(row, peer) else "")


def format_ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{format_number(ratio)}x"


def format_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def align_columns(lines: list[list[str]], right: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def format_json(report: Report) -> str:
    content: dict[str, Any] = {
        "machine": asdict(report.machine),
        "peers": {peer.name: {"version": peer.version, "command": peer.shown} for peer in report.peers},
        "repeat": report.pace.repeat,
        "seconds": report.pace.seconds,
        "warmup_s": report.pace.warmup_s,
        "measurements": [
            {
                "name": row.name,
                "title": row.title,
                "unit": row.unit,
                "better": row.better,
                "medians": {peer.name: row.find_median(peer.name) for peer in report.peers},
                "samples": row.samples,
                "details": row.details,
                "ratio": report.find_ratio(row),
                "target": describe_target(row.name),
                "mark": judge_measurement(row.name, report.results),
            }
            for row in report.results.rows.values()
        ],
        "failures": report.results.failures,
    }
    return json.dumps(content, indent=1) + "\n"
