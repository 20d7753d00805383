"""Turns the exceptions of Spark into errors of `mainstem.errors`, without class names and Java stack traces."""

import re
from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import CODE_NOTE, BadOption, BadRow, JobFailed, MainstemError, MissingSpark, error_class
from mainstem.pipeline.spark.session import NICENESS_VARIABLE

STARVED = "Python worker failed to connect back"
OUT_OF_MEMORY = ("java.lang.OutOfMemoryError", "Java heap space")
NO_HADOOP_AWS = ("org.apache.hadoop.fs.s3a.S3AFileSystem not found", 'No FileSystem for scheme "s3a"')
MISSING_MODULE = "No module named 'mainstem"
JAVA_ENDED = ("Error while sending or receiving", "does not exist in the JVM")
STOPPED = "Spark stopped the job: "
TRACEBACK = "Traceback (most recent call last):\n"
CONDITION = re.compile(r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
"""The name that Spark gives an error, such as `[FAILED_READ_FILE.NO_HINT]`."""
CLASS_NAME = re.compile(r"\b(?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error)?: ")
SQL_STATE = re.compile(r"\s*SQLSTATE: [0-9A-Z]{5}")
FILE = re.compile(r"file:(?://)?(/\S+?)[.,]?(?=\s|$)")
SCHEMA_EXAMPLE = 'write the schema as names and types, like "n INT, shop STRING"'


def explain(error: Exception) -> MainstemError:
    """Return the error that a worker raised, found in Spark's report of it; or else a `JobFailed` with the reason."""
    text = str(error)
    found = _find_reported(text)
    if found is not None:
        return found
    if STARVED in text:
        return JobFailed(
            "Spark could not start Python within 10 s because other programs use the whole machine. Run the job again "
            f"when the machine is less busy, or set {NICENESS_VARIABLE}=0, which gives Spark a normal priority"
        )
    if any(sign in text for sign in OUT_OF_MEMORY):
        return JobFailed(
            "Java has not enough memory: give it more with PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell', and "
            "on a cluster with --executor-memory"
        )
    if MISSING_MODULE in text:
        return MissingSpark("the Python of Spark's workers, or of the Spark Connect server, has no module mainstem")
    if any(sign in text for sign in NO_HADOOP_AWS):
        return BadOption("Spark cannot open s3a:// without the package hadoop-aws: write s3://, or add the package")
    if any(sign in text for sign in JAVA_ENDED) or type(error).__name__ == "Py4JNetworkError":
        return JobFailed("Java has ended in the middle of the job, perhaps for lack of memory")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, OSError):  # delta-rs prints one cause per line
        return JobFailed(" ".join(lines)[: limits.JOB_REASON_CHARS_MAX] or type(error).__name__)
    if _is_parse_error(error):  # a schema is the only SQL that a job accepts
        type_ = re.search(r'Unsupported data type "([^"]*)"', text)
        unknown = f"Spark has no type {type_[1]}" if type_ else "the schema is not valid"
        return BadOption(f"{unknown}: {SCHEMA_EXAMPLE}")
    return _explain_file(text) or JobFailed(_find_reason(error, lines))


def explain_query(text: str) -> str:
    """Return why a streaming query has failed, from the text of its exception: a Java stack trace, and perhaps a
    traceback of Python in it."""
    _, traceback, python = text.rpartition(TRACEBACK)
    if traceback and _find_reported(text) is None:
        last = next((line for line in python.splitlines() if line.strip() and not line.startswith((" ", "\t"))), "")
        if last:
            return last[: limits.JOB_REASON_CHARS_MAX]
    return explain(RuntimeError(text)).detail.removeprefix(STOPPED)


def _find_reported(text: str) -> MainstemError | None:
    """Return the last `PipelineError` in a text with tracebacks, where one may be the cause of another."""
    before, note, after = text.rpartition(CODE_NOTE)
    if not note:
        return None
    try:
        facts: dict[str, Any] = msgspec.json.decode(after.partition("\n")[0])
    except msgspec.DecodeError:
        return None
    type_ = error_class(facts.pop("code"))
    said = before.rpartition(f"{type_.__module__}.{type_.__name__}: ")[2].strip()
    return type_(said.removesuffix(f". {type_.hint}"), **facts)


def _explain_file(text: str) -> MainstemError | None:
    """Return an error for a file of the user that Spark cannot read."""
    conditions = set(CONDITION.findall(text))
    file = FILE.search(text)
    where = file[1] if file else "a file"
    if "MALFORMED_CSV_RECORD" in conditions:
        record = re.search(r"Malformed CSV record: (.*?)(?: SQLSTATE|$)", text, re.MULTILINE)
        line = f" ({record[1][:80]})" if record else ""
        return BadRow(f"{where} has a line that does not fit its header{line}: correct the file")
    if "CSV header does not conform to the schema" in text or "Number of column in CSV header" in text:
        return BadOption(f"{where} has another header than the first file: import files with other columns separately")
    if any(condition.startswith("FAILED_READ_FILE") for condition in conditions):
        return BadOption(f"cannot read {where}: it is damaged, or has another format than the import expects")
    return None


def _find_reason(error: Exception, lines: list[str]) -> str:
    """Return the first line of a message and its innermost cause, cleaned of class names."""
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # py4j, before Java's message
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        reason = " ".join([lines[1].removeprefix(": "), *causes[-1:]])
    else:
        reason = lines[0] if lines else "no reason given"
        if not isinstance(error, RuntimeError) and not CONDITION.match(reason):
            reason = f"{type(error).__name__}: {reason}"
    reason = SQL_STATE.sub("", CLASS_NAME.sub("", reason))
    return f"{STOPPED}{reason}"[: limits.JOB_REASON_CHARS_MAX]


def _is_parse_error(error: Exception) -> bool:
    try:
        from pyspark.errors import ParseException
    except ImportError:
        return False
    return isinstance(error, ParseException)
