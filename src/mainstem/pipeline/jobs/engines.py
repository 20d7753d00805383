"""What carries out an import or export: Spark, or this process without Java."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, Literal, TypeVar, get_args

from mainstem import limits
from mainstem.errors import BadOption

if TYPE_CHECKING:
    from mainstem.pipeline.jobs.context import JobContext
    from mainstem.pipeline.lake.import_source import SourceFile

T = TypeVar("T")
EngineName = Literal["spark", "local"]
Engine = Literal["auto", "spark", "local"]
"""`auto` chooses `local` for less than `limits.LOCAL_BYTES_MAX`, if it can do the work exactly as Spark would."""

ENGINES: Final[tuple[Engine, ...]] = get_args(Engine)


class EngineChoice:
    """Which engine a round uses. It begins without Spark if that is asked for or the files are small."""

    def __init__(self, context: JobContext, engine: Engine) -> None:
        self.context = context
        self._asked = engine
        self.name: EngineName = "spark" if engine == "spark" else "local"

    def weigh(self, files: Iterable[SourceFile]) -> None:
        """Choose Spark for files that are large together."""
        if self._asked == "auto" and sum(file.size for file in files) > limits.LOCAL_BYTES_MAX:
            self.name = "spark"

    def run(self, locally: Callable[[], T], in_spark: Callable[[], T]) -> T:
        """Return the result of one engine. What only Spark can do, it does, with all that follows."""
        if self.name == "local":
            from mainstem.pipeline.lake.spark_types import SparkNeeded

            try:
                return locally()
            except SparkNeeded as needed:
                if self._asked == "local":
                    raise BadOption(f"this import needs Spark, since {needed}: leave out --engine local") from None
                self.context.notify(f"this import uses Spark, since {needed}")
                self.name = "spark"
        return in_spark()

    def find_spark_version(self) -> str:
        """Return the version that decides how files are split. Without Spark, follow the one that is installed."""
        if self.name == "spark":
            return self.context.spark.version
        try:
            return version("pyspark")
        except PackageNotFoundError:
            return "none"
