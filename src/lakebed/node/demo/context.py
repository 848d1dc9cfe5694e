"""The state of one demo run, shared by its stations."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakebed.base.clock import NS_PER_S
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.node.demo.checks import Check
from lakebed.node.demo.scale import Scale
from lakebed.spark.jobs.watcher import Watcher


@dataclass(kw_only=True)
class DemoContext:
    """The state of one run. The stations add to `checks`, `rates` and `left_out`."""

    folder: Path  # the scratch folder, which contains the store
    watcher: Watcher
    runner: Runner
    scale: Scale
    seed: int
    checks: list[Check] = field(default_factory=list)
    rates: dict[str, int] = field(default_factory=dict)  # what is counted → number per second
    left_out: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.folder / "store"

    def report(self, station: str, text: str) -> None:
        self.watcher.report_line(f"{station:<10}{text}")

    def leave_out(self, station: str, why: str) -> None:
        self.left_out.append(f"{station}: {why}")
        self.report(station, f"skipped: {why}")

    def check(self, what: str, *, expected: int, found: int) -> None:
        self.checks.append(Check(what, expected, found))

    def now_ns(self) -> int:
        return self.runner.clock.monotonic_ns()

    def seconds_since(self, began_ns: int) -> float:
        return max(self.now_ns() - began_ns, 1) / NS_PER_S

    def rate(self, what: str, count: int, began_ns: int) -> int:
        """Returns `count` per second since `began_ns`, and keeps it for the summary."""
        self.rates[what] = round(count / self.seconds_since(began_ns))
        return self.rates[what]


def mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.1f} MiB"
