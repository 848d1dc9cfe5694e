"""What a process holds, looked at each second: memory and descriptors, and whether they grow.

The first quarter of a run fills caches and is not looked at. The median of the second is compared
with that of the last.
"""

from __future__ import annotations

import os
import threading
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple, Self

from lakebed.base.units import KIB, MIB

GROWTH_PERCENT_MAX: Final = 15
GROWTH_BYTES_MAX: Final = 32 * MIB
GROWTH_DESCRIPTORS_MAX: Final = 24

_EACH_S: Final = 1.0


class Sample(NamedTuple):
    """`resident_bytes` with the pages of mapped files, `own_bytes` without them."""

    resident_bytes: int
    own_bytes: int
    descriptors: int


class Trend(NamedTuple):
    """Medians of the second and of the last quarter."""

    what: str
    before: float
    after: float
    highest: int

    def __str__(self) -> str:
        scale, unit = (1, "") if self.what == "descriptors" else (MIB, " MiB")
        before, after, highest = (one / scale for one in self[1:])
        return f"{self.what}: {before:.1f} -> {after:.1f}{unit}, at most {highest:.1f}{unit}"

    @property
    def is_flat(self) -> bool:
        if self.what == "descriptors":
            return self.after - self.before <= GROWTH_DESCRIPTORS_MAX
        allowed = self.before * GROWTH_PERCENT_MAX / 100 + GROWTH_BYTES_MAX
        return self.after - self.before <= allowed


class Memory:
    """Samples of the process from when it is entered until it is left."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def trends(self) -> list[Trend]:
        return [
            trend(name, [getattr(one, field) for one in self.samples])
            for name, field in (
                ("resident", "resident_bytes"),
                ("its own", "own_bytes"),
                ("descriptors", "descriptors"),
            )
        ]

    def course(self) -> str:
        """Its own memory, by tenths of the time."""
        sizes = [one.own_bytes / MIB for one in self.samples]
        edges = [len(sizes) * tenth // 10 for tenth in range(11)]
        parts = [sizes[start:end] for start, end in pairwise(edges) if start < end]
        return " ".join(f"{median(part):.0f}" for part in parts) + " MiB"

    def _watch(self) -> None:
        while not self._over.wait(_EACH_S):
            self.samples.append(sample(self._pid))


def sample(pid: int) -> Sample:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    sizes = {
        name: int(text.split()[0]) * KIB
        for name, _, text in (line.partition(":") for line in lines)
        if name in ("VmRSS", "RssAnon")
    }
    return Sample(sizes["VmRSS"], sizes["RssAnon"], len(os.listdir(f"/proc/{pid}/fd")))


def trend(what: str, values: list[int]) -> Trend:
    quarter = len(values) // 4
    assert quarter, f"only {len(values)} samples"
    before, after = values[quarter : 2 * quarter], values[-quarter:]
    return Trend(what, median(before), median(after), max(values))
