"""Longer runs: `python -m tests.differential --scripts 1000 --seed 1`."""

import argparse
import sys
import tempfile
from collections import Counter

from bench.electric import CRATE, PROGRAM

from mainstem.testing.server import ServerProcess
from tests.differential.comparison import compare_script
from tests.differential.exchanges import Peer
from tests.differential.explanations import RUST, explain
from tests.differential.scripts import write_script
from tests.differential.servers import list_servers, serve_peer


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description="Compare servers by random scripts."
    )
    parser.add_argument("--scripts", type=int, default=100, help="how many scripts to run against each server")
    parser.add_argument("--seed", type=int, default=1, help="of the first script; each of the others has the next one")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.scripts)
    unexplained = 0
    servers = list_servers()
    if RUST not in servers:
        print(f"{RUST} is left out: {PROGRAM} is not on PATH (cargo install {CRATE})")
    unexplained = sum(run_scripts(name, seeds) for name in servers)
    sys.exit(1 if unexplained else 0)


def run_scripts(name: str, seeds: range) -> int:
    """Compare Mainstem with one server, and return how many differences have no explanation."""
    found: Counter[str | None] = Counter()
    with tempfile.TemporaryDirectory() as data, ServerProcess(data) as server, serve_peer(name) as theirs:
        ours = Peer("mainstem", server.address[1])
        for seed in seeds:
            for difference in compare_script(ours, theirs, f"script-{seed}", write_script(seed)):
                explanation = explain(difference)
                found[explanation] += 1
                if explanation is None:
                    print(f"script {seed}: {difference}", flush=True)
        ours.close()
    print(f"{name}: {len(seeds)} scripts, {found.total()} differences, {found[None]} of them without an explanation")
    return found[None]


if __name__ == "__main__":
    main()
