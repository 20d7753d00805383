"""Markdown pages: their links, and the code blocks that are marked to be run.

A block is run if this comment comes right before it:

    <!-- run -->

- ```bash and ```sh blocks of a page share one shell, ```python blocks share one interpreter, and both share one
directory, which is empty at first. A command that fails ends the page.
- In a ```console block each line that begins with `$ ` is a command, and the lines below it are its output.
- An ```output block that follows a block is what it prints on standard output. `...` stands for anything.
- A block that is not run has `<!-- fragment -->` before it, unless it is an ```output or ```text block;
  tests/docs/test_marks.py checks that.
- A server runs for the page, and its port takes the place of 4437. So a block that starts one is not marked.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

ROOT = Path(__file__).parents[2]
MARK = "<!-- run -->"
FRAGMENT = "<!-- fragment -->"
PORT = "4437"

FENCE = re.compile(
    r"^(?P<fence>```+)(?P<language>[a-z]*)[^\n]*\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)

# Reads blocks as JSON lines, and writes their output as JSON lines.
INTERPRETER = """
import contextlib, io, json, sys, traceback
namespace = {"__name__": "__main__"}
for line in sys.stdin:
    printed, failed = io.StringIO(), False
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(json.loads(line), "<block>", "exec"), namespace)
        except BaseException:
            failed = True
            traceback.print_exc(file=printed)
    print(json.dumps([printed.getvalue(), failed]), flush=True)
"""


class Block(NamedTuple):
    language: str
    text: str
    output: str | None
    line: int


class BlockFailed(AssertionError):
    """A block failed, or did not print what the page says."""


def find_pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def find_links(text: str) -> list[str]:
    """Return the links to files of this repository, relative to the page."""
    targets = [match[1] for match in LINK.finditer(without_code(text))]
    return [target for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def find_anchors(text: str) -> set[str]:
    """Return the names of a page's headings, as GitHub makes them."""
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(FENCE.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def find_blocks(text: str) -> list[Block]:
    """Return the marked blocks, each with the output block that follows it."""
    fences = list(FENCE.finditer(text))
    blocks = []
    for number, fence in enumerate(fences):
        before = text[: fence.start()].rstrip()
        if not before.endswith(MARK):
            continue
        output = None
        if number + 1 < len(fences) and fences[number + 1]["language"] == "output":
            between = text[fence.end() : fences[number + 1].start()]
            if not between.strip():
                output = fences[number + 1]["text"]
        blocks.append(Block(fence["language"], fence["text"], output, text[: fence.start()].count("\n") + 1))
    return blocks


def matches(expected: str, printed: str) -> bool:
    """Return whether the output is as expected, ignoring white space at its ends and at the end of each line."""
    pattern = ".*".join(re.escape(part) for part in _trim(expected).split("..."))
    return re.fullmatch(pattern, _trim(printed), re.DOTALL) is not None


def _trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class Session:
    """One shell and one interpreter in one directory, for the blocks of a page."""

    def __init__(self, directory: Path, port: int | None) -> None:
        self.port = PORT if port is None else str(port)
        bin_directory = Path(sys.executable).parent
        environment = os.environ | {"PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}", "NO_PROXY": "*"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (it lives as long as this object)
        self._shell = self._start(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"], directory, environment)
        self._python = self._start([sys.executable, "-c", INTERPRETER], directory, environment)

    def _start(self, command: list[str], directory: Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # so that processes left behind by a block are ended with it
        )

    def close(self) -> None:
        for process in (self._shell, self._python):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
        self._errors.close()

    def run(self, block: Block) -> None:
        if block.language == "console":
            for command, output in split_console(block.text):
                self._check(block, self._run_shell(command), output)
        elif block.language == "python":
            self._check(block, self._run_python(block.text), block.output)
        elif block.language in ("bash", "sh"):
            self._check(block, self._run_shell(block.text), block.output)
        else:
            raise BlockFailed(f"line {block.line}: a {block.language or 'plain'} block cannot be run")

    def _check(self, block: Block, printed: str, expected: str | None) -> None:
        printed = printed.replace(self.port, PORT)
        if expected is not None and not matches(expected, printed):
            raise BlockFailed(f"line {block.line}: expected\n{expected}\nbut it printed\n{printed}")

    def _run_shell(self, text: str) -> str:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        end = f"end-{uuid4().hex}"
        # The script comes from standard input, so the commands need a different one.
        self._shell.stdin.write(f"{{\n{text.replace(PORT, self.port)}\n}} </dev/null\nprintf '\\n%s\\n' {end}\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if line.rstrip("\n") == end:
                return "".join(printed)[:-1]  # without the newline before the end mark
            printed.append(line)
        self._errors.seek(0)
        raise BlockFailed(f"the shell ended in\n{text}\nafter it printed\n{''.join(printed)}\n{self._errors.read()}")

    def _run_python(self, text: str) -> str:
        assert self._python.stdin is not None
        assert self._python.stdout is not None
        self._python.stdin.write(json.dumps(text.replace(PORT, self.port)) + "\n")
        self._python.stdin.flush()
        printed, failed = json.loads(self._python.stdout.readline())
        if failed:
            raise BlockFailed(f"it failed:\n{text}\n{printed}")
        return printed


def split_console(text: str) -> list[tuple[str, str]]:
    """Return pairs of a command (continued lines end with a backslash) and its output."""
    pairs: list[tuple[str, str]] = []
    goes_on = False
    for line in text.splitlines():
        if line.startswith("$ "):
            pairs.append((line[2:], ""))
        elif not pairs:
            raise BlockFailed("a console block begins with a command: $ ...")
        elif goes_on:
            pairs[-1] = (f"{pairs[-1][0]}\n{line}", "")
        else:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}{line}\n")
        goes_on = line.endswith("\\") and (goes_on or line.startswith("$ "))
    return pairs
