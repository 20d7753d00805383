"""The state directory of a service: what outlives a restart, and the lock that keeps a second service out.

`jobs/NAME/` is the checkpoint of a job, and `rounds/NAME.json` what the service knows about it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from mainstem.errors import BadPipelineFile, PipelineLocked
from mainstem.pipeline.durable_files import replace_file
from mainstem.pipeline.process_locks import find_holder, hold_lock


class LastRound(msgspec.Struct, frozen=True, kw_only=True):
    """A round that has ended."""

    started_s: float
    seconds: float
    rows: int = 0
    committed_id: int | None = None
    lag: int | None = None
    faults: int = 0
    error: str | None = None


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """What the service remembers of a job. Times are in seconds since 1970."""

    job: str
    schedule: str
    """As the file had it: if it changes, `next_s` is computed again."""
    next_s: float
    running_s: float | None = None
    """When the current round started; a service that was killed leaves it behind."""
    rounds: int = 0
    failures: int = 0
    """Failed rounds since the last one that did not fail."""
    committed_id: int | None = None
    """The position of the last round that did not fail."""
    success_s: float | None = None
    last: LastRound | None = None


class StateDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path / "lock"

    def checkpoint(self, name: str) -> Path:
        return self.path / "jobs" / name

    def read(self, name: str) -> JobState | None:
        path = self._file(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=JobState)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError:
            raise BadPipelineFile(
                f"{path} is damaged, or of another version: remove it, and the job {name} runs as if for the first time"
            ) from None

    def write(self, name: str, state: JobState) -> None:
        replace_file(self._file(name), msgspec.json.encode(state))

    def _file(self, name: str) -> Path:
        return self.path / "rounds" / f"{name}.json"

    def lock(self) -> AbstractContextManager[None]:
        """Return a block that holds the lock of the directory. It raises `PipelineLocked` if another service does."""
        return hold_lock(
            self._lock, lambda holder: PipelineLocked(f"the state directory {self.path} is in use by {holder}")
        )

    def find_holder(self) -> int | None:
        """Return the process of the service that runs now, or None if none does."""
        return find_holder(self._lock)
