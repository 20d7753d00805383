from datetime import UTC, date, datetime

import click
import pytest

from mainstem.cli.pipeline import pipeline
from mainstem.pipeline.jobs.specs import KINDS, find_spec
from mainstem.pipeline.jobs.specs.options import ValueKind, list_options, suggest

FEBRUARY = 1_769_904_000_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_a_command_is_one_of_its_job_and_the_other_way_round(kind):
    """Except for those that all commands share, and that a file has elsewhere."""
    command = pipeline.get_command(click.Context(pipeline), kind)
    assert command is not None
    own = {name.removeprefix("option_") for parameter in command.params if (name := parameter.name or "")}
    shared = {"url", "token", "context", "token_file", "master", "checkpoint", "once", "every_s", "retry_s"}
    shared |= {"as_json", "verbose", "dry_run"}
    assert own - shared == {option.name for option in list_options(find_spec(kind))}


@pytest.mark.parametrize("kind", KINDS)
def test_every_default_is_a_valid_value(kind):
    for option in list_options(find_spec(kind)):
        if option.default not in (None, "", ()):
            given = list(option.default) if isinstance(option.default, tuple) else option.default
            assert option.read_value(given) == option.default, option.name


def option(kind: str, name: str):
    return next(found for found in list_options(find_spec(kind)) if found.name == name)


def test_values_of_a_file():
    assert option("export", "stream").read_value("a") == ("a",)
    assert option("export", "stream").read_value(["a", "b"]) == ("a", "b")
    assert option("audit", "sample").read_value(1) == 1.0
    assert option("rollup", "by").kind is ValueKind.NAMES
    since = option("export", "since")
    for value in ("2026-02-01", date(2026, 2, 1), datetime(2026, 2, 1), datetime(2026, 2, 1, tzinfo=UTC)):
        assert since.read_value(value) == FEBRUARY


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("export", "stream", []),
        ("export", "stream", [1]),
        ("export", "stream", ""),
        ("export", "format", "PARQUET"),
        ("export", "from_id", True),
        ("export", "from_id", 1.0),
        ("export", "from_id", 0),
        ("export", "since", 5),
        ("audit", "sample", "1"),
        ("archive", "compact", "yes"),
        ("archive", "table", 5),
    ],
)
def test_other_values_are_refused(kind, name, value):
    with pytest.raises(ValueError, match=r"^"):
        option(kind, name).read_value(value)


def test_suggestions():
    assert suggest("tabel", ["table", "compact"]) == "; did you mean `table`?"
    assert suggest("xyz", ["table", "compact"]) == ""
