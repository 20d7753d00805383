"""Help, suggestions for misspelt commands, and shell completion."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from mainstem.cli import main
from mainstem.cli.failures import ExitCode
from tests.support.command_line import COMMAND

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()


def groups(group=main, words=("mainstem",)):
    yield words, group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from groups(command, (*words, name))


GROUPS = dict(groups())


def listed(group):
    """The help text of each command in the list of a group, 80 columns wide."""
    context = click.Context(group, terminal_width=80, max_content_width=80)
    text = group.get_help(context).partition("Commands:\n")[2]
    assert all(len(line) <= 80 for line in text.splitlines())
    rows = re.findall(r"^  (\S+)  +(\S.*(?:\n    +.*)*)", text, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in rows}


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_the_list_of_commands_shows_whole_sentences(words):
    group = GROUPS[words]
    shown = listed(group)
    assert list(shown) == group.list_commands(click.Context(group))
    for name, text in shown.items():
        assert re.fullmatch(r"[A-Z].*[^.]\.", text), f"{name}: {text}"


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_the_list_of_a_plain_group_has_the_first_sentence_of_each_help(words):
    group = GROUPS[words]
    for name, text in listed(group).items():
        if name not in getattr(group, "lazy", {}):
            help_ = " ".join(group.get_command(click.Context(group), name).help.split("\n\n")[0].split())
            assert help_.startswith(text)
            assert help_.removeprefix(text)[:1] in ("", " ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stram"], "Did you mean stream?"),
        (["stream", "apend", "x"], "Did you mean append?"),
        (["stream", "crate", "x"], "Did you mean create"),
        (["log", "tial"], "Did you mean tail?"),
        (["sync", "sumbit"], "Did you mean submit?"),
        (["context", "ad"], "Did you mean add?"),
        (["subscription", "unlnk"], "Did you mean unlink"),
        (["pipeline", "archiv"], "Did you mean archive?"),
        (["stream", "xyzzy"], "Choose one of create, append, read"),
    ],
)
def test_a_misspelt_command_gets_a_suggestion(shell, arguments, said):
    done = shell(*arguments)
    assert done.code == ExitCode.USAGE
    assert said in done.errors
    assert f"there is no command {arguments[-1 if len(arguments) < 3 else 1]!r}" in done.errors


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_list_is_another_name_for_ls_wherever_there_is_one(words):
    context = click.Context(GROUPS[words])
    assert GROUPS[words].get_command(context, "list") is GROUPS[words].get_command(context, "ls")


def test_list_lists(mainstem, path):
    mainstem.ok("stream", "create", path)
    assert mainstem.ok("stream", "list", path) == f"{path}\n"


# Shell completion

SCRIPTS = {
    "bash": "complete -o nosort -F _mainstem_completion mainstem",
    "zsh": "#compdef mainstem",
    "fish": "complete",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_completion_script_is_printed_for_every_documented_shell(name):
    environment = os.environ | {"_MAINSTEM_COMPLETE": f"{name}_source"}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=environment, check=True)
    assert SCRIPTS[name] in done.stdout
    assert f"_MAINSTEM_COMPLETE={name}_source mainstem" in REFERENCE


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["mainstem", "stre"], ["stream"]),
        (["mainstem", "stream", "c"], ["create", "close"]),
        (["mainstem", "stream", "tail", "--no-f"], ["--no-follow"]),
        (["mainstem", "log", "tail", "--kind", ""], ["stream", "event"]),
    ],
)
def test_bash_completes_commands_and_options(tmp_path, line, expected):
    """The script runs in a real bash, with a `mainstem` on its path."""
    program = tmp_path / "mainstem"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_MAINSTEM_COMPLETE=bash_source mainstem)"\n'
        f"COMP_WORDS=({shlex.join(line)})\nCOMP_CWORD={len(line) - 1}\n"
        '_mainstem_completion mainstem\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, env=environment, check=True, timeout=60
    )
    assert done.stdout.split() == expected
