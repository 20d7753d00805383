"""A corpus: known inputs of each target, in one text file with a line for each input."""

from collections.abc import Iterable
from pathlib import Path

from mainstem.testing.fuzz.target import Target


def corpus_file(folder: Path, target: Target) -> Path:
    return folder / f"{target.name}.txt"


def read_corpus(folder: Path | None, target: Target) -> list[bytes]:
    """Return the seeds of a target, and its inputs in the corpus."""
    file = None if folder is None else corpus_file(folder, target)
    lines = file.read_text("ascii").splitlines() if file is not None and file.exists() else []
    return list(dict.fromkeys([*target.seeds, *map(read_line, lines)]))


def write_corpus(folder: Path, target: Target, inputs: Iterable[bytes]) -> None:
    """Write the inputs of a target, except for its seeds, the shortest first."""
    found = sorted(set(inputs) - set(target.seeds), key=lambda data: (len(data), data))
    folder.mkdir(parents=True, exist_ok=True)
    corpus_file(folder, target).write_text("".join(f"{write_line(data)}\n" for data in found), "ascii")


def write_line(data: bytes) -> str:
    """Return an input as a line of ASCII text."""
    return data.decode("latin-1").encode("unicode_escape").decode("ascii")


def read_line(line: str) -> bytes:
    return line.encode("ascii").decode("unicode_escape").encode("latin-1")
