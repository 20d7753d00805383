import tomllib
from pathlib import Path

import pytest

from mainstem.pipeline.service.toml_lines import find_line, find_lines

TEXT = '''# a comment = 1

state = "x" # [not.a.table]
"quoted key" = 1
a.b . 'c d' = { inner = "}", other = ["]", 1] }
long = """
fake = 1
[fake]
""\\"
"""
literal = \'\'\'
also_fake = 'x'
\'\'\'
array = [
  "[fake2]", # comment ]
  { key = 1 },
]
[jobs.lake]
job = "archive"
  table = "a#b"
[ "jobs" . 'r"s' ]
job = "rollup"
[[list]]
one = 1
[[list]]
two = 2
last = 3'''


def test_lines_of_keys_and_tables():
    lines = find_lines(TEXT)
    assert lines[("state",)] == 3
    assert lines[("quoted key",)] == 4
    assert lines[("a", "b", "c d")] == lines[("a",)] == 5
    assert lines[("long",)] == 6
    assert lines[("literal",)] == 11
    assert lines[("array",)] == 14
    assert lines[("jobs",)] == lines[("jobs", "lake")] == 18
    assert lines[("jobs", "lake", "job")] == 19
    assert lines[("jobs", "lake", "table")] == 20
    assert lines[("jobs", 'r"s')] == 21
    assert lines[("jobs", 'r"s', "job")] == 22
    assert lines[("list",)] == 23
    assert lines[("list", "two")] == 26
    assert lines[("list", "last")] == 27


def test_the_keys_are_those_of_the_parser():
    """Every key that Python's parser finds has a line, and no other has one, except inside of values."""

    def keys(table: dict, path: tuple[str, ...] = ()):
        for name, value in table.items():
            yield (*path, name)
            if isinstance(value, dict) and (*path, name) != ("a", "b", "c d"):
                yield from keys(value, (*path, name))
            elif name == "list":
                for item in value:
                    yield from keys(item, (*path, name))

    assert set(find_lines(TEXT)) == set(keys(tomllib.loads(TEXT)))


def test_a_missing_key_has_the_line_of_its_table():
    lines = find_lines(TEXT)
    assert find_line(lines, "jobs", "lake", "every") == 18
    assert find_line(lines, "server", "url") == 1


@pytest.mark.parametrize("name", ["pyproject.toml", "zensical.toml"])
def test_real_files(name):
    """The line of each key begins with the key or with a table."""
    text = (Path(__file__).parents[4] / name).read_text()
    for path, line in find_lines(text).items():
        shown = text.splitlines()[line - 1]
        assert path[-1] in shown, (path, line)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment", "a=1", "a='''x'''''", 'a="""x"""""\nb=1', "a=1\r\nb=2\r\n"]
)
def test_small_files(text):
    assert {path[-1] for path in find_lines(text)} == set(tomllib.loads(text))
