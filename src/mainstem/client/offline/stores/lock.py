"""One client per store: a lock file beside the store, which the kernel releases when its owner dies."""

import fcntl
import os
from pathlib import Path

from mainstem.client.offline.core.errors import StoreInUse, WrongStore


class StoreLock:
    def __init__(self, store: Path) -> None:
        self.store = store
        self._file: int | None = None

    def acquire(self) -> None:
        try:
            file = os.open(f"{self.store}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            hint = "Check the path and its permissions; the directory must exist."
            raise WrongStore(f"cannot use {self.store}: {error.strerror}", hint=hint) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise StoreInUse(f"another client is using {self.store} (process {holder})") from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
