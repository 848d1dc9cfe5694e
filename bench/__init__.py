"""Benchmarks: ours beside peers and raw limits, measured in turns.

    python -m bench [--quick] [--markdown FILE] [--name NAME] [PATTERN …]

A *row* is one question with several *contestants*. They take turns for some rounds, so that a slow
phase of the machine meets all of them; their medians are compared as ratios to the row's baseline.

To add rows, put a module into this folder with a function `rows()` that gives them:

    def rows() -> Iterator[Row]:
        yield Row(
            name="append/100 B",
            unit="records",
            baseline="peer",
            contestants=[Contestant("lakebed", ours), Contestant("peer", theirs)],
        )

    @contextmanager
    def ours() -> Iterator[Run]:
        with TemporaryDirectory() as folder:
            log = open_log(folder)
            yield lambda: append_many(log)  # returns the number of records

A contestant's setup is called once before the first round, without a clock. It returns a *run*, or
a context manager that gives one and cleans up behind the last round. A run is a callable that does
a piece of work and returns how much it did, in the row's unit; it is called again and again for
the length of a turn. A piece should take at least some ten microseconds. A setup that raises
`Unavailable` (a peer is not installed) is left out, and the table says so.

In a row of *bursts* a turn is one run, and before each turn everybody rests, without a clock: what
was put off to a quiet moment is done then, by all of them.

Nothing here judges a figure: no test depends on a time.
"""
