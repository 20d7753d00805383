"""The command line: fuzz some targets, or all, for a number of minutes."""

import argparse
import logging
import sys
import tempfile
import time
import traceback
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from mainstem.testing.fuzz.corpus import read_corpus, write_corpus, write_line
from mainstem.testing.fuzz.guided import fuzz_guided, is_installed
from mainstem.testing.fuzz.mutation import mutate_inputs
from mainstem.testing.fuzz.server import ServerUnderFuzz
from mainstem.testing.fuzz.target import Finding, Target
from mainstem.testing.fuzz.targets import load_targets
from mainstem.testing.server import ServerProcess

SERVER: Final = "server"
SERVER_BYTES_MAX: Final = 512 * 1024 * 1024
INPUTS_AT_ONCE: Final = 100


def parse_arguments() -> argparse.Namespace:
    names = [*load_targets(), SERVER]
    parser = argparse.ArgumentParser(
        prog="python -m mainstem.testing.fuzz",
        description="Fuzz the parsers of Mainstem, guided by coverage if atheris is installed, and a whole server.",
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(names)}")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to fuzz, for all targets together")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    parser.add_argument("--corpus", type=Path, help="a folder of known inputs; atheris adds what reaches new code")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(names):
        parser.error(f"there is no target {min(unknown)}; there are: {', '.join(names)}")
    arguments.targets = arguments.targets or names
    return arguments


def main() -> None:
    arguments = parse_arguments()
    logging.disable()
    end_s = time.perf_counter() + arguments.minutes * 60
    total = findings = 0
    for number_left, name in zip(range(len(arguments.targets), 0, -1), arguments.targets, strict=True):
        began = time.perf_counter()
        try:
            # An equal share of the time that is left: starting atheris and merging inputs take time as well.
            number = fuzz(name, max(0.0, end_s - began) / number_left, arguments.seed, arguments.corpus)
        except Finding as finding:
            findings += 1
            report(finding)
            continue
        total += number
        print(f"{name}: {number} inputs, {number / (time.perf_counter() - began):.0f} per second", flush=True)
    print(f"{total} inputs, {findings} findings")
    sys.exit(1 if findings else 0)


def fuzz(name: str, seconds: float, seed: int, corpus: Path | None) -> int:
    """Fuzz one target, and return the number of inputs."""
    if name == SERVER:
        return fuzz_server(seconds, seed)
    target = load_targets()[name]
    known = read_corpus(corpus, target)
    if not is_installed():
        return fuzz_randomly(target, known, seconds, seed)
    number, kept = fuzz_guided(target, known, seconds, seed, keep=corpus is not None)
    if corpus is not None:
        write_corpus(corpus, target, kept)
    return number


def fuzz_randomly(target: Target, known: list[bytes], seconds: float, seed: int) -> int:
    inputs = mutate_inputs(target, known, Random(seed))
    number, end_s = 0, time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        for data in islice(inputs, INPUTS_AT_ONCE):
            target.check(data)
        number += INPUTS_AT_ONCE
    return number


def fuzz_server(seconds: float, seed: int) -> int:
    with tempfile.TemporaryDirectory() as data, ServerProcess(data) as server:
        fuzzed = ServerUnderFuzz(server)
        number = sum(fuzz_randomly(each, list(each.seeds), seconds / 2, seed) for each in fuzzed.targets)
        fuzzed.check_health(SERVER_BYTES_MAX)
        return number


def report(finding: Finding) -> None:
    traceback.print_exception(finding.__cause__)
    print(f"{finding.target} fails. To repeat it in every test, add this line to {finding.target}.txt in the corpus:")
    print(write_line(finding.data), flush=True)


if __name__ == "__main__":
    main()
