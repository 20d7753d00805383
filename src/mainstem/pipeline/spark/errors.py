"""Turns what Spark raises into errors of `mainstem.errors`."""

import re

from mainstem import errors, limits
from mainstem.errors import BadOption, JobFailed, MainstemError
from mainstem.pipeline.spark.session import NICENESS_VARIABLE

STARVED = "Python worker failed to connect back"

# Spark tells of an error in Python code by its traceback as text, at times within another one.
OURS = re.compile(r"mainstem\.errors\.(\w+): (.+)")


def explain(error: Exception) -> MainstemError:
    """The error of ours within what Spark says; else the first line of what it says that means something."""
    text = str(error)
    found = OURS.findall(text)
    if found:
        name, detail = found[-1]
        type_ = getattr(errors, name, None)
        if isinstance(type_, type) and issubclass(type_, MainstemError):
            return type_(detail.strip().removesuffix(f". {type_.hint}"))
    if STARVED in text:
        return JobFailed(
            "Spark could not start Python within 10 s: other programs take the whole machine. Run the job again when "
            f"it is less busy, or with {NICENESS_VARIABLE}=0, so that Spark gives way to nobody"
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if isinstance(error, OSError):  # of delta-rs: causes, one a line
        return JobFailed(" ".join(lines)[: limits.JOB_REASON_CHARS_MAX] or type(error).__name__)
    if type(error).__name__ == "ParseException":  # the only words of SQL that a job takes
        return BadOption(f"Spark does not understand the schema: {lines[0]}")
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # py4j, before what Java says
        causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
        said = " ".join([lines[1].removeprefix(": "), *causes[-1:]])
        return JobFailed(said[: limits.JOB_REASON_CHARS_MAX])
    return JobFailed(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}")
