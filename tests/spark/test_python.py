"""The Python of Spark's workers: this one, with the installed pyspark."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from mainstem.pipeline.spark.python import worker_python

SEE = "import os, sys; print(sys.executable); print(os.environ['PYTHONPATH']); print(sys.argv[1:])"


def test_sparks_own_zips_are_dropped_and_other_entries_are_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    entries = [
        "/spark/python/lib/pyspark.zip",
        "/a b/*",
        "/spark/python/lib/py4j-0.10.9.9-src.zip",
        "/mine/pyspark.zip",
    ]
    environment = os.environ | {"PYTHONPATH": ":".join(entries)}
    command = [worker_python({}), "-c", SEE, "one", "two three", "*"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [sys.executable, "/a b/*:/mine/pyspark.zip", "['one', 'two three', '*']"]


def test_another_spark_keeps_its_zip():
    assert worker_python({"SPARK_HOME": "/opt/spark"}) == sys.executable


def test_workers_import_the_installed_pyspark(spark):
    def where(rows):
        import pyspark

        yield pyspark.__file__

    assert spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect() == [pyspark.__file__]
    assert Path(os.environ["PYSPARK_PYTHON"]).read_text().startswith("#!/bin/sh")
