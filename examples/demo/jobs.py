"""Runs `mainstem pipeline ...` within this process, so that all jobs share one Spark, and reads what it prints."""

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
    """The jobs of one server. `folder` keeps their places in the log."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def command(self, job: str, *arguments: str) -> list[str]:
        """What a person would type after `mainstem`."""
        checkpoint = str(self._folder / job)
        return ["pipeline", job, *arguments, "--url", self._url, "--checkpoint", checkpoint]

    def run(self, job: str, *arguments: str) -> dict[str, Any]:
        """The summary of one round. A round that has found faults has one too."""
        said = io.TextIOWrapper(io.BytesIO(), "utf-8")
        try:
            with redirect_stdout(said):
                code = main([*self.command(job, *arguments), "--json"], prog_name="mainstem", standalone_mode=False)
        except click.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            if error.exit_code == INTERRUPTED:
                raise KeyboardInterrupt from None
            raise JobFailed(f"{job}: {error.format_message()}") from None
        said.flush()
        text = said.buffer.getvalue()
        if not text:
            raise JobFailed(f"{job} ended with {code}")
        found: dict[str, Any] = json.loads(text)
        return found


def stop_spark() -> None:
    """End the Spark of this process, if one was started."""
    sql = sys.modules.get("pyspark.sql")
    session = None if sql is None else sql.SparkSession.getActiveSession()
    if session is not None:
        session.stop()
