"""Registers the format `mainstem`: Spark imports every module named `pyspark_*` and uses its `DefaultSource`."""

from mainstem.pipeline.datasource.data_source import MainstemDataSource as DefaultSource

__all__ = ["DefaultSource"]
