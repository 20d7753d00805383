"""Invalid options of jobs are reported without a server, Spark or Java."""

import click
import pytest

from mainstem.cli import main
from mainstem.cli.failures import ExitCode
from mainstem.pipeline.jobs.context import JobContext

NOWHERE = ("--url", "http://127.0.0.1:9", "--retry", "0")


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch, tmp_path):
    """Fail if a job starts: it would look for the server and for Java."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JobContext, "check", lambda self: pytest.fail("the job was started"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("archive table --commit-rows 0", "--commit-rows"),
        ("archive table --every 0", "--every"),
        ("archive table --once --every 1", "exclude each other"),
        ("audit --sample 2", "--sample"),
        ("export out --columns nope", "--columns: there is no column 'nope'"),
        ("export out --stream a**b", "--stream: 'a**b'"),
        (f"export out --partition {'x' * 2000}", "--partition: a partition name can have at most"),
        ("export out --stream a --partition p", "exclude each other"),
        ("export out --kind event --stream a", "exclude each other"),
        ("export out --messages", "--messages is for ndjson"),
        ("export out --format ndjson --messages --columns data", "--messages is for ndjson"),
        ("export out --since yesterday", "is not a time"),
        ("export dbfs:/out", "dbfs:/out"),
        ("import missing --stream a", "give --format"),
        ("import missing --stream a --partition b", "one of --stream"),
        ("import missing --format csv", "one of --stream"),
        ("import missing --format csv --stream /bad//path", "stream: "),
        (f"import missing --format csv --partition {'x' * 2000}", "partitions: a partition name can have at most"),
        ("import missing --format ndjson --stream-column it's", "cannot be looked up in JSON lines"),
        ("retain missing.toml", "cannot read missing.toml"),
        ("rollup --into /bad//path", "--into"),
        ("rollup --into a --window soon", "--window"),
        ("rollup --into a --lateness soon", "--lateness"),
        ("rollup --into a --by colour", "--by"),
        ("rollup --into a --streams a**b", "--streams: 'a**b'"),
        ("rollup --into a --streams a --partitions b", "--streams or --partitions, not both"),
        ("snapshot newest --partitions **", "there is no reducer 'newest'"),
        ("snapshot no.such:function --partitions **", "cannot be imported"),
        ("snapshot lww --partitions **", "--key"),
        ("snapshot state --key a --partitions **", "are for lww"),
        ("snapshot state", "choose partitions or streams"),
        ("snapshot state --streams a**b", "--streams: 'a**b'"),
    ],
)
def test_an_invalid_option_is_reported_before_anything_starts(arguments, said):
    with pytest.raises(click.ClickException) as error:
        main(["pipeline", *arguments.split(" "), *NOWHERE], prog_name="mainstem", standalone_mode=False)
    assert error.value.exit_code == ExitCode.USAGE
    assert said in error.value.format_message()


def test_an_invalid_policy_is_reported_before_anything_starts(tmp_path):
    (tmp_path / "policies.toml").write_text('[[policy]]\nstreams = "a**b"\nmax_events = 1\n')
    with pytest.raises(click.ClickException, match="policy 1") as error:
        main(["pipeline", "retain", "policies.toml", *NOWHERE], prog_name="mainstem", standalone_mode=False)
    assert error.value.exit_code == ExitCode.USAGE
