"""The whole store under one seed: everything a client can do, everything that can go wrong.

    python -m lakebed.cli simulate --seed 7 --steps 1000

- `plan`: settings and steps as plain data, drawn from a seed or read from a file;
- `machine`: a simulated machine with a store on it, opened, closed and crashed;
- `operations`: what clients do, one module per engine; `faults`: what goes wrong;
- `clients`: the same calls through the encoded API, with answers that are lost or come twice;
- `model`: what must hold, one module per engine, with no I/O;
- `checks`: compares the store with the model after each opening, and in quiet time;
- `run`: carries out a plan; `trace` is the story of it, `report` the table of what met what;
- `shrinker`: removes steps while the same promise stays broken.

Steps name no offset, id or file that only a run knows: they pick by number from what is there when
they are carried out. So a step keeps its meaning when others before it are removed.
"""
