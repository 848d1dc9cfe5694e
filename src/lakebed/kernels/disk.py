"""The real disk, with writing and syncing done by the kernels.

`lakebed.base` has the disk and `lakebed.kernels` the calls without the interpreter lock; this is
where the two meet.
"""

from __future__ import annotations

from lakebed.base.files.real import RealDisk, Writers
from lakebed.kernels import write_and_sync, zero_fill


def real_disk() -> RealDisk:
    """The operating system's disk."""
    return RealDisk(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
