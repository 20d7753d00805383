"""Find Electric's Rust server, or build it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

CRATE = "durable-streams"
CRATE_VERSION = "0.1.5"
PROGRAM = "durable-streams-server"
BUILD_S_MAX = 1_800.0


class MissingElectric(Exception):
    """The server is not on PATH, and cannot be built here."""


def find_electric(folder: Path) -> str:
    """Return the path of the server: from PATH, from the cache, or built into the cache if cargo is installed."""
    built = folder / "bin" / PROGRAM
    if built.exists():
        return str(built)
    on_path = shutil.which(PROGRAM)
    if on_path is not None:
        return on_path
    cargo = shutil.which("cargo")
    if cargo is None:
        raise MissingElectric(f"{PROGRAM} is not on PATH, and there is no cargo to build it with")
    print(f"building {CRATE} {CRATE_VERSION}, which takes a few minutes", file=sys.stderr, flush=True)
    command = [cargo, "install", "--locked", "--quiet", "--root", str(folder), "--version", CRATE_VERSION, CRATE]
    try:
        subprocess.run(command, check=True, timeout=BUILD_S_MAX, stdin=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise MissingElectric(f"{CRATE} {CRATE_VERSION} could not be built: {error}") from error
    return str(built)


def read_version(folder: Path) -> str:
    """Return the version that was built. The server itself has no option that prints it."""
    try:
        installed = json.loads((folder / ".crates2.json").read_text())["installs"]
    except FileNotFoundError:
        return f"{PROGRAM} from PATH"
    return " ".join(next(name for name in installed if name.startswith(f"{CRATE} ")).split()[:2])
