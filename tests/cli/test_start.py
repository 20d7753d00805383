"""What holds before a command runs: the help, its speed, and the rules that every command follows."""

import os
import pty
import re
import resource
import subprocess
import sys
from importlib import import_module

import click
import pytest

from mainstem.cli import COMMANDS, main
from tests.support.command_line import COMMAND

HELP_S_MAX = 0.25


def leaves(group=main, words=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        if name == "pipeline":  # described on its own page
            continue
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


LEAVES = dict(leaves())


def test_the_help_appears_quickly():
    """Measured in processor time, which other processes hardly change, and as the best of several runs."""
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
def test_the_list_of_commands_matches_the_commands(name):
    known = COMMANDS[name]
    command = getattr(import_module(known.module), known.name)
    assert isinstance(command, click.Command)
    assert known.help.endswith(".")


@pytest.mark.parametrize("words", [words for words in LEAVES if words != ("serve",)], ids=" ".join)
def test_every_command_can_print_json(words):
    assert "--json" in {word for option in LEAVES[words].params for word in option.opts}


@pytest.mark.parametrize("arguments", [["stream", "read", "x"], ["stream", "append", "x", "file"], ["check", "STORE"]])
def test_long_work_shows_its_progress_only_on_a_terminal(mainstem, store, path, arguments):
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
