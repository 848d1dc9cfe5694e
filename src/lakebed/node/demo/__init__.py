"""The guided run behind `lakebed demo`: it shows what exists, with counts that must agree.

1. `writer`, in a process of its own, appends AOF2 records through the group-commit barrier and
   tells each acknowledgement over a pipe; then it is killed (-9).
2. `verify` scans what it left and looks for every record that was acknowledged.
3. `power_cut` repeats the same on the simulated disk, cutting the power at every I/O step.
4. The same scan as a Spark job, one task per file.
"""

from lakebed.node.demo.tour import run

__all__ = ["run"]
