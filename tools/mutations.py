"""Put known faults back, one in each run, and look whether the simulator finds them.

    python -m tools.mutations                   # every patch of tests/simulation/mutations
    python -m tools.mutations 01 28 --minutes 2 # those whose names begin so
    python -m tools.mutations --jobs 1          # one at a time; by default, one for each core

Each patch is applied to a scratch copy of `src`, and seeds 1, 2, 3 … are simulated there until one
breaks a promise. A seed counts only if the sources without the patch keep every promise with it.
The exit code is 1 if a patch that is expected to be found is not, or does not apply.

The first line of a patch states in words what it breaks. A line `# Seen as: …` names the promises
by which a simulation can see it; a violation of another one does not count. `# Expected: not found,
because …` explains why no simulation can find it yet.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PATCHES = ROOT / "tests" / "simulation" / "mutations"
STEP_COUNT = 1000
MINUTES = 10.0

_PROMISE, _SEEN, _UNFOUND = "# Breaks: ", "# Seen as: ", "# Expected: not found, because "
_SEARCH = """
import json, sys
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.run import run_plan

seed, last, step_count = map(int, sys.argv[1:])
while last == 0 or seed <= last:
    violation = run_plan(draw_plan(seed, step_count)).violation
    promise = None if violation is None else violation.promise.value
    what = None if violation is None else violation.what
    print(json.dumps([seed, promise, what]), flush=True)
    seed += 1
"""


@dataclass(frozen=True)
class Mutation:
    """A patch that puts a fault back."""

    name: str
    path: Path
    promise: str  # that it breaks, in words
    seen_as: tuple[str, ...]  # the promises that count; none: any
    unfound_because: str | None  # None: a simulation must find it

    @classmethod
    def read(cls, path: Path) -> Mutation:
        lines = path.read_text().splitlines()
        if not lines or not lines[0].startswith(_PROMISE):
            raise ValueError(f"{path.name}: its first line does not begin with {_PROMISE!r}")
        seen = _after(lines, _SEEN)
        return cls(
            path.stem,
            path,
            lines[0].removeprefix(_PROMISE),
            tuple(seen.split(", ")) if seen is not None else (),
            _after(lines, _UNFOUND),
        )


def _after(lines: Sequence[str], beginning: str) -> str | None:
    """The rest of the first line that begins so."""
    return next(
        (line.removeprefix(beginning) for line in lines if line.startswith(beginning)), None
    )


class Violation(NamedTuple):
    """The first promise that a seed broke."""

    seed: int
    promise: str
    what: str
    seconds: float


def mutations(prefixes: Sequence[str] = ()) -> list[Mutation]:
    """All patches, or those whose names begin with one of these."""
    paths = sorted(PATCHES.glob("*.patch"))
    chosen = [path for path in paths if not prefixes or path.name.startswith(tuple(prefixes))]
    return list(map(Mutation.read, chosen))


def apply(mutation: Mutation, folder: Path, *, is_trial: bool = False) -> str | None:
    """Apply the patch to the `src` of a folder, or only try to. What was wrong, or None."""
    command = ["git", "apply", *(["--check"] if is_trial else []), str(mutation.path)]
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else None


@contextmanager
def scratch_sources() -> Iterator[Path]:
    """A folder with a copy of `src`, with its compiled kernels."""
    with tempfile.TemporaryDirectory(prefix="lakebed-mutation-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder


class Simulations:
    """Runs seeds in other processes, and remembers those that fail without any patch."""

    def __init__(self, *, step_count: int, seconds_max: float) -> None:
        self._step_count = step_count
        self._seconds_max = seconds_max
        self._mutex = threading.Lock()
        self._keeps_promises: dict[int, bool] = {}  # guarded by _mutex
        self._running: set[subprocess.Popen[str]] = set()

    def search(self, folder: Path, seen_as: Sequence[str] = ()) -> tuple[Violation | None, int]:
        """The first seed that breaks one of these promises, or any, and not without the patch.

        Also returns how many seeds were run.
        """
        begun, seed_count = time.monotonic(), 0
        with self._answers(folder / "src", first=1, last=0) as lines:
            for line in lines:
                seed, promise, what = json.loads(line)
                seed_count = seed
                seconds = time.monotonic() - begun
                if promise is None:
                    continue
                if seen_as and promise not in seen_as:
                    print(f"seed {seed} breaks another promise, {promise}: {what}", flush=True)
                elif self._is_kept_without(seed):
                    return Violation(seed, promise, what, seconds), seed_count
        if time.monotonic() - begun < self._seconds_max:
            raise RuntimeError("the simulation ended early; its error is above")
        return None, seed_count

    def stop(self) -> None:
        """End the processes of all searches, which then raise."""
        for process in list(self._running):
            process.kill()

    def _is_kept_without(self, seed: int) -> bool:
        with self._mutex:
            if seed not in self._keeps_promises:
                with self._answers(ROOT / "src", first=seed, last=seed) as lines:
                    line = next(lines, '[0, "background-work-ends", "hangs"]')
                _, promise, what = json.loads(line)
                self._keeps_promises[seed] = promise is None
                if promise is not None:
                    print(f"seed {seed} fails without a patch, too: {promise}: {what}", flush=True)
            return self._keeps_promises[seed]

    @contextmanager
    def _answers(self, sources: Path, *, first: int, last: int) -> Iterator[Iterator[str]]:
        """A line for each seed: its number, and the promise that it broke, if any."""
        numbers = map(str, (first, last, self._step_count))
        process = subprocess.Popen(
            [sys.executable, "-c", _SEARCH, *numbers],
            env={**os.environ, "PYTHONPATH": str(sources)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.add(process)
        limit = threading.Timer(self._seconds_max, process.kill)  # also of a seed that hangs
        limit.start()
        try:
            yield iter(process.stdout or ())
        finally:
            limit.cancel()
            process.kill()
            process.communicate()
            self._running.discard(process)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="how the names of the patches begin")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="at most, for each patch")
    parser.add_argument("--steps", type=int, default=STEP_COUNT, help="of each seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="patches at a time")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    simulations = Simulations(step_count=options.steps, seconds_max=options.minutes * 60)
    print(f"{'mutation':42}{'seed':>6}{'seconds':>9}  promise", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            results = list(pool.map(lambda each: _try(each, simulations), mutations(options.names)))
        except BaseException:  # also if this process is told to end
            pool.shutdown(wait=False, cancel_futures=True)
            simulations.stop()
            raise
    return 0 if all(results) else 1


def _try(mutation: Mutation, simulations: Simulations) -> bool:
    """Search with the patch applied, and print a row. Whether the result is the expected one."""
    with scratch_sources() as folder:
        problem = apply(mutation, folder)
        if problem is not None:
            print(f"{mutation.name:42} does not apply: {problem}", flush=True)
            return False
        violation, seed_count = simulations.search(folder, mutation.seen_as)
    if violation is None:
        reason = mutation.unfound_because or "NOT EXPECTED"
        row = f"{'-':>6}{'-':>9}  not found by {seed_count} seeds: {reason}"
    else:
        seed, promise, what, seconds = violation
        row = f"{seed:>6}{seconds:>9.1f}  {promise}: {what}"
    print(f"{mutation.name:42}{row}", flush=True)
    return violation is not None or mutation.unfound_because is not None


if __name__ == "__main__":
    sys.exit(main())
