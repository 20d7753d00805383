"""What is known before a command runs: the help, how quick it is, and the promises that hold for every command."""

import os
import pty
import re
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from mainstem.cli import COMMANDS, main
from mainstem.cli.failures import ExitCode
from tests.support.command_line import COMMAND

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
HELP_S_MAX = 0.25


def leaves(group=main, words=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        if name == "pipeline":  # described on a page of its own
            continue
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


LEAVES = dict(leaves())


def test_the_help_is_there_at_once():
    """In processor time, which other processes do not lengthen much, and of several runs the best."""
    took_s = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert 0 < min(took_s) < HELP_S_MAX
    assert all(name in done.stdout for name in COMMANDS)


def test_the_help_imports_no_command():
    code = (
        "import sys; from mainstem.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('httpx2', 'apsw', 'rich', 'websockets', 'uvicorn'))],"
        " 'mainstem.cli.stream' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] False"


def test_rich_is_imported_only_for_a_terminal(mainstem):
    code = (
        "import sys; from mainstem.cli import main\ntry: main()\nfinally: print('rich' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "stream", "ls"],
        capture_output=True,
        text=True,
        env=mainstem.environment,
        check=True,
    )
    assert done.stderr == "False\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_the_list_says_of_a_command_is_so(name):
    known = COMMANDS[name]
    command = getattr(import_module(known.module), known.name)
    assert isinstance(command, click.Command)
    assert known.help.endswith(".")


@pytest.mark.parametrize("words", [words for words in LEAVES if words != ("serve",)], ids=" ".join)
def test_every_command_prints_json_and_is_documented_with_all_its_options(words):
    options = {word for option in LEAVES[words].params for word in option.opts if word.startswith("--")}
    assert "--json" in options
    name = " ".join(words)
    section = re.search(
        rf"^#+ `mainstem {re.escape(name)}`.*?(?=^#+ `mainstem |\Z)", REFERENCE, re.MULTILINE | re.DOTALL
    )
    assert section is not None, f"{name} is not in the reference"
    everywhere = {"--json", "--verbose", "--url", "--token", "--context"}
    missing = {word for word in options - everywhere if f"`{word}" not in section[0] and f", {word}" not in section[0]}
    assert not missing


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_documented(code):
    assert re.search(rf"^\| {code:d} \|", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["stream", "read", "x"], ["stream", "append", "x", "file"], ["check", "STORE"]])
def test_long_work_shows_its_progress_on_a_terminal_alone(mainstem, store, path, arguments):
    (mainstem.directory / "file").write_text("line\n" * 100_000)
    mainstem.ok("stream", "append", path, "file", "--create", "text")
    words = [{"x": path, "STORE": str(store)}.get(word, word) for word in arguments]
    assert mainstem(*words).errors == ""
    terminal, theirs = pty.openpty()
    try:
        command = [*COMMAND, *words]
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=mainstem.environment | {"TERM": "xterm"},
            cwd=mainstem.directory,
            check=True,
        )
        shown = os.read(terminal, 65_536).decode()
    finally:
        os.close(theirs)
        os.close(terminal)
    assert re.search("Reading|Appending|Checking", shown)
