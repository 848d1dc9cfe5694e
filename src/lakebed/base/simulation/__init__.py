"""A simulated disk, clock and scheduler, driven by one seed, that can crash at any step.

- `disk`: the simulated disk, with a page cache that may be lost (`node`, `folders`, `faults`);
- `databases`: SQLite on that disk;
- `scheduler`: the deterministic runner; `clock`: its time passes only while all threads wait;
- `world`: a machine with all of these, and its restart after a crash;
- `sweep`: runs a scenario with a crash at every I/O step in turn.

The error of a failed sweep states the case that failed, such as `LAKEBED_CASE=7:31:power:2`. If the
environment variable `LAKEBED_CASE` is set, a sweep runs only that case. The scheduler needs the
extra `lakebed[simulation]` (greenlet).
"""
