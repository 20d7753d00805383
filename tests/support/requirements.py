"""What a test needs from the machine. If it is missing, the test is skipped and names it; in CI the test fails."""

import os
import shutil
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))


def miss(what: str, remedy: str) -> NoReturn:
    """Skip this test, and name what is missing."""
    pytest.skip(f"needs {what} ({remedy})")


def find_program(name: str, remedy: str) -> str:
    """Return the path of a program, which may also be one that only root has on its PATH."""
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    return program or miss(name, remedy)
