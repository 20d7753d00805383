"""The reference page names every command, option, exit code and environment variable, and none that does not exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mainstem.cli import main
from mainstem.cli.failures import ExitCode
from mainstem.cli.lazy import ALIASES
from mainstem.server.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "cli.md").read_text()
PIPELINE = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
CONFIGURATION = (ROOT / "docs" / "reference" / "configuration.md").read_text()

COMMON = {"--json", "--verbose"}
OF_SERVERS = {"--url", "--token", "--context"}
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")
VARIABLE = re.compile(r"(?<![A-Za-z0-9_])MAINSTEM_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_*])")


def leaves(group: click.Group = main, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, (*words, name))
        else:
            yield (*words, name), command


LEAVES = {words: command for words, command in leaves() if words[0] != "pipeline"}
JOBS = {words[1]: command for words, command in leaves() if words[0] == "pipeline"}


def sections(page: str, heading: str) -> dict[str, str]:
    """The text under each heading that matches, up to the next heading of any level."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return {
        found[1]: text
        for title, text in zip(parts[1::2], parts[2::2], strict=True)
        if (found := re.fullmatch(heading, title))
    }


def documented_options(text: str) -> set[str]:
    """The options in the first column of the section's tables."""
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {option for row in rows for code in re.findall(r"`([^`]+)`", row) for option in OPTION.findall(code)}


def options_of(command: click.Command) -> set[str]:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {word for option in options for word in (*option.opts, *option.secondary_opts)}


COMMANDS = sections(REFERENCE, r"`mainstem ([^`]+)`")


def test_the_page_has_a_section_for_every_command_and_no_other():
    assert set(COMMANDS) == {" ".join(words) for words in LEAVES}


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_a_section_names_every_option_of_its_command_and_no_other(words):
    options = options_of(LEAVES[words])
    if options >= OF_SERVERS and words != ("context", "add"):  # described once for all commands
        options -= OF_SERVERS
    documented = documented_options(COMMANDS[" ".join(words)])
    assert documented - COMMON == options - COMMON


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_a_section_names_the_arguments_of_its_command(words):
    if len(words) == 1 and not LEAVES[words].params:
        return
    arguments = [
        p.make_metavar(click.Context(LEAVES[words])) for p in LEAVES[words].params if isinstance(p, click.Argument)
    ]
    for argument in arguments:
        assert argument.strip("[].") in COMMANDS[" ".join(words)]


def test_the_options_of_servers_are_described_once():
    documented = documented_options(sections(REFERENCE, "(Servers)")["Servers"])
    assert documented == OF_SERVERS


def test_the_options_of_the_program_are_described():
    documented = documented_options(sections(REFERENCE, "`(mainstem)`")["mainstem"])
    assert documented == options_of(main) | {"--help"}


@pytest.mark.parametrize("job", JOBS)
def test_the_page_of_jobs_names_every_option_of_a_job_and_no_other(job):
    shared = documented_options(sections(PIPELINE, "(Options of every job)")["Options of every job"])
    own = documented_options(sections(PIPELINE, "([a-z]+)")[job])
    options = options_of(JOBS[job])
    assert own - shared == options - shared
    assert options <= own | shared


def test_the_page_of_jobs_describes_the_options_that_all_jobs_share():
    shared = documented_options(sections(PIPELINE, "(Options of every job)")["Options of every job"])
    jobs = [options_of(command) for job, command in JOBS.items() if job not in ("prepare", "run", "status")]
    assert set.intersection(*jobs) == shared - {"--dry-run"}  # only jobs that change something have it
    assert any("--dry-run" in options for options in jobs)


def test_every_exit_code_is_documented_and_no_other():
    table = sections(REFERENCE, "(Exit codes)")["Exit codes"]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == set(ExitCode)


def test_every_alias_is_documented():
    for alias, name in ALIASES.items():
        assert f"`{alias}` is another name for `{name}`" in REFERENCE


SETTINGS = {f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in Settings.__struct_fields__}


def find_variables(folder: Path) -> set[str]:
    """The variables that the source in a folder names."""
    return {name for path in folder.rglob("*.py") for name in VARIABLE.findall(path.read_text())}


READ = SETTINGS | find_variables(ROOT / "src" / "mainstem")


def test_every_environment_variable_is_documented():
    assert set(VARIABLE.findall(REFERENCE + CONFIGURATION)) >= READ


def test_every_documented_environment_variable_exists():
    assert set(VARIABLE.findall(REFERENCE + CONFIGURATION)) <= READ | find_variables(ROOT / "examples")


def test_the_variables_that_are_not_settings_have_a_row():
    table = sections(REFERENCE, "(Environment variables)")["Environment variables"]
    assert set(VARIABLE.findall(table)) >= READ - SETTINGS
