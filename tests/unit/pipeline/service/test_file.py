import re
from pathlib import Path

import pytest

from mainstem.errors import BadPipelineFile
from mainstem.pipeline.jobs.specs import KINDS, find_spec
from mainstem.pipeline.jobs.specs.archive import ArchiveSpec
from mainstem.pipeline.jobs.specs.export import ExportSpec
from mainstem.pipeline.jobs.specs.rollup import RollupSpec
from mainstem.pipeline.service.file import load_definition, parse_definition

FILE = Path("/etc/mainstem/pipeline.toml")
GOOD = """
state = "state"
parallel = 2
metrics = "127.0.0.1:9464"
timezone = "Europe/Berlin"

[server]
url = "https://log.example.com/"
token_file = "token"
retry = "30s"

[spark]
master = "local[2]"
memory = "2g"
worker_memory = "3g"
conf.spark.sql.shuffle.partitions = 4
conf."spark.ui.enabled" = true

[jobs.lake]
job = "archive"
every = "5m"
table = "../lake"
commit-rows = 1000

[jobs.lake-eu]
job = "archive"
cron = "0 3 * * *"
table = "s3://bucket/lake"

[jobs.counts]
job = "rollup"
into = "counts"
by = ["stream", "type"]
streams = "orders/**"
every = 10

[jobs.files]
job = "export"
output = "/var/out"
format = "csv"
stream = ["a", "b/*"]
since = 2026-01-31T00:00:00Z
before = "2026-02-01"
cron = "0 4 * * *"
timezone = "UTC"
"""


def test_a_file():
    found = parse_definition(GOOD, FILE)
    assert (found.state, found.parallel) == (Path("/etc/mainstem/state"), 2)
    assert found.metrics == ("127.0.0.1", 9464)
    assert (found.server.url, found.server.retry_s) == ("https://log.example.com", 30)
    assert found.server.token_file == "/etc/mainstem/token"
    assert (found.spark.master, found.spark.memory, found.spark.worker_memory) == ("local[2]", "2048m", "3072m")
    assert found.spark.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "true"}
    assert [(job.name, job.kind, str(job.schedule)) for job in found.jobs] == [
        ("lake", "archive", "every 5m"),
        ("lake-eu", "archive", "0 3 * * * (Europe/Berlin)"),
        ("counts", "rollup", "every 10s"),
        ("files", "export", "0 4 * * * (UTC)"),
    ]
    lake, remote, counts, files = (job.spec for job in found.jobs)
    assert lake == ArchiveSpec(table="/etc/lake", commit_rows=1_000)
    assert remote == ArchiveSpec(table="s3://bucket/lake")
    assert counts == RollupSpec(into="counts", by=("stream", "type"), streams=("orders/**",))
    assert files == ExportSpec(
        output="/var/out",
        format="csv",
        stream=("a", "b/*"),
        since=1_769_817_600_000_000,
        before=1_769_904_000_000_000,
    )


def test_the_least_that_a_file_needs():
    found = parse_definition('[jobs.check]\njob = "audit"\nevery = "1d"\n', FILE)
    assert (found.state, found.parallel, found.metrics) == (Path("/etc/mainstem/mainstem-pipeline"), 1, None)
    assert found.server.url is None


def problems(text: str) -> list[str]:
    with pytest.raises(BadPipelineFile) as caught:
        parse_definition(text, Path("pipeline.toml"))
    return caught.value.detail.splitlines()


ARCHIVE = '[jobs.lake]\njob = "archive"\ntable = "t"\nevery = "5m"\n'

WRONG = {
    "unknown option": (
        '[jobs.lake]\njob = "archive"\nevery = "5m"\ntabel = "t"',
        "pipeline.toml:4: unknown option `tabel` of archive; did you mean `table`?",
    ),
    "option of another job": (
        ARCHIVE + 'policies = "x"',
        "pipeline.toml:5: unknown option `policies` of archive; choose one of table, compact,",
    ),
    "unknown job": (
        '[jobs.lake]\nevery = "5m"\njob = "archiv"',
        "pipeline.toml:3: there is no job `archiv`; did you mean `archive`?",
    ),
    "no job": ('\n[jobs.lake]\nevery = "5m"', "pipeline.toml:2: `job` is missing: give one of archive, snapshot,"),
    "same name": (ARCHIVE + ARCHIVE, "pipeline.toml:5: there are two jobs named lake: give one of them another name"),
    "name": (ARCHIVE.replace("lake", '"Big Lake"'), "pipeline.toml:1: 'Big Lake' is not a name for a job: use a to z"),
    "both schedules": (
        ARCHIVE + 'cron = "0 3 * * *"',
        'pipeline.toml:5: the job says when it runs twice: give either `every = "5m"` or `cron = ',
    ),
    "no schedule": (
        '[jobs.check]\njob = "audit"',
        "pipeline.toml:1: the job does not say when it runs: give either `every",
    ),
    "duration": (
        '[jobs.check]\njob = "audit"\nevery = "5 minutes"',
        "pipeline.toml:3: `every` must be a duration, such as 30s, 5m, 2h or 1d",
    ),
    "cron": (
        '[jobs.check]\njob = "audit"\ncron = "0 3 * *"',
        "pipeline.toml:3: '0 3 * *' is not a cron expression: give minute, hour,",
    ),
    "time zone": ('timezone = "Berlin"\n' + ARCHIVE, "pipeline.toml:1: there is no time zone 'Berlin': give one such"),
    "time zone of a job": (
        '[jobs.check]\njob = "audit"\ncron = "0 3 * * *"\ntimezone = "CST6"',
        "pipeline.toml:4: there is no time zone 'CST6'",
    ),
    "time zone of every": (ARCHIVE + 'timezone = "UTC"', "pipeline.toml:5: `timezone` is for `cron`, not for `every`"),
    "missing option": (
        '[jobs.lake]\njob = "archive"\nevery = "5m"',
        "pipeline.toml:1: the option `table` of archive is missing",
    ),
    "type": (ARCHIVE + 'vacuum = "1w"', "pipeline.toml:5: `vacuum` must be a whole number of at least 1, not '1w'"),
    "bounds": (ARCHIVE + "vacuum = 0", "pipeline.toml:5: `vacuum` must be a whole number of at least 1, not 0"),
    "switch": (ARCHIVE + "compact = 1", "pipeline.toml:5: `compact` must be true or false, not 1"),
    "share": (
        '[jobs.check]\njob = "audit"\nevery = "1d"\nsample = 1.5',
        "pipeline.toml:4: `sample` must be a number from 0 to 1, not 1.5",
    ),
    "choice": (
        '[jobs.out]\njob = "export"\nevery = "1d"\noutput = "o"\nformat = "parket"',
        "pipeline.toml:5: `format` must be parquet, delta, ndjson or csv, not 'parket'; did you mean `parquet`?",
    ),
    "time": (
        '[jobs.out]\njob = "export"\nevery = "1d"\noutput = "o"\nsince = "yesterday"',
        "pipeline.toml:5: `since` must be a time, such as 2026-01-31 or 2026-01-31T12:00:00Z, not 'yesterday'",
    ),
    "partition": (
        '[jobs.out]\njob = "export"\nevery = "1d"\noutput = "o"\npartition = ["a", "' + "b" * 500 + '"]',
        "pipeline.toml:5: `partition`: ",
    ),
    "glob": (
        '[jobs.snap]\njob = "snapshot"\nreducer = "state"\nevery = "1d"\nstreams = "a/***"',
        "pipeline.toml:5: `streams`: 'a/***':",
    ),
    "options that exclude each other": (
        '[jobs.in]\njob = "import"\nsource = "*.csv"\nevery = "1d"\nstream = "a"\npartition = "b"',
        "pipeline.toml:5: give exactly one of `stream`, `stream_column`, `partition`, `partition_column`",
    ),
    "policies": (
        '[jobs.keep]\njob = "retain"\nevery = "1d"\npolicies = "/nowhere/policies.toml"',
        "pipeline.toml:1: cannot read /nowhere/policies.toml: No such file or directory",
    ),
    "twice": (ARCHIVE + "commit-rows = 5\ncommit_rows = 6", "pipeline.toml:6: `commit_rows` is there twice"),
    "parallel": ("parallel = 0\n" + ARCHIVE, "pipeline.toml:1: `parallel` must be a whole number from 1 to 16, not 0"),
    "metrics": ('metrics = "9464"\n' + ARCHIVE, "pipeline.toml:1: `metrics` must be an address and a port, such as"),
    "memory": (
        '[spark]\nmemory = "2x"\n' + ARCHIVE,
        "pipeline.toml:2: `memory` must be a size, such as \"2g\", not '2x'",
    ),
    "worker memory": (
        '[spark]\nworker_memory = "1g"\n' + ARCHIVE,
        "pipeline.toml:2: `worker_memory` must be a size of at",
    ),
    "master": ('[spark]\nmaster = "loca"\n' + ARCHIVE, "pipeline.toml:2: 'loca' is not a Spark master: give local[*]"),
    "url": ('[server]\nurl = "log:80"\n' + ARCHIVE, "pipeline.toml:2: `url` must be the URL of a server, such as"),
    "token": (
        '[server]\ntoken = "secret"\n' + ARCHIVE,
        "pipeline.toml:2: a token does not belong in a file: use `token_file`, or set MAINSTEM_TOKEN",
    ),
    "key": ("stat = 1\n" + ARCHIVE, "pipeline.toml:1: unknown key `stat` of the file; did you mean `state`?"),
    "key of spark": ('[spark]\nmem = "2g"\n' + ARCHIVE, "pipeline.toml:2: unknown key `mem` of [spark]; "),
    "job without jobs": (
        '[lake]\njob = "archive"\n' + ARCHIVE,
        "pipeline.toml:1: unknown key `lake` of the file; a job is",
    ),
    "array": ('[[jobs]]\nname = "lake"', "pipeline.toml:1: `jobs` must be a table: write [jobs.NAME]"),
    "value": ("[jobs]\nlake = 1", "pipeline.toml:2: write a job as a table: [jobs.lake]"),
    "empty": ("", "pipeline.toml:1: the file defines no job: add one under [jobs.NAME]"),
    "syntax": ("state = \n" + ARCHIVE, "pipeline.toml:1: this is not valid TOML; write key = value"),
    "key twice": ("parallel = 1\nparallel = 2\n", "pipeline.toml:2: this key or table is there twice"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_the_line_and_the_way_out(case):
    text, said = WRONG[case]
    found = problems(text)
    assert found[0].startswith(said), found
    assert len(found) == 1, found


def test_all_problems_are_named_in_the_order_of_their_lines():
    found = problems('parallel = 0\n[jobs.a]\njob = "archive"\ntabel = 1\nevery = "x"\n[jobs.b]\njob = "b"')
    assert [int(re.match(r"pipeline.toml:(\d+): ", line)[1]) for line in found] == [1, 4, 5, 7]  # type: ignore[index]


def test_a_secret_is_not_repeated():
    assert "secret" not in str(problems('[server]\ntoken = "secret"\n' + ARCHIVE))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadPipelineFile, match=r"cannot read .*none.toml: No such file"):
        load_definition(tmp_path / "none.toml")
    (tmp_path / "latin").write_bytes(b"state = '\xe4'")
    with pytest.raises(BadPipelineFile, match="is not UTF-8"):
        load_definition(tmp_path / "latin")
    (tmp_path / "big").write_bytes(b"#" * 2**20 + b"\n")
    with pytest.raises(BadPipelineFile, match="is larger than"):
        load_definition(tmp_path / "big")


def test_every_kind_of_job_can_be_defined():
    assert {find_spec(kind).__name__ for kind in KINDS} == set(KINDS.values())
