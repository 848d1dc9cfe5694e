"""Runs a whole store on a simulated machine whose disk, clocks and processes fail, from one seed.

    python -m lakebed.cli simulate --seed 7 --steps 1000

- `plan`: the settings and steps of a run as plain data, drawn from a seed or read from a file;
- `machine`: the simulated machine, on which the store is opened, closed and crashed;
- `operations`: the calls that clients and operators make; `faults`: the faults;
- `clients`: the same calls, encoded and executed as HTTP API requests; responses may get lost;
- `model`: what the store must contain, one module per engine, without I/O;
- `checks`: compares the store with the model each time it is opened, and after quiet time;
- `run`: executes a plan and logs each step; `report` counts operations and faults;
- `shrinker`: removes steps from a failing plan as long as it still breaks the same promise.

No step contains an offset, an id or a path, because those are known only during a run. A step has
numbers instead, by which it picks from what exists when it is executed. So it stays valid when
earlier steps are removed.
"""
