"""Compares this tree with an earlier commit: the same rows, in interleaved pairs, as ratios.

    python -m bench.compare --base REV --row 's3/GET 1 KiB/16 clients' --row NEW=OLD --pairs 10

One process per tree sets a row up and then takes a turn whenever it is its turn, so both sides of a
pair run within seconds of each other; which side goes first alternates. Rates are by the clock;
processor time, of the process and of the servers it started, is steadier on a busy machine. Only
our own contestant of each row runs ("lakebed", or the one named with `--contestant`). A row that
was renamed is given as NEW=OLD. The ratio of a row is the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

HERE = Path(__file__).parent.parent

# Runs in either tree, with that tree's own benchmarks.
WORKER = """
import json, os, sys, time
from contextlib import AbstractContextManager, ExitStack
from bench.__main__ import all_rows

name, contestant, turn_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
out, sys.stdout = sys.stdout, sys.stderr
row = next(row for row in all_rows() if row.name == name)
ours = next(c for c in row.contestants if c.name == contestant)
tick_s = 1 / os.sysconf("SC_CLK_TCK")

def processor_s():
    # Of this process and its children that still run: servers, but no load generator that ended.
    total_s = time.process_time()
    for task in os.listdir("/proc/self/task"):
        for pid in open(f"/proc/self/task/{task}/children").read().split():
            fields = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
            total_s += (int(fields[11]) + int(fields[12])) * tick_s
    return total_s

with ExitStack() as stack:
    run = ours.setup()
    if isinstance(run, AbstractContextManager):
        run = stack.enter_context(run)
    run()
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        if hasattr(run, "rest"):
            run.rest()
        work, start_s, start_processor_s = 0.0, time.perf_counter(), processor_s()
        while True:
            work += run()
            elapsed_s = time.perf_counter() - start_s
            if elapsed_s >= turn_s:
                break
        turn = work / elapsed_s, (processor_s() - start_processor_s) / work
        print(json.dumps(turn), file=out, flush=True)
"""


class Turn(NamedTuple):
    rate: float
    processor_s: float  # for one unit of work


class Pair(NamedTuple):
    before: Turn
    after: Turn

    @property
    def ratio(self) -> float:
        """Of the rates: above 1 is faster than before."""
        return self.after.rate / self.before.rate

    @property
    def processor_ratio(self) -> float:
        """Of the work for one second of processor time: above 1 is cheaper than before."""
        return self.before.processor_s / self.after.processor_s


class Side:
    """One tree's process for one row."""

    def __init__(self, tree: Path, row: str, contestant: str, turn_s: float) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "LAKEBED_KERNELS": "compiled"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, row, contestant, str(turn_s)],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._read() != "ready":
            raise SystemExit(f"{tree}: the row {row!r} could not be set up")

    def turn(self) -> Turn:
        self._stream(self._process.stdin).write("turn\n")
        self._stream(self._process.stdin).flush()
        return Turn(*json.loads(self._read()))

    def stop(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        return self._stream(self._process.stdout).readline().strip()

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None, "both are pipes"
        return stream


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with _tree_of(options.base) as base:
        print("| row | before | after | ratio (median of pairs) | lowest | highest | by CPU |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for row in options.row:
            new, _, old = row.partition("=")
            pairs = _pairs(base, old or new, new, options)
            ratios = sorted(pair.ratio for pair in pairs)
            before = statistics.median(pair.before.rate for pair in pairs)
            after = statistics.median(pair.after.rate for pair in pairs)
            print(
                f"| {new} | {before:,.0f} | {after:,.0f} | {statistics.median(ratios):.3f} "
                f"| {ratios[0]:.3f} | {ratios[-1]:.3f} "
                f"| {statistics.median(pair.processor_ratio for pair in pairs):.3f} |",
                flush=True,
            )
    return 0


def _pairs(base: Path, old: str, new: str, options: argparse.Namespace) -> list[Pair]:
    before = Side(base, old, options.contestant, options.turn_s)
    after = Side(HERE, new, options.contestant, options.turn_s)
    pairs = []
    try:
        for number in range(options.pairs):
            if number % 2:
                turn_after = after.turn()
                pairs.append(Pair(before.turn(), turn_after))
            else:
                pairs.append(Pair(before.turn(), after.turn()))
    finally:
        before.stop()
        after.stop()
    return pairs


@contextmanager
def _tree_of(revision: str) -> Iterator[Path]:
    """The sources of a commit, with their kernels compiled, in a folder that is removed after."""
    with tempfile.TemporaryDirectory(prefix="lakebed-before-") as folder:
        archive = subprocess.run(
            ["git", "archive", revision], cwd=HERE, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        tree = Path(folder)
        subprocess.run(
            [sys.executable, "-m", "lakebed.kernels.build"],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src"), "LAKEBED_KERNELS": "reference"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield tree


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--base", required=True, metavar="REV", help="the commit to compare with")
    parser.add_argument("--row", action="append", required=True, metavar="NEW[=OLD]")
    parser.add_argument("--contestant", default="lakebed", help="whose turns are compared")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--turn-s", type=float, default=1.0, help="the least length of a turn")
    return parser


if __name__ == "__main__":
    sys.exit(main())
