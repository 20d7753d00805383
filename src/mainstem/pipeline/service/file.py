"""Reads the file of the service. Every error names the file, the line, and the way out; all of them are reported."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from mainstem import limits
from mainstem.errors import BadOption, BadPipelineFile, BadPolicy, MainstemError
from mainstem.pipeline.jobs.specs import KINDS, find_spec
from mainstem.pipeline.jobs.specs.options import JobOption, JobSpec, list_options, suggest
from mainstem.pipeline.service.definition import (
    Definition,
    JobDefinition,
    ServerDefinition,
    SparkDefinition,
)
from mainstem.pipeline.service.schedules import Schedule, check_timezone, parse_cron, parse_every
from mainstem.pipeline.service.toml_lines import find_line, find_lines
from mainstem.pipeline.service.values import (
    read_conf,
    read_endpoint,
    read_memory,
    read_number,
    read_retry,
    read_text,
    read_url,
    read_worker_memory,
)
from mainstem.pipeline.spark.master import choose_master

TOP_KEYS = ("state", "parallel", "metrics", "timezone", "server", "spark", "jobs")
SERVER_KEYS = ("url", "token_file", "retry")
SPARK_KEYS = ("master", "memory", "worker_memory", "conf")
SCHEDULE_KEYS = ("job", "every", "cron", "timezone")
"""The keys that every job has, besides its options."""
NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
OPTION = re.compile(r"--([a-z]+(?:-[a-z]+)*)")

Table = dict[str, Any]
T = TypeVar("T")


def load_definition(path: Path) -> Definition:
    """Return what a file defines. Raises `BadPipelineFile`, which names every line that is wrong."""
    try:
        if path.stat().st_size > limits.PIPELINE_FILE_BYTES_MAX:
            raise BadPipelineFile(f"{path} is larger than {limits.PIPELINE_FILE_BYTES_MAX} bytes, the limit of a file")
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadPipelineFile(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadPipelineFile(f"{path} is not UTF-8") from None
    return parse_definition(text, path)


def parse_definition(text: str, path: Path) -> Definition:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPipelineFile(_explain_syntax(path, text, str(error))) from None
    return _Reader(document, text, path).read()


def _explain_syntax(path: Path, text: str, reason: str) -> str:
    found = re.search(r"\(at line (\d+), column \d+\)", reason)
    line = int(found[1]) if found else len(text.splitlines()) or 1
    twice = re.match(r"Cannot declare \('jobs', '([^']+)'\) twice", reason)
    if twice:
        return f"{path}:{line}: there are two jobs named {twice[1]}: give one of them another name"
    if reason.startswith("Cannot "):
        return f"{path}:{line}: this key or table is there twice"
    return f"{path}:{line}: this is not valid TOML; write key = value, with text in quotes, under [jobs.NAME]"


class _Reader:
    """Reads one document and collects the problems with it."""

    def __init__(self, document: Table, text: str, path: Path) -> None:
        self._document = document
        self._lines = find_lines(text)
        self._path = path
        self._folder = path.absolute().parent
        self._problems: list[tuple[int, str]] = []

    def read(self) -> Definition:
        top = self._document
        self._check_keys(top, TOP_KEYS, (), "the file")
        timezone = self._take(top, ("timezone",), "UTC", read_text, "the name of a time zone, such as Europe/Berlin")
        self._try(lambda: check_timezone(timezone), "timezone")
        definition = Definition(
            file=self._path,
            state=Path(
                self._locate(self._take(top, ("state",), "./mainstem-pipeline", read_text, "a directory in quotes"))
            ),
            parallel=self._take(
                top,
                ("parallel",),
                1,
                read_number(1, limits.PIPELINE_PARALLEL_MAX),
                f"a whole number from 1 to {limits.PIPELINE_PARALLEL_MAX}",
            ),
            metrics=self._take(
                top, ("metrics",), None, read_endpoint, 'an address and a port, such as "127.0.0.1:9464"'
            ),
            server=self._read_server(),
            spark=self._read_spark(),
            jobs=self._read_jobs(timezone),
        )
        if self._problems:
            raise BadPipelineFile("\n".join(f"{self._path}:{line}: {said}" for line, said in sorted(self._problems)))
        return definition

    # Tables

    def _read_server(self) -> ServerDefinition:
        table = self._table("server")
        if "token" in table:
            self._add("a token does not belong in a file: use `token_file`, or set MAINSTEM_TOKEN", "server", "token")
            del table["token"]
        self._check_keys(table, SERVER_KEYS, ("server",), "[server]")
        token_file = self._take(table, ("server", "token_file"), None, read_text, "a file in quotes")
        return ServerDefinition(
            url=self._take(
                table, ("server", "url"), None, read_url, 'the URL of a server, such as "http://127.0.0.1:4437"'
            ),
            token_file=None if token_file is None else self._locate(token_file),
            retry_s=self._take(
                table,
                ("server", "retry"),
                limits.PIPELINE_RETRY_S,
                read_retry,
                'a duration of up to a day, such as "2m"',
            ),
        )

    def _read_spark(self) -> SparkDefinition:
        table = self._table("spark")
        self._check_keys(table, SPARK_KEYS, ("spark",), "[spark]")
        master = self._take(table, ("spark", "master"), None, read_text, 'a Spark master, such as "local[2]"')
        self._try(lambda: choose_master(master), "spark", "master")
        conf = self._take(table, ("spark", "conf"), {}, read_conf, "a table of settings")
        return SparkDefinition(
            master=master,
            memory=self._take(table, ("spark", "memory"), SparkDefinition.memory, read_memory, 'a size, such as "2g"'),
            worker_memory=self._take(
                table, ("spark", "worker_memory"), None, read_worker_memory, 'a size of at least "2g", such as "3g"'
            ),
            conf=conf,
        )

    def _read_jobs(self, timezone: str) -> tuple[JobDefinition, ...]:
        jobs = self._table("jobs")
        if not jobs and not self._problems:
            self._add("the file defines no job: add one under [jobs.NAME]")
        if len(jobs) > limits.PIPELINE_JOBS_MAX:
            self._add(f"there are {len(jobs)} jobs; a file may have {limits.PIPELINE_JOBS_MAX}", "jobs")
        read = [self._read_job(name, table, timezone) for name, table in jobs.items()]
        return tuple(job for job in read if job is not None)

    def _read_job(self, name: str, table: Any, timezone: str) -> JobDefinition | None:
        where = ("jobs", name)
        if not isinstance(table, dict):
            self._add(f"write a job as a table: [jobs.{name}]", *where)
            return None
        if not NAME.fullmatch(name) or len(name) > limits.JOB_NAME_CHARS_MAX:
            self._add(
                f"{name!r} is not a name for a job: use a to z, 0 to 9, dots, dashes and underscores, at most "
                f"{limits.JOB_NAME_CHARS_MAX} of them",
                *where,
            )
        kind = table.get("job")
        if not isinstance(kind, str) or kind not in KINDS:
            known = ", ".join(KINDS)
            if kind is None:
                self._add(f"`job` is missing: give one of {known}", *where)
            else:
                shown = kind if isinstance(kind, str) else repr(kind)
                self._add(f"there is no job `{shown}`{_suggest_or_list(shown, list(KINDS))}", *where, "job")
            return None
        schedule = self._read_schedule(where, table, timezone)
        spec = self._read_spec(where, kind, table)
        return None if schedule is None or spec is None else JobDefinition(name, kind, spec, schedule)

    def _read_schedule(self, where: tuple[str, ...], table: Table, timezone: str) -> Schedule | None:
        every, cron = table.get("every"), table.get("cron")
        if (every is None) == (cron is None):
            said = "says when it runs twice: give" if every is not None else "does not say when it runs: give"
            self._add(f'the job {said} either `every = "5m"` or `cron = "0 3 * * *"`', *where, "cron")
            return None
        own = self._take(table, (*where, "timezone"), timezone, read_text, "the name of a time zone")
        if cron is not None:
            if isinstance(cron, str):
                return self._try(lambda: parse_cron(cron, own), *where, "timezone" if own != timezone else "cron")
            self._add("`cron` must be an expression in quotes", *where, "cron")
            return None
        if "timezone" in table:
            self._add("`timezone` is for `cron`, not for `every`", *where, "timezone")
        if isinstance(every, bool) or not isinstance(every, str | int | float):
            self._add("`every` must be a duration, such as 30s, 5m, 2h or 1d", *where, "every")
            return None
        return self._try(lambda: parse_every(every), *where, "every")

    def _read_spec(self, where: tuple[str, ...], kind: str, table: Table) -> JobSpec | None:
        spec = find_spec(kind)
        options = {option.name: option for option in list_options(spec)}
        before = len(self._problems)
        given: dict[str, Any] = {}
        meant: set[str] = set()
        for key, value in table.items():
            name = key.replace("-", "_")
            if name in options:
                if name in given:
                    self._add(f"`{name}` is there twice, with a dash and with an underscore", *where, key)
                given[name] = self._read_option(options[name], value, (*where, key))
            elif name not in SCHEDULE_KEYS:
                known = [*options, *SCHEDULE_KEYS]
                meant.update(get_close_matches(name, known, n=1))
                self._add(f"unknown option `{key}` of {kind}{_suggest_or_list(name, known)}", *where, key)
        for name, option in options.items():
            if option.required and name not in given and name not in meant:
                self._add(f"the option `{name}` of {kind} is missing", *where)
        if len(self._problems) > before:
            return None
        made = spec(**given)
        return made if self._check_job(made, where, table) else None

    def _read_option(self, option: JobOption, value: Any, where: tuple[str, ...]) -> Any:
        try:
            read = option.read_value(value)
        except ValueError:
            said = f"`{where[-1]}` must be {option.describe_values()}, not {_show(value)}"
            close = suggest(value, option.choices) if isinstance(value, str) else ""
            self._add(said + close, *where)
            return None
        return self._locate(read) if option.declared.location else read

    def _check_job(self, spec: JobSpec, where: tuple[str, ...], table: Table) -> bool:
        """Make the job once, so that options that do not fit each other are found now."""
        try:
            spec.make_job()
        except (BadOption, BadPolicy) as error:
            names = [name.replace("-", "_") for name in OPTION.findall(error.detail)]
            key = next((key for key in table if key.replace("-", "_") in names), None)
            said = OPTION.sub(lambda found: f"`{found[1].replace('-', '_')}`", error.detail)
            self._add(said, *where, *([] if key is None else [key]))
            return False
        return True

    # Values

    def _table(self, name: str) -> Table:
        found = self._document.get(name, {})
        if isinstance(found, dict):
            return found
        self._add(f"`{name}` must be a table: write [{name}{'.NAME' if name == 'jobs' else ''}]", name)
        return {}

    def _take(
        self, table: Table, where: tuple[str, ...], default: Any, convert: Callable[[Any], Any], wanted: str
    ) -> Any:
        key = where[-1]
        if key not in table:
            return default
        try:
            return convert(table[key])
        except ValueError:
            self._add(f"`{key}` must be {wanted}, not {_show(table[key])}", *where)
            return default

    def _try(self, work: Callable[[], T], *where: str) -> T | None:
        """Return the result, or note the reason of the error that it raises."""
        try:
            return work()
        except MainstemError as error:
            self._add(error.detail, *where)
        except ValueError as error:
            self._add(str(error), *where)
        return None

    def _check_keys(self, table: Mapping[str, Any], known: Sequence[str], where: tuple[str, ...], name: str) -> None:
        for key in table:
            if key not in known:
                hint = suggest(key, known)
                if not where and isinstance(table[key], dict) and not hint:
                    hint = f"; a job is a table [jobs.{key}]"
                self._add(f"unknown key `{key}` of {name}{hint or _list(known)}", *where, key)

    def _locate(self, location: str) -> str:
        """Return a path relative to the file as an absolute one. URIs stay as they are."""
        return location if "://" in location else os.path.normpath(self._folder / Path(location).expanduser())

    def _add(self, said: str, *where: str) -> None:
        self._problems.append((find_line(self._lines, *where), said))


def _suggest_or_list(name: str, known: Sequence[str]) -> str:
    return suggest(name, known) if get_close_matches(name, known, n=1) else _list(known)


def _list(known: Sequence[str]) -> str:
    return f"; choose one of {', '.join(known)}"


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."
