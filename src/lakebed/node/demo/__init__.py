"""The guided run behind `lakebed demo`: it shows what exists, with counts that must agree.

1. `writer`, in a process of its own, appends to two logs of a store and tells each
   acknowledgement over a pipe; then it is killed (-9).
2. The store is opened again, and `verify` looks for every record that was acknowledged.
3. `queue` produces messages and has a consumer group settle them, across a restart.
4. `objects` puts objects into a bucket from many threads, and reads them back.
5. `power_cut` repeats the same on the simulated disk, cutting the power at every I/O step.
6. A Spark job verifies every checksum of the segments, one task per file.
7. Every segment goes to Tier 2 and off the local disk, and is read from there.
"""

from lakebed.node.demo.tour import run

__all__ = ["run"]
