"""Spark imports every module named `pyspark_*` and registers its `DefaultSource`: here, the format `mainstem`."""

from mainstem.pipeline.datasource.data_source import MainstemDataSource as DefaultSource

__all__ = ["DefaultSource"]
