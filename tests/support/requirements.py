"""What a test needs from the machine. Where it is missing the test is skipped and names it; in CI it fails."""

import os
import shutil
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))


def miss(what: str, remedy: str) -> NoReturn:
    """Skip this test because of something that is missing."""
    pytest.skip(f"needs {what} ({remedy})")


def find_program(name: str, remedy: str) -> str:
    """The path of a program, which may also be one that only root has on its PATH."""
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")
    return program or miss(name, remedy)
