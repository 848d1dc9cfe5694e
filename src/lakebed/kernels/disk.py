"""The operating system's disk, with the kernels for writes and syncs.

This module passes the write functions of `lakebed.kernels`, which release the interpreter lock if
they are compiled, to the disk of `lakebed.base`. Every store on a real disk uses this module.

If the Python kernels are used because there are no usable compiled ones, the first use of the disk
in a process logs a warning to the logger `lakebed.kernels`. The command line and programs without
logging print the warning on standard error, and in the log of a node it is the event
`kernels_not_compiled`. There is no warning if `LAKEBED_KERNELS` requests the Python kernels.
"""

from __future__ import annotations

import logging
from functools import cache

from lakebed.base.files.real import RealDisk, Writers
from lakebed.kernels import MISSING_REASON, write_and_sync, zero_fill

COST = "10 to 40 times on small records; checksums of 30 MB/s"  # docs/limits.md has the figures
REMEDY = "install lakebed again where there is a C compiler, or from a wheel for this Python"


def real_disk() -> RealDisk:
    """Returns the operating system's disk.

    The first call in a process logs a warning if the compiled kernels are missing or out of date.
    """
    if MISSING_REASON:
        _report_missing_kernels()
    return RealDisk(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))


@cache
def _report_missing_kernels() -> None:
    logging.getLogger("lakebed.kernels").warning(
        "the compiled kernels are not installed, and the Python ones are slower (%s): %s (%s)",
        COST,
        REMEDY,
        MISSING_REASON,
        extra={
            "event": "kernels_not_compiled",
            "facts": {"cost": COST, "remedy": REMEDY, "reason": MISSING_REASON},
        },
    )
