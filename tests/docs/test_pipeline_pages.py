"""The reference pages of the pipeline list the options, fields and columns of the code, and nothing else."""

import inspect
import re
from importlib import import_module

import click
import msgspec
import pytest

from mainstem.cli.pipeline import JOBS, pipeline
from mainstem.pipeline.datasource.options import READ_OPTIONS, SERVER_OPTIONS, WRITE_OPTIONS
from mainstem.pipeline.jobs.context import Summary
from mainstem.pipeline.jobs.retain.policies import KEYS
from mainstem.pipeline.jobs.specs import KINDS
from mainstem.pipeline.log_schema import LOG_COLUMNS
from mainstem.pipeline.service.file import SCHEDULE_KEYS, SERVER_KEYS, SPARK_KEYS, TOP_KEYS
from mainstem.pipeline.service.status import JobStatus
from mainstem.pipeline.spark.session import JAVA_OPTIONS, LOCAL_CONFS, SQL_CONFS, session
from tests.docs.pages import ROOT

PIPELINE = (ROOT / "docs" / "reference" / "pipeline.md").read_text()
SPARK = (ROOT / "docs" / "reference" / "spark.md").read_text()

SUMMARIES = {
    "archive": ("mainstem.pipeline.jobs.archive", "ArchiveSummary"),
    "import": ("mainstem.pipeline.jobs.import_", "ImportSummary"),
    "export": ("mainstem.pipeline.jobs.export", "ExportSummary"),
    "snapshot": ("mainstem.pipeline.jobs.snapshot.job", "SnapshotSummary"),
    "retain": ("mainstem.pipeline.jobs.retain.job", "RetainSummary"),
    "audit": ("mainstem.pipeline.jobs.audit.job", "AuditSummary"),
    "rollup": ("mainstem.pipeline.jobs.rollup", "RollupSummary"),
}


def section(page: str, title: str) -> str:
    return re.split(r"^## ", page.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text: str, header: str) -> list[str]:
    """Return the first cells of all tables whose first column has this header."""
    tables = re.findall(rf"^\| {re.escape(header)} \|.*\n\|[-|]+\|\n((?:\|.*\n?)+)", text, re.MULTILINE)
    return [row.split("|")[1].strip() for table in tables for row in table.splitlines()]


def names(text: str, header: str) -> list[str]:
    """Return all names in backticks in the first cells, without placeholders such as `--url URL`."""
    return [name.split()[0] for cell in first_cells(text, header) for name in re.findall(r"`([^`]+)`", cell)]


def parameters(job: str) -> dict[str, list[str]]:
    """Return the names of a command's arguments and options."""
    command = pipeline.get_command(click.Context(pipeline), job)
    assert command is not None
    arguments = [
        parameter.human_readable_name for parameter in command.params if parameter.param_type_name == "argument"
    ]
    options = [
        name
        for parameter in command.params
        if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--") and name != "--help"
    ]
    return {"arguments": arguments, "options": options}


def documented_options(text: str) -> list[str]:
    return [name for cell in first_cells(text, "option") for name in re.findall(r"--[a-z-]+", cell)]


COMMON = documented_options(section(PIPELINE, "Options of every job"))


@pytest.mark.parametrize("job", sorted(SUMMARIES))
def test_the_options_of_a_job_are_those_of_its_command(job):
    text = section(PIPELINE, job)
    found = parameters(job)
    assert sorted(documented_options(text)) == sorted(set(found["options"]) - set(COMMON))
    assert [name for name in names(text, "option") if not name.startswith("--")] == found["arguments"]


def test_the_options_of_every_job_are_those_that_all_jobs_share():
    shared = set.intersection(*(set(parameters(job)["options"]) for job in SUMMARIES))
    assert sorted(COMMON) == sorted(shared | {"--dry-run"})


@pytest.mark.parametrize("job", sorted(SUMMARIES))
def test_dry_runs_are_documented(job):
    without = re.search(r"`--dry-run` \| .*; not for (.*) \|", PIPELINE)
    assert without
    assert (job in re.findall(r"`(\w+)`", without[1])) == ("--dry-run" not in parameters(job)["options"])


def test_every_job_has_a_section():
    assert set(JOBS) == {*SUMMARIES, "prepare", "run", "status"}
    assert re.findall(r"^## ([a-z]+)$", PIPELINE, re.MULTILINE) == [
        *("run", "status", "prepare", "archive", "import", "export", "snapshot", "retain", "audit", "rollup")
    ]


@pytest.mark.parametrize("job", sorted(SUMMARIES))
def test_the_fields_of_a_summary_are_those_of_its_struct(job):
    module, name = SUMMARIES[job]
    fields = [field.name for field in msgspec.structs.fields(getattr(import_module(module), name))]
    common = [field.name for field in msgspec.structs.fields(Summary)]
    assert names(section(PIPELINE, "Options of every job"), "field") == common
    assert sorted(names(section(PIPELINE, job), "field")) == sorted(set(fields) - set(common))


def test_the_keys_of_a_file_of_the_service():
    text = section(PIPELINE, "run")
    assert sorted([*names(text, "key of the file"), "server", "spark", "jobs"]) == sorted(TOP_KEYS)
    assert names(text, "key of `[server]`") == list(SERVER_KEYS)
    assert names(text, "key of `[spark]`") == list(SPARK_KEYS)
    assert names(text, "key of `[jobs.NAME]`") == list(SCHEDULE_KEYS)
    assert re.findall(r"`(\w+)`", text.partition("| `job` | ")[2].partition(" |")[0]) == list(KINDS)


def test_the_fields_of_a_status():
    fields = names(section(PIPELINE, "status"), "field of a job")
    assert sorted(fields) == sorted(JobStatus.__struct_fields__)


def test_the_keys_of_a_policy():
    assert sorted(names(section(PIPELINE, "retain"), "key of a `[[policy]]`")) == sorted(KEYS)


def documented_spark_options(title: str) -> list[str]:
    found = names(section(SPARK, title), "option")
    return [name for name in found if not name.endswith("(...)")]


def test_the_options_for_reading():
    assert sorted(documented_spark_options("Reading")) == sorted((*SERVER_OPTIONS, *READ_OPTIONS))


def test_the_options_for_writing():
    assert sorted(documented_spark_options("Writing")) == sorted((*SERVER_OPTIONS, *WRITE_OPTIONS))


def test_the_columns_of_the_log():
    rows = re.findall(
        r"^\| `(\w+)` \| ([A-Z]+(?:&lt;STRING&gt;)?)(, not null)? \|", section(SPARK, "Columns"), re.MULTILINE
    )
    found = {
        name: type_.replace("&lt;", "<").replace("&gt;", ">") + (" NOT NULL" if not_null else "")
        for name, type_, not_null in rows
    }
    assert list(found.items()) == list(LOG_COLUMNS.items())


def test_the_arguments_of_a_session():
    text = section(SPARK, "Session")
    assert names(text, "argument") == list(inspect.signature(session).parameters)
    parameters = [one.replace(annotation=one.empty) for one in inspect.signature(session).parameters.values()]
    plain = str(inspect.Signature(parameters)).replace("'", '"')
    assert f"`mainstem.pipeline.session{plain}`" in text


def test_the_settings_of_a_session():
    chosen = {*SQL_CONFS, *LOCAL_CONFS, JAVA_OPTIONS, "spark.local.dir", "spark.sql.warehouse.dir"}
    assert sorted(names(section(SPARK, "Session"), "setting")) == sorted(chosen)


def test_the_arguments_of_read_archive():
    from mainstem.pipeline import read_archive

    given = ", ".join(
        name if parameter.default is parameter.empty else f"{name}={parameter.default}"
        for name, parameter in inspect.signature(read_archive).parameters.items()
    )
    assert f"read_archive({given})" in PIPELINE.replace("\n", " ")


def test_the_rules_of_an_audit_are_documented():
    """Every rule name in the code of the audit is a kind of fault in the guide, and the other way round."""
    guide = (ROOT / "docs" / "guides" / "audit.md").read_text()
    folder = ROOT / "src" / "mainstem" / "pipeline" / "jobs" / "audit"
    code = "".join((folder / name).read_text() for name in ("rules.py", "scan.py", "archive_check.py"))
    found = set(re.findall(r"(?:_add_violation\(\s*|append\(\(|\[\()\"(\w+)\"", code))
    found |= set(re.findall(r"'(\w+)' AS rule", code))
    found |= set(re.findall(r"THEN (?:IF\([^']*, (?:NULL, )?)?'([a-z_]+)'\)?", code))
    found |= set(re.findall(r"NULL, '([a-z_]+)'\)", code))
    assert sorted(names(guide, "kind of fault")) == sorted(found)
