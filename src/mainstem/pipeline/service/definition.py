"""What a file of the service defines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mainstem import limits

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.specs.options import JobSpec
    from mainstem.pipeline.service.schedules import Schedule


class Endpoint(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True)
class ServerDefinition:
    """The server; without a URL, the one of the environment or of the current context."""

    url: str | None = None
    token_file: str | None = None
    retry_s: float = limits.PIPELINE_RETRY_S


@dataclass(frozen=True)
class SparkDefinition:
    master: str | None = None
    memory: str = "1g"
    """The heap of the driver, which in a local Spark runs the tasks as well."""
    worker_memory: str | None = None
    """The address space of each Python worker."""
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobDefinition:
    name: str
    kind: str
    spec: JobSpec
    schedule: Schedule


@dataclass(frozen=True)
class Definition:
    """A whole file. Locations in it are absolute."""

    file: Path
    state: Path
    parallel: int
    metrics: Endpoint | None
    server: ServerDefinition
    spark: SparkDefinition
    jobs: tuple[JobDefinition, ...]
