"""The command: `python -m mainstem.testing.simulation --seeds 1..500`, or `--seed 7` to see what happens in one run."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import get_context
from textwrap import indent

from mainstem.testing.simulation.runner import LIVES, Verdict, run_seed

SHOWN_PROBLEMS = 5
SHOWN_CHARACTERS = 240
SEEDS_AT_ONCE = 5
FAILED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.seed is not None:
        return show(run_seed(options.seed, options.lives))
    began = time.monotonic()
    lives = calls = 0
    failed: list[int] = []
    for verdict in run_seeds(options.seeds, options.lives, options.jobs):
        lives += verdict.lives
        calls += verdict.calls
        if verdict.problems:
            failed.append(verdict.seed)
            print(describe(verdict), flush=True)
    seconds = time.monotonic() - began
    about = f"{len(options.seeds):,} seeds, {lives:,} lives, {calls:,} calls in {seconds:.0f} s"
    result = f"{len(failed):,} failed" if failed else "all passed"
    print(f"{about} ({lives / max(seconds, 0.001):.0f} lives per second): {result}")
    return FAILED if failed else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mainstem.testing.simulation",
        description="Run the server on simulated time, disks and connections, with faults that each seed chooses.",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--seeds", type=parse_seeds, default=range(1, 501), metavar="A..B", help="default: 1..500")
    chosen.add_argument("--seed", type=int, metavar="S", help="run one seed, and print all that happens")
    parser.add_argument(
        "--lives", type=int, default=LIVES, metavar="N", help=f"lives per seed before the last one (default: {LIVES})"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="how many processes run seeds (default: 1)")
    return parser.parse_args(arguments)


def parse_seeds(text: str) -> range:
    """Parse `7` or `1..500`."""
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds, such as 1..500") from None


def run_seeds(seeds: Sequence[int], lives: int, jobs: int) -> Iterator[Verdict]:
    run = partial(run_seed, lives=lives, keep_trace=False)
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(run, seeds, chunksize=SEEDS_AT_ONCE)


def describe(verdict: Verdict) -> str:
    problems = [problem[:SHOWN_CHARACTERS] for problem in verdict.problems[:SHOWN_PROBLEMS]]
    more = len(verdict.problems) - len(problems)
    if more:
        problems.append(f"... and {more} more")
    return "\n".join([f"seed {verdict.seed} failed:", *(indent(problem, "  ") for problem in problems)])


def show(verdict: Verdict) -> int:
    """Print a whole run."""
    for line in verdict.trace:
        print(line[:SHOWN_CHARACTERS])
    print(describe(verdict) if verdict.problems else f"seed {verdict.seed} passed: {verdict.calls} calls")
    return FAILED if verdict.problems else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings have an order that differs from run to run, unless it is fixed before the interpreter starts.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "mainstem.testing.simulation", *sys.argv[1:]])
    sys.exit(main())
