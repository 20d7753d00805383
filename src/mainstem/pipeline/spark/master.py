"""Chooses the Spark master. It is checked before Java starts, since Java's error does not name it."""

import os
import re

from mainstem.errors import BadOption

MASTER_VARIABLE = "MAINSTEM_SPARK_MASTER"
"""The environment variable for the master, used if the caller does not name one."""

KNOWN = re.compile(r"local|local\[(\*|\d+)(, *\d+)?\]|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")


def choose_master(given: str | None) -> str:
    """Return the given master, or that of the environment, or all cores of this machine."""
    master = given or os.environ.get(MASTER_VARIABLE) or "local[*]"
    if not KNOWN.fullmatch(master):
        raise BadOption(
            f"{master!r} is not a Spark master: give local[*], local[2], spark://host:7077, k8s://..., yarn, or "
            "sc://host:15002"
        )
    return master


def count_cores(master: str) -> int:
    """Return how many tasks a local Spark runs at the same time; for another master, the cores of this machine."""
    found = re.match(r"local\[(\d+)", master)
    if found:
        return int(found[1])
    return 1 if master == "local" else os.cpu_count() or 1
