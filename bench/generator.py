"""Start the load generator in its own process, so that the runner does not share its interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.load_jobs import AnyJob, Figures, decode_figures, encode_job

GRACE_S = 10.0
ROOT = Path(__file__).parent.parent


class LoadFailed(Exception):
    """The generator got an unexpected reply or failed, so the scenario has no figure."""


def run_load(job: AnyJob) -> Figures:
    return run_module("bench.load", encode_job(job), name=type(job).__name__, limit_s=job.limit_s, grace_s=GRACE_S)


def run_module(module: str, *arguments: object, name: str, limit_s: float, grace_s: float = 0) -> Figures:
    """Run `python -m module`, which prints figures as JSON. It is killed `grace_s` after its `limit_s`."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=module_environment(), capture_output=True, timeout=limit_s + grace_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{name} took longer than {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip()[-2_000:])
    return decode_figures(done.stdout)


def module_environment() -> dict[str, str]:
    """Return the environment of a module. Spark's workers have another working directory, but need this package too."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)}
