"""Runs `mainstem pipeline ...` in this process, so that all jobs share one Spark, and returns their summaries."""

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click

from mainstem.cli import main

INTERRUPTED = 130


class JobFailed(Exception):
    pass


class Jobs:
    """The jobs of the server that `MAINSTEM_URL` names. `folder` holds their checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def command(self, job: str, *arguments: str) -> list[str]:
        """Return what a person would type after `mainstem`."""
        return ["pipeline", job, *arguments, "--checkpoint", str(self._folder / job)]

    def run(self, job: str, *arguments: str) -> dict[str, Any]:
        """Run one round and return its summary, even if the round has found faults."""
        printed = io.TextIOWrapper(io.BytesIO(), "utf-8")
        try:
            with redirect_stdout(printed):
                code = main([*self.command(job, *arguments), "--json"], prog_name="mainstem", standalone_mode=False)
        except click.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            if error.exit_code == INTERRUPTED:
                raise KeyboardInterrupt from None
            raise JobFailed(f"{job}: {error.format_message()}") from None
        printed.flush()
        text = printed.buffer.getvalue()
        if not text:
            raise JobFailed(f"{job} ended with {code}")
        summary: dict[str, Any] = json.loads(text)
        return summary


def stop_spark() -> None:
    """Stop the Spark of this process, if it has started one."""
    sql = sys.modules.get("pyspark.sql")
    session = None if sql is None else sql.SparkSession.getActiveSession()
    if session is not None:
        session.stop()
