"""The results of the demo, also as JSON, and commands that the user may try next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakebed.node.demo.checks import Check, disagreeing
from lakebed.node.demo.events import TOPIC
from lakebed.node.demo.group import GROUP
from lakebed.node.demo.landing import TABLE
from lakebed.node.demo.tiers import LOG, TierSizes


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of a run. `rates` are per second, `sizes` in bytes. `plot` and `folder` are
    paths, or None.
    """

    seed: int
    is_compiled: bool
    seconds: float
    checks: tuple[Check, ...]
    rates: Mapping[str, int]
    sizes: Mapping[str, int]
    tiers: tuple[TierSizes, ...]
    power_cuts: int = 0
    left_out: tuple[str, ...] = ()
    plot: str | None = None
    folder: str | None = None  # the scratch folder, if it was kept
    next_steps: tuple[str, ...] = field(default=())

    @property
    def is_good(self) -> bool:
        """Whether all checks agree, and there is at least one."""
        return bool(self.checks) and not disagreeing(self.checks)

    def document(self) -> dict[str, object]:
        return {
            "ok": self.is_good,
            "seed": self.seed,
            "kernels_compiled": self.is_compiled,
            "seconds": round(self.seconds, 1),
            "checks": [{**one._asdict(), "agrees": one.agrees} for one in self.checks],
            "rates_per_second": dict(self.rates),
            "bytes": dict(self.sizes),
            "tiers": [one._asdict() for one in self.tiers],
            "power_cuts": self.power_cuts,
            "left_out": list(self.left_out),
            "plot": self.plot,
            "folder": self.folder,
            "next": list(self.next_steps),
        }


def next_steps(root: Path | None, *, program: str, has_table: bool) -> tuple[str, ...]:
    """Returns commands that the user may try next. If `root` is None, because the store was
    removed, returns the command that runs the demo and keeps the store.
    """
    if root is None:
        return (f"{program} demo --scratch lakebed-demo",)
    of_root = f"{program} --root {shlex.quote(str(root))}"
    steps = [
        f"topic describe {TOPIC}",
        f"group describe {TOPIC} {GROUP}",
        f"aof tiers {LOG}",
        f"manifest history {LOG} 0",
        "verify",
    ]
    if has_table:
        history = shlex.quote(str(root.parent / "history"))
        steps.append(f"s3 ls {TABLE}/ --recursive")
        steps.append(f"spark run tier-history {LOG} --output {history}")
    return tuple(f"{of_root} {step}" for step in [*steps, "serve"])
