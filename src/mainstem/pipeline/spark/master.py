"""Which Spark master to use. It is checked before Java starts, since Java does not name a wrong one."""

import os
import re

from mainstem.errors import BadOption

MASTER_VARIABLE = "MAINSTEM_SPARK_MASTER"
"""The environment variable that names the master when the caller does not."""

KNOWN = re.compile(r"local|local\[(\*|\d+)(, *\d+)?\]|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")


def choose_master(given: str | None) -> str:
    """The master that was given, that of the environment, or all cores of this machine."""
    master = given or os.environ.get(MASTER_VARIABLE) or "local[*]"
    if not KNOWN.fullmatch(master):
        raise BadOption(
            f"{master!r} is no master of Spark: give local[*], local[2], spark://host:7077, k8s://..., yarn, or "
            "sc://host:15002"
        )
    return master
