"""Where the tests' stores lie: in memory if there is room, otherwise where the system puts them.

On a disk a test mostly waits for its syncs. No test can observe what a sync does, for that takes a
loss of power: tests of that use the simulated disk. `make test-slow` sets TMPDIR, and so runs the
same tests on a disk.
"""

from __future__ import annotations

import os
import tempfile
from typing import Final

IN_MEMORY: Final = "/dev/shm"
FREE_BYTES_MIN: Final = 6 << 30
"""Runs of single folders held 1.4 GiB at most when looked at; a whole run was not measured."""


def use_memory() -> None:
    """Set TMPDIR, for this process and for those it starts, unless it is set already."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = IN_MEMORY
        tempfile.tempdir = None  # found out again when it is needed


def _has_room() -> bool:
    try:
        found = os.statvfs(IN_MEMORY)
    except OSError:
        return False
    runs_programs = not found.f_flag & os.ST_NOEXEC  # tests build and install some
    free_bytes = found.f_bavail * found.f_frsize
    return runs_programs and free_bytes >= FREE_BYTES_MIN and os.access(IN_MEMORY, os.W_OK)
