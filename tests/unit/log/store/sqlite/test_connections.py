import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mainstem import limits
from mainstem.errors import StoreLocked
from mainstem.log.store.sqlite.connections import DirectoryLock
from tests.support.waits import eventually


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def lock_as(process: int, directory: Path) -> int:
    """Lock a directory in the name of another process, like a process that it has forked."""
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, f"{process}\n".encode())
    return file


def test_a_lock_of_a_dead_process_is_waited_for(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held = lock_as(dead, tmp_path)
    polls: list[float] = []
    monkeypatch.setattr("mainstem.log.store.sqlite.connections.time.sleep", polls.append)
    lock = DirectoryLock(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lock.acquire)
        eventually(lambda: len(polls) > 2)
        assert not waiting.done()
        os.close(held)
        waiting.result()
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_the_wait_for_a_dead_process_ends(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_S_MAX", 0.05)
    held = lock_as(dead, tmp_path)
    with pytest.raises(StoreLocked, match=f"in use by process {dead}"):
        DirectoryLock(tmp_path).acquire()
    os.close(held)


def test_a_lock_of_a_running_process_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = lock_as(os.getppid(), tmp_path)
    monkeypatch.setattr("mainstem.log.store.sqlite.connections.time.sleep", pytest.fail)
    with pytest.raises(StoreLocked, match=f"in use by process {os.getppid()}"):
        DirectoryLock(tmp_path).acquire()
    os.close(held)
