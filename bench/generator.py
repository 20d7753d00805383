"""Starts the load generator in a process of its own; the runner must not take part of its interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.jobs import AnyJob, Figures, decode_figures, encode_job

GRACE_S = 10.0


class LoadFailed(Exception):
    """The generator saw something wrong; the scenario has no figure."""


def run_load(job: AnyJob) -> Figures:
    command = [sys.executable, "-m", "bench.load", encode_job(job)]
    root = Path(__file__).parent.parent
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, timeout=job.limit_s + GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(f"{type(job).__name__} took longer than {job.limit_s:.0f} s") from error
    if done.returncode != 0:
        raise LoadFailed(done.stderr.decode(errors="replace").strip())
    return decode_figures(done.stdout)
