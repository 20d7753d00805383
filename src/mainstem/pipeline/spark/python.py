"""The Python that runs the workers of a local Spark."""

import hashlib
import os
import shlex
import sys
from collections.abc import Mapping

from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.spark.shims import install_shim

# Spark puts a zip of pyspark ahead of the installed package. Python cannot cache bytecode for a zip, so every worker
# would compile pyspark again, which takes longer than everything else it does before its first row.
SHIM = """#!/bin/sh
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
  case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept=$kept${{kept:+:}}$entry ;;
  esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python(environment: Mapping[str, str] = os.environ) -> str:
    """Return a program that runs this Python with the installed pyspark.

    If `SPARK_HOME` is set, return this Python itself: that Spark may have another version, whose workers need its zip.
    """
    if environment.get("SPARK_HOME") or os.name != "posix":
        return sys.executable
    shim = user_cache_dir("python") / hashlib.sha256(sys.executable.encode()).hexdigest()[:16]
    install_shim(shim, SHIM.format(python=shlex.quote(sys.executable)))
    return str(shim)
