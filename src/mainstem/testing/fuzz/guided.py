"""Coverage-guided fuzzing with atheris, which is not installed by default: `pip install atheris`.

It runs in a process of its own, `python -m mainstem.testing.fuzz.guided TARGET FLAGS`: libFuzzer ends its process.
"""

import importlib.util
import logging
import re
import subprocess
import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from mainstem.testing.fuzz.mutation import INPUT_BYTES_MAX
from mainstem.testing.fuzz.target import Finding, Target
from mainstem.testing.fuzz.targets import load_targets

INPUT_S_MAX: Final = 10
MEMORY_MB_MAX: Final = 512
FLAGS: Final = (f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_S_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}")
RUNS: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
FINDING: Final = "finding-"
OUTPUT_CHARS_MAX: Final = 2_000


class Guided(NamedTuple):
    """The number of inputs of a run, and those that together reach all the code that it has reached, if wanted."""

    number: int
    kept: list[bytes]


def is_installed() -> bool:
    return importlib.util.find_spec("atheris") is not None


def fuzz_guided(target: Target, known: Iterable[bytes], seconds: float, seed: int, *, keep: bool) -> Guided:
    """Fuzz a target for a while. Raises `Finding` for an undocumented error, and for too much time or memory.

    `keep` chooses the inputs to keep, which takes about as long as starting atheris twice.
    """
    with TemporaryDirectory(prefix="mainstem-fuzz-") as name:
        folder = Path(name)
        inputs, kept = folder / "inputs", folder / "kept"
        for each in (inputs, kept):
            each.mkdir()
        for data in known:
            (inputs / sha256(data).hexdigest()).write_bytes(data)
        limits = (f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", "-print_final_stats=1")
        output = _run(target, inputs, *limits, f"-artifact_prefix={folder}/{FINDING}")
        for file in folder.glob(f"{FINDING}*"):
            data = file.read_bytes()
            target.check(data)
            raise Finding(target.name, data) from RuntimeError(output[-OUTPUT_CHARS_MAX:])
        found = RUNS.search(output)
        if found is None:
            raise RuntimeError(f"atheris ended early: {output[-OUTPUT_CHARS_MAX:]}")
        if keep:
            _run(target, kept, "-merge=1", inputs)
        return Guided(int(found[1]), [file.read_bytes() for file in kept.iterdir()])


def _run(target: Target, *arguments: str | Path) -> str:
    command = [sys.executable, "-m", __name__, target.name, *map(str, arguments), *FLAGS]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False
    ).stdout


def main() -> None:
    import atheris

    name, *arguments = sys.argv[1:]
    logging.disable()
    with atheris.instrument_imports(include=["mainstem"]):
        target = load_targets()[name]
    # To merge, libFuzzer runs its own command again, in a shell.
    atheris.Setup([f"{sys.executable} -m {__spec__.name} {name}", *arguments], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
