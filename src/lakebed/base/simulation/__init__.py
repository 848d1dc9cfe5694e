"""A simulated disk, clock and scheduler that follow one seed and can lose power at any step.

- `disk`: the simulated disk, with a page cache that may be lost (`node`, `folders`, `faults`);
- `databases`: SQLite on that disk;
- `scheduler`: the deterministic runner, and `clock`, whose time passes only when all threads wait;
- `world`: the three together, and the restart after a crash;
- `sweep`: runs a scenario with a crash at every I/O step in turn.

A failing run prints its case, such as `LAKEBED_CASE=7:31:power:2`. With that variable set, only the
case runs. The scheduler needs the extra `lakebed[simulation]` (greenlet).
"""
