"""Turns what Spark raises into errors of `mainstem.errors`."""

from typing import Any

import msgspec

from mainstem import limits
from mainstem.errors import CODE_NOTE, BadOption, JobFailed, MainstemError, error_class
from mainstem.pipeline.spark.session import NICENESS_VARIABLE

STARVED = "Python worker failed to connect back"


def explain(error: Exception) -> MainstemError:
    """The error of a worker within what Spark raises; else a `JobFailed` with the line of it that says most."""
    text = str(error)
    found = _find_reported(text)
    if found is not None:
        return found
    if STARVED in text:
        return JobFailed(
            "Spark could not start Python within 10 s: other programs take the whole machine. Run the job again when "
            f"it is less busy, or with {NICENESS_VARIABLE}=0, so that Spark gives way to nobody"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, OSError):  # of delta-rs: causes, one a line
        return JobFailed(" ".join(lines)[: limits.JOB_REASON_CHARS_MAX] or type(error).__name__)
    if _is_parse_error(error):  # the only SQL that a job takes is a schema
        return BadOption(f"Spark does not understand the schema: {lines[0]}")
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # py4j, before what Java says
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        said = " ".join([lines[1].removeprefix(": "), *causes[-1:]])
        return JobFailed(said[: limits.JOB_REASON_CHARS_MAX])
    return JobFailed(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")


def _find_reported(text: str) -> MainstemError | None:
    """The last `PipelineError` in a text with tracebacks, where one may be the cause of another."""
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


def _is_parse_error(error: Exception) -> bool:
    try:
        from pyspark.errors import ParseException
    except ImportError:
        return False
    return isinstance(error, ParseException)
