"""What importing dree says of memory."""

import os
import platform
import subprocess
import sys

import pytest

FREED = """
import dree
arrays = [b"x" * 2**20 for _ in range(64)]
del arrays
print(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
"""


def resident(**variables: str) -> float:
    """MiB that a process has, after it had and freed 64 more."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", FREED]
    done = subprocess.run(command, env={**others, **variables}, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="only glibc has this setting")
def test_freed_memory_is_kept_unless_the_user_has_an_own_mind():
    assert resident() > 64
    assert resident(MALLOC_MMAP_THRESHOLD_="131072") < 48
    assert resident(GLIBC_TUNABLES="glibc.malloc.trim_threshold=131072") < 48
