"""`python -m bench`: run the benchmark, print its table, and write the table, the JSON and the chart."""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from bench.chart import draw_chart
from bench.electric import MissingElectric
from bench.machine import describe_machine
from bench.measurements import Pace, Scenario
from bench.node import MissingNode
from bench.peers import CACHE, ELECTRIC, HERE, OURS, Peer, PeerFailed, find_electric_peer, find_mainstem, find_node_peer
from bench.report import Report, format_json, format_table
from bench.runner import run_scenarios
from bench.scenarios import SCENARIOS

WHOLE = Pace(repeat=3, seconds=5.0, warmup_s=1.0)
QUICK = Pace(repeat=1, seconds=2.0, warmup_s=0.5, fill=0.1, growth=0.01)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Mainstem against its peers.")
    parser.add_argument(
        "--quick", action="store_true", help="2 s per load, one repeat, less data: a smoke test, no real figures"
    )
    parser.add_argument("--only", metavar="PATTERN", help="scenarios whose name contains PATTERN (* and ? are allowed)")
    parser.add_argument("--repeat", type=int, metavar="N", help=f"number of repeats (default: {WHOLE.repeat})")
    parser.add_argument("--big", action="store_true", help="also run the big scenarios, which take minutes each")
    parser.add_argument(
        "--peer",
        choices=[ELECTRIC, "node", "none"],
        default=ELECTRIC,
        help="server to compare with: electric is the one in Rust (default: electric)",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="folder for the results (default: bench/results)")
    # For work on the benchmark itself, when no Mainstem server can run.
    parser.add_argument("--skip-ours", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def choose_scenarios(only: str | None, big: bool) -> list[Scenario]:
    chosen = [scenario for scenario in SCENARIOS if big or not scenario.big]
    if only is None:
        return chosen
    found = [scenario for scenario in SCENARIOS if fnmatch(scenario.name, f"*{only}*")]
    if not found:
        sys.exit(f"no scenario matches {only!r}; choose from: {', '.join(item.name for item in SCENARIOS)}")
    return found


def choose_peers(arguments: argparse.Namespace) -> list[Peer]:
    peers = [] if arguments.skip_ours else [find_mainstem()]
    try:
        if arguments.peer == ELECTRIC:
            peers.append(find_electric_peer())
    except MissingElectric as error:
        print(f"Mainstem runs alone: {error}", file=sys.stderr, flush=True)
    if arguments.peer == "node":
        peers.append(find_node_peer())
    return peers


def choose_output(arguments: argparse.Namespace, peers: Sequence[Peer]) -> Path:
    """Return the folder for the results. A partial run replaces the figures of a whole one only with --output."""
    if arguments.output is not None:
        return Path(arguments.output)
    whole = {peer.name for peer in peers} == {OURS, ELECTRIC}
    partial = arguments.quick or arguments.only or not whole
    return CACHE / "results" if partial else HERE / "results"


def raise_file_limit() -> None:
    """Raise the limit of open files, which servers inherit: a thousand connections need more than many shells allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def write_report(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = format_table(report) + "\n"
    print(table)
    (folder / "bench.txt").write_text(table)
    (folder / "bench.json").write_text(format_json(report))
    chart = draw_chart(report)
    # A run without a peer has no chart, and the chart of an earlier run must not stay beside its figures.
    (folder / "bench.svg").unlink(missing_ok=True)
    if chart is not None:
        (folder / "bench.svg").write_text(chart)
    print(f"Wrote the results to {folder}")


def main() -> None:
    arguments = parse_arguments()
    raise_file_limit()
    scenarios = choose_scenarios(arguments.only, arguments.big)
    pace = QUICK if arguments.quick else WHOLE
    pace = replace(pace, repeat=arguments.repeat or pace.repeat)
    try:
        peers = choose_peers(arguments)
    except (PeerFailed, MissingNode) as error:
        sys.exit(str(error))
    machine = describe_machine(CACHE)
    results = run_scenarios(peers, scenarios, pace)
    write_report(Report(machine, peers, pace, results), choose_output(arguments, peers))
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
