"""Run the scenarios, with one server and one load at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from bench.formats import format_number
from bench.generator import LoadFailed
from bench.measurements import Measurement, Pace, Scenario
from bench.peers import OURS, Peer, PeerFailed, serve
from bench.results import Results


def run_scenarios(peers: Sequence[Peer], scenarios: Sequence[Scenario], pace: Pace) -> Results:
    """Run all scenarios. Peers take turns within each, so that a slow minute of the machine affects all of them."""
    results = Results()
    for scenario in scenarios:
        takers = [peer for peer in peers if can_run(peer, scenario)]
        failed: set[str] = set()
        turns = 1 if scenario.once else pace.repeat
        for turn in range(turns):
            for peer in takers:
                if peer.name in failed:
                    continue
                label = f"{scenario.name:<18} {peer.name:<9} {turn + 1}/{turns}"
                try:
                    found = run_scenario(peer, scenario, pace, label)
                except (LoadFailed, PeerFailed) as error:
                    failed.add(peer.name)
                    results.failures.append(f"{scenario.name} on {peer.name}: {error}")
                    print(f"{label}  FAILED {error}", file=sys.stderr, flush=True)
                    continue
                for measurement in found:
                    results.add(peer.name, measurement)
    return results


def can_run(peer: Peer, scenario: Scenario) -> bool:
    return scenario.name not in peer.faults and (peer.name == OURS or not scenario.ours_only)


def run_scenario(peer: Peer, scenario: Scenario, pace: Pace, label: str) -> list[Measurement]:
    started = time.perf_counter()
    with serve(peer) as server:
        found = scenario.run(server, pace)
    shown = ", ".join(f"{item.name} {format_number(item.value)} {item.unit}" for item in found)
    print(f"{label}  {shown}  ({time.perf_counter() - started:.0f} s)", file=sys.stderr, flush=True)
    return found
