"""A process that keeps its freed memory does not ask the system for each large block."""

import subprocess
import sys

import pytest

COUNT = """
import ctypes, resource, sys
from mainstem import freed_memory
if not hasattr(ctypes.CDLL(None), "mallopt"):
    print("none")
    sys.exit()
def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        blocks = [bytearray(12 * 2**20) for _ in range(3)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
count_faults()
plain = count_faults()
freed_memory.keep_freed_memory()
count_faults()
print(plain, count_faults())
"""


def test_large_blocks_are_used_again():
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    if done.stdout.strip() == "none":
        pytest.skip("this C library has no mallopt")
    plain, kept = map(int, done.stdout.split())
    assert kept < plain / 10
