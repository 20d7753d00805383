"""Background work has a low priority, and so does everything that it starts."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainstem.background_priority import enter_background

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities on Linux only")
SHOW = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)"


def start_program(niceness: int) -> str:
    enter_background(niceness)
    return subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True).stdout.strip()


def niceness_of_this_thread() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_thread_lowers_its_priority_and_that_of_its_programs_and_no_other():
    before = niceness_of_this_thread()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(start_program, before + 3).result() == f"{before + 3} True"
    assert niceness_of_this_thread() == before
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_priority_is_never_raised():
    before = niceness_of_this_thread()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(enter_background, before + 5).result()
        pool.submit(enter_background, before + 1).result()
        assert pool.submit(niceness_of_this_thread).result() == before + 5
