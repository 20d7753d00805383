"""Starts a local Spark without the lines that Java and Spark print before the first result."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainstem.pipeline.cache_dir import user_cache_dir
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.spark.java import make_quiet_home

CONFIGURATION = b"""# Spark prints errors only. `mainstem.pipeline.session` has written this file.
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
LOCAL_ADDRESS = "SPARK_LOCAL_IP"


def has_logging_configuration() -> bool:
    """Return whether the user has configured the logging of Spark."""
    folders = [os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME") and f"{os.environ['SPARK_HOME']}/conf"]
    return any(folder and Path(folder, "log4j2.properties").is_file() for folder in folders)


def install_configuration() -> Path:
    """Write the configuration of log4j into the cache, unless it is there, and return its path."""
    path = user_cache_dir("java") / "log4j2.properties"
    if not path.is_file() or path.read_bytes() != CONFIGURATION:
        replace_file(path, CONFIGURATION)
    return path


@contextmanager
def use_quiet_java() -> Iterator[None]:
    """Let Spark's launcher, during the block, run Java without the modules that make Java print a warning.

    The launcher also looks for an address of this machine, and prints what it finds, unless the environment names one.
    """
    named = {"JAVA_HOME": str(make_quiet_home(Path(os.environ["JAVA_HOME"]))), LOCAL_ADDRESS: "127.0.0.1"}
    before = {name: os.environ.get(name) for name in named}
    if before[LOCAL_ADDRESS] is not None:
        del named[LOCAL_ADDRESS]
    os.environ.update(named)
    try:
        yield
    finally:
        for name in named:
            kept = before[name]
            if kept is None:
                del os.environ[name]
            else:
                os.environ[name] = kept
