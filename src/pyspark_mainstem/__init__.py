"""Spark imports every module named `pyspark_*` and registers its `DefaultSource`: here, the format `mainstem`."""

from mainstem.pipeline.datasource.source import MainstemSource as DefaultSource

__all__ = ["DefaultSource"]
