"""The plan of an import: its files in groups, and the file in the checkpoint that holds it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.lake.import_source import ImportSource, SourceFile
from mainstem.pipeline.log_reader import Position


class ImportRequest(msgspec.Struct, frozen=True):
    """Identifies an import. Its hash names the import's directory in the checkpoint."""

    source: ImportSource
    target: dict[str, str]
    """Options of the sink."""
    name: str = ""
    url: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The files of an import in groups. It is stored in the checkpoint."""

    request: ImportRequest = msgspec.field(name="asked")
    schema: str | None
    groups: list[list[SourceFile]]
    done: int = 0
    """How many groups have been written."""
    reached: Position | None = None
    """The head of the log when the plan was last stored; None in the plan of an older version."""
    spark_version: str = ""
    """The Spark whose way of splitting files the import follows; empty in the plans of older releases."""


class PlanFile:
    """The file with the plan of an import, in a separate directory below the checkpoint."""

    def __init__(self, checkpoint: Path, request: ImportRequest) -> None:
        name = hashlib.sha256(msgspec.json.encode(request)).hexdigest()[:16]
        self.folder = checkpoint.absolute() / name
        self._path = self.folder / "plan.json"

    def read(self) -> Plan | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Plan)
        except FileNotFoundError:
            return None

    def write(self, plan: Plan) -> None:
        replace_file(self._path, msgspec.json.encode(plan))
